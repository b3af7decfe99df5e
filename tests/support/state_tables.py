"""What tests do to a state table, or ask of it, that no job needs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.delta.state import python_dict, snapshot, sql_name


def drop_constraint(spark: SparkSession, path: str, name: str) -> bool:
    """Drop a CHECK constraint. Return False if there is none."""
    if name not in constraints.of(spark, path):
        return False
    spark.sql(f"ALTER TABLE {sql_name(path)} DROP CONSTRAINT {name}")
    return True


def spent_transaction(spark: SparkSession, path: str, app: str) -> int | None:
    """Return the highest transaction version that `app` has committed; None: it never wrote."""
    version = python_dict(spark, snapshot(spark, path).transactions()).get(app)
    return None if version is None else int(version)
