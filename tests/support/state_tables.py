"""What tests do to a state table, or ask of it, that no job needs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from evenkeel.registry.files.records import Membership
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.delta.state import python_dict, snapshot, sql_name
from partitioning.function.function import PartitioningFunction
from tests.conftest import World
from tests.support.placed import KEYS, Placed


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


def by_hand(spark: SparkSession, home: Placed, statement: str) -> None:
    """Give a statement, whose {} is the table."""
    spark.sql(statement.format(sql_name(home.path())))


def assert_placed(spark: SparkSession, home: Placed, migration: Migration) -> None:
    """Every row once, where the plan's function says, with what was in it."""
    rows = home.rows(spark)
    keys = [f"k{i}" for i in range(KEYS)]
    assert {k: rows[k][1] for k in keys} == {f"k{i}": i for i in range(KEYS)}
    owners = migration.after.lookup(list(rows))
    assert [c for c, _ in rows.values()] == owners.tolist()


def assert_under(
    spark: SparkSession, home: Placed, function: PartitioningFunction
) -> dict[str, tuple[int, int]]:
    """Every key is where the function puts it, under its constraint alone; return the rows."""
    assert home.constraints(spark) == {constraints.epoch_name(function.epoch)}
    rows = home.rows(spark)
    assert rows.keys() >= {f"k{i}" for i in range(KEYS)}
    assert [c for c, _ in rows.values()] == function.lookup(list(rows)).tolist()
    return rows


def put_members(world: World, *names: str) -> None:
    """Have a copied registry know the copies of these tables in state/, not their originals."""
    table = world.table
    for name in names:
        table.registry.files.member(name).write(
            Membership(
                epoch=table.epoch().number,
                function=table.epoch().function.digest,
                path=str(world.folder / "state" / name),
                left=False,
            )
        )
