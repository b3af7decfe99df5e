"""A team's Iceberg tables from adoption to release, by the jobs themselves."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.maintain import steps as maintain_steps
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.release import release
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs import learn
from evenkeel_spark.migration.fence import Migration, approved_migration
from evenkeel_spark.tables.iceberg.table import IcebergTable
from tests.conftest import World

pytestmark = pytest.mark.spark
NAMES = ("orders", "profiles")


def content(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    spark.sql(f"REFRESH TABLE lake.db.{name}")
    rows = spark.table(f"lake.db.{name}")
    names = sorted(c for c in rows.columns if not c.startswith("slot_") and c != "channel")
    return sorted(tuple(map(str, r)) for r in rows.select(names).collect())


def both(spark: SparkSession) -> dict[str, list[tuple[Any, ...]]]:
    return {name: content(spark, name) for name in NAMES}


def placed(spark: SparkSession, team: World) -> bool:
    epoch = team.table.epoch()
    for name in NAMES:
        spark.sql(f"REFRESH TABLE lake.db.{name}")
        rows = spark.table(f"lake.db.{name}").toPandas()
        if not (rows["channel"] == epoch.lookup(rows["dest"])).all():
            return False
        if not (rows[epoch.slot_column] == epoch.lookup_slot(rows["dest"])).all():
            return False
    return True


def planned(spark: SparkSession, team: World, name: str, **params: Any) -> Migration:
    """Learn and plan."""
    learn._body(spark, team.table, Namespace(run=name, end=None, relearn="no"))
    steps.decide(team.spec_path, name, asked := Params(force=True, **params))
    digest = steps.plan(team.spec_path, name, asked)
    steps.validate_plan(team.spec_path, name)
    return approved_migration(team.table, name, digest)


def test_adopted_rebalanced_maintained_and_released(lake: SparkSession, team: World) -> None:
    before = both(lake)
    adopt(lake, team.table)
    assert both(lake) == before and placed(lake, team)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    assert team.table.epoch().number == 0 and placed(lake, team)
    verify(lake, migration)
    assert team.table.epoch().number == 1
    assert both(lake) == before and placed(lake, team)
    for _, step in maintain_steps(lake, team.table):
        step()
    assert both(lake) == before and placed(lake, team)
    release(lake, team.table, drop_columns=True)
    assert both(lake) == before
    for name in NAMES:
        table = IcebergTable(lake, f"lake.db.{name}")
        assert not [p for p in table.properties() if "evenkeel" in p]
        assert table.partitions() == (["day"] if name == "orders" else [])


def test_rolled_back_moves_no_row_of_main(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    heads = {name: IcebergTable(lake, f"lake.db.{name}").head() for name in NAMES}
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    roll_back(lake, migration)
    for name in NAMES:
        table = IcebergTable(lake, f"lake.db.{name}")
        table.refresh()
        assert table.refs() == {"main": heads[name]} and table.epoch() == 0
    migrate(lake, migration)
    verify(lake, migration)
    assert team.table.epoch().number == 1 and placed(lake, team)


def test_a_row_that_comes_beside_the_move_is_moved_too(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    epoch = team.table.epoch()
    rows = lake.table("lake.db.orders").where("channel = 3").limit(20).drop("slot_0", "channel")
    rows = rows.withColumn("slot_0", epoch.slot()).withColumn("channel", epoch.route())
    rows.withColumn("dest", F.col("dest")).writeTo("lake.db.orders").append()
    before = both(lake)
    verify(lake, migration)
    assert both(lake) == before and placed(lake, team)
