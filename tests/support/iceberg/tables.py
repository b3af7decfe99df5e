"""A team's Iceberg tables, orders and profiles: their rows and places, and plans for them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs import learn
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from tests.conftest import SPEC, World

NAMES = ("orders", "profiles")


def team_in(lake: SparkSession, folder: Path, events: pd.DataFrame, files: int = 3) -> World:
    """Make two tables without Evenkeel: orders (many rows a key) and profiles (one)."""
    made = World(folder)
    spec = {
        **SPEC,
        "state": {
            "orders": {"path": "lake.db.orders", "format": "iceberg", "rows": "many"},
            "profiles": {"path": "lake.db.profiles", "format": "iceberg", "rows": "one"},
        },
        "trigger": 1.01,
        "max_imbalance": 1.01,
    }
    Path(made.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    made.write_events(events)
    source = lake.createDataFrame(made.events.drop(columns="weight"))
    orders = source.withColumn("day", F.to_date("at")).withColumn("tags", F.array("dest"))
    write = orders.repartition(files).writeTo("lake.db.orders").using("iceberg")
    write.tableProperty("format-version", "3").partitionedBy(F.col("day")).create()
    profiles = source.groupBy("dest").agg(F.max("miles").alias("most"))
    write = profiles.writeTo("lake.db.profiles").using("iceberg")
    write.tableProperty("format-version", "3").create()
    return made


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


def rebalanced(spark: SparkSession, team: World, name: str, **params: Any) -> Migration:
    """Learn, plan, move all rows of the plan, and publish its epoch."""
    migration = planned(spark, team, name, **params)
    migrate(spark, migration)
    verify(spark, migration)
    return migration
