"""A team's own tables, for tests of adoption: what they hold, and where their rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.jobs import learn, migrate, verify
from evenkeel_spark.tables.delta import constraints, state
from tests.conftest import SPEC, World, some_events

#: A row of a team's tables as a tuple that can be compared.
Rows = list[tuple[Any, ...]]


def make_team(spark: SparkSession, folder: Path) -> World:
    """Make two tables without Evenkeel: orders (many rows a key) and profiles (one)."""
    made = World(folder)
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        **SPEC,
        "state": {
            "orders": {"path": "orders", "rows": "many"},
            "profiles": {"path": "profiles", "rows": "one"},
        },
        "trigger": 1.01,
        "max_imbalance": 1.01,
    }
    Path(made.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    made.write_events(some_events())
    events = spark.createDataFrame(made.events.drop(columns="weight"))
    orders = events.withColumn("day", F.to_date("at")).withColumn("tags", F.array("dest"))
    write(orders.repartition(3), made, "orders", "day")
    write(events.groupBy("dest").agg(F.max("miles").alias("most")), made, "profiles")
    return made


def write(rows: DataFrame, world: World, name: str, *partitions: str) -> None:
    rows.write.format("delta").partitionBy(*partitions).save(str(world.folder / name))


def content(spark: SparkSession, world: World, name: str) -> Rows:
    """The team's columns of a table, as they stand."""
    rows = spark.read.format("delta").load(str(world.folder / name))
    names = sorted(c for c in rows.columns if c not in (state.SLOT, state.CHANNEL))
    return sorted(tuple(map(str, r)) for r in rows.select(names).collect())


def both(spark: SparkSession, world: World) -> dict[str, Rows]:
    return {name: content(spark, world, name) for name in ("orders", "profiles")}


def run(spark: SparkSession, world: World, name: str, **params: Any) -> None:
    """A whole rebalance, as its DAG has it."""
    table, folder = world.table, world.table.registry.run(name)
    arguments = ["--spec", world.spec_path, "--run", name]
    assert learn.main(arguments) == 0
    steps.decide(world.spec_path, name, asked := Params(force=True, **params))
    digest = steps.plan(world.spec_path, name, asked)
    steps.validate_plan(world.spec_path, name)
    for moving in (migrate, verify):
        assert moving.main([*arguments, "--digest", digest]) == 0
    steps.publish(world.spec_path, name)
    assert folder.exists("verify.json") and table.epoch().plan_digest == digest


def placed(spark: SparkSession, world: World) -> bool:
    """Whether each row of both tables is where the current epoch says."""
    epoch = world.table.epoch()
    for part in world.table.spec.state.values():
        rows = spark.read.format("delta").load(part.path).toPandas()
        if not (rows["channel"] == epoch.lookup(rows["dest"])).all():
            return False
    return True


def partitions(spark: SparkSession, path: str) -> list[str]:
    """Columns that partition a table."""
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    return list(detail["partitionColumns"])


def append(spark: SparkSession, world: World) -> dict[str, Rows]:
    """What another writer does: a row of a new key in each table, routed where it has channels."""
    added = {}
    for name, part in world.table.spec.state.items():
        rows = spark.read.format("delta").load(part.path).limit(1)
        names = [c for c in rows.columns if c not in (state.SLOT, state.CHANNEL)]
        made = rows.select(names).withColumn("dest", F.lit("new"))
        added[name] = [tuple(map(str, r)) for r in made.select(sorted(names)).collect()]
        if state.CHANNEL in rows.columns:
            epoch = world.table.epoch()
            made = made.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route())
        made.write.format("delta").mode("append").save(part.path)
    return added


def check_done(spark: SparkSession, world: World, step: str, expected: dict[str, Rows]) -> None:
    """See that an adoption or a release is done, and that nothing is lost."""
    assert both(spark, world) == expected
    if step == "adopt":
        assert world.table.registry.numbers() == [0] and placed(spark, world)
    for name, part in world.table.spec.state.items():
        stands = constraints.our_constraints(spark, part.path)
        assert stands == ({constraints.epoch_name(0)} if step == "adopt" else set())
        if step == "release":
            assert partitions(spark, part.path) == (["day"] if name == "orders" else [])
            assert not [p for p in state.properties(spark, part.path) if "evenkeel" in p]
    assert world.table.registry.files.released.exists() == (step == "release")
