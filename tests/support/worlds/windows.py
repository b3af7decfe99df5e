"""A table and its windows of events: rows to add, split keys, and what is in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import constraints, state
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.function.split import Split
from partitioning.function.sql import channel_sql
from tests.conftest import World
from tests.support.state_tables import drop_constraint


def day(number: int) -> date:
    return date(2013, 1, number)


def versions(spark, world: World) -> dict[str, int]:
    return {n: state.table_version(spark, s.path) for n, s in world.table.spec.state.items()}


def rows(spark, world: World, name: str) -> pd.DataFrame:
    path = world.table.spec.state[name].path
    return spark.read.format("delta").load(path).toPandas().set_index("dest").sort_index()


def owners(world: World, key: str, count: int) -> list[int]:
    """The key's own channel and those that follow it."""
    (here,) = world.table.epoch().function.unsplit.lookup([key]).tolist()
    return [(here + i) % 4 for i in range(count)]


def split(spark, world: World, shared: dict[str, int]) -> PartitioningFunction:
    """Publish an epoch in which each of these keys is shared by so many `owners`, by `miles`; of
    build sides each of them gets a copy."""
    epoch = world.table.epoch()
    hashes = key_hash([list(shared)], ["string"]).tolist()
    has = {key: owners(world, key, count) for key, count in shared.items()}
    function = replace(
        epoch.function,
        split=Split.of(
            {
                h: {c: 1.0 + (i == 0) for i, c in enumerate(its)}
                for h, its in zip(hashes, has.values(), strict=True)
            }
        ),
        row=KeyColumn("miles", "int"),
        epoch=epoch.number + 1,
        parent=epoch.function.digest,
    )
    versions = {}
    for name, part in world.table.spec.state.items():
        rule, path = constraints.rule(function), part.path
        drop_constraint(spark, path, constraints.epoch_name(epoch.number))
        constraints.add(spark, path, constraints.epoch_name(function.epoch), rule)
        for key, its in has.items() if part.copied else ():
            there = spark.read.format("delta").load(path).where(f"dest = '{key}'")
            put(spark, path, key, sorted({*its} - {r["channel"] for r in there.collect()}))
        versions[name] = TableVersion(path, state.table_version(spark, path))
    world.table.registry.publish(function, versions)
    return function


def put(spark, path: str, key: str, channels: list[int], **values: int) -> None:
    """Write a key's row to these channels, too, with other values."""
    there = spark.read.format("delta").load(path).where(f"dest = '{key}'").limit(1)
    for channel in channels:
        given = {name: F.lit(v).cast(there.schema[name].dataType) for name, v in values.items()}
        row = there.withColumns({**given, "channel": F.lit(channel)})
        row.write.format("delta").mode("append").save(path)


def turned(spark, world: World) -> None:
    """Move every slot to the next channel, and publish: a migration as a whole."""
    old = world.table.epoch().function
    function = replace(old, slots=(old.slots + 1) % 4, epoch=1, parent=old.digest)
    versions = {}
    for name, part in world.table.spec.state.items():
        both = constraints.rule(old, function)
        constraints.add(spark, part.path, constraints.moving_name(1), both)
        drop_constraint(spark, part.path, constraints.epoch_name(0))
        spark.sql(f"UPDATE delta.`{part.path}` SET channel = {channel_sql(function)}")
        constraints.add(spark, part.path, constraints.epoch_name(1), constraints.rule(function))
        drop_constraint(spark, part.path, constraints.moving_name(1))
        versions[name] = TableVersion(part.path, state.table_version(spark, part.path))
    world.table.registry.publish(function, versions)


WHENS = ["before the check", "right after it"]


def hooked(patch: pytest.MonkeyPatch, when: str, tables: int, act: Callable[[], object]) -> None:
    """Somebody acts as the window is merged into a table, so many tables after the first."""
    merge, check, seen = job.merge_window, constraints.check_unchanged, []

    def at(this: str) -> None:
        if when == this:
            seen.append(this)
            if len(seen) == tables + 1:
                act()

    def merging(*args):
        at(WHENS[0])
        merge(*args)

    def checking(*args):
        check(*args)
        at(WHENS[1])

    patch.setattr(job, "merge_window", merging)
    patch.setattr(constraints, "check_unchanged", checking)


@contextmanager
def killed_between_tables() -> Iterator[None]:
    """The process of a window ends once its first table has it."""

    def kill() -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        hooked(patch, WHENS[0], 1, kill)
        with pytest.raises(KeyboardInterrupt):
            yield


def trips(spark: SparkSession, world: World) -> int:
    return int(rows(spark, world, "totals")["trips"].sum())


def until(world: World, end: str) -> int:
    return int((world.events["at"] < end).sum())


def sql_name(world: World, name: str = "totals") -> str:
    return state.sql_name(world.table.spec.state[name].path)


def restore(spark: SparkSession, world: World, version: int, name: str = "totals") -> None:
    spark.sql(f"RESTORE TABLE {sql_name(world, name)} TO VERSION AS OF {version}")


def exact(spark: SparkSession, world: World, until: str) -> None:
    """Each state table is what pandas makes of the events before a day."""
    events = world.events[world.events["at"] < until]
    by = events.assign(at=events["at"].dt.tz_localize(None)).groupby("dest")
    wanted = by.agg(trips=("at", "size"), miles=("miles", "sum"), last=("at", "max"))
    found = rows(spark, world, "totals")
    assert found.index.is_unique
    for column in ("trips", "miles", "last"):
        pd.testing.assert_series_equal(
            found[column], wanted[column], check_dtype=False, check_names=False
        )
    if "seen" in world.table.spec.state:
        latest = rows(spark, world, "seen")["latest"]
        assert latest.to_dict() == wanted["last"].to_dict()


def applied_twice(spark: SparkSession, world: World, start: int, end: int) -> None:
    """Apply a window; the second run of it changes nothing."""
    apply_window(spark, world.table, day(start), day(end))
    before = versions(spark, world)
    apply_window(spark, world.table, day(start), day(end))
    assert versions(spark, world) == before


def forget_history(spark: SparkSession, path: Path) -> None:
    """Leave of the log what Delta's clean-up leaves: a checkpoint and the newest commit."""
    jvm = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path))
    log.checkpoint(
        log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty()),
        jvm.scala.Option.empty(),
    )
    for file in sorted((path / "_delta_log").glob("*.json"))[:-1]:
        file.unlink()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def typed(spark: SparkSession, world: World, kind: str) -> DataFrame:
    """Give the events a column `x` of a type: their time, or a number with four digits."""
    value = "at" if kind.startswith(("date", "time")) else "day(at) + 0.0625"
    events = spark.read.parquet(str(world.folder / "events.parquet"))
    events = events.withColumn("x", F.expr(value).cast(kind))
    world.respec(input={"path": "typed", "time": "at"})
    events.coalesce(1).write.mode("overwrite").parquet(world.table.spec.input.path)
    return events
