"""CHECK constraints of the team's own on a state table, and the columns that they name.

Delta changes no column that a constraint names, and says so only once it is asked to.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import InputError
from partitioning.function.sql import quoted


def checked_columns(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the columns of a table that such constraints name, each with one of them."""
    found, stored = {}, state.schema(spark, path)
    for name, sql in constraints.of(spark, path).items():
        if name.startswith(constraints.OURS):
            continue
        for column in stored.fieldNames():
            # Without the column Spark does not understand the constraint.
            others = StructType([f for f in stored if f.name != column])
            try:
                spark.createDataFrame([], others).where(sql)
            except AnalysisException:
                found[column] = name
    return found


def refuse_checked(checked: Mapping[str, str], change: str, column: str, where: str) -> None:
    """Refuse to change a column that such a constraint names.

    Parameters
    ----------
    checked : as from `checked_columns`
    change : what is to be done with the column, as a verb
    where : the table, for the error

    Raises
    ------
    InputError : names the constraint
    """
    if (name := checked.get(column)) is not None:
        raise InputError(
            f"cannot {change} column {column!r}: the constraint {name} names it",
            where,
            f"ALTER TABLE ... DROP CONSTRAINT {quoted(name)}, then run this again",
        )
