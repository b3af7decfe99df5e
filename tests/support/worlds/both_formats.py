"""State tables of either format, driven by the jobs as Airflow starts them, and read by SQL."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.registry.state_view import table_sql
from evenkeel.spec.run_params import Params
from evenkeel_spark.jobs import learn, migrate, verify
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.iceberg.table import IcebergTable
from tests.conftest import SEEN, SPEC, World, some_events
from tests.support.iceberg.catalogs import lake_in

#: Capacities that most runs of these tests ask for: the last channel is emptied.
UNEVEN = (1, 1, 1, 0)


@dataclass(frozen=True)
class Tables:
    """Two state tables of a spec, all of one format."""

    spark: SparkSession
    world: World
    iceberg: bool

    def respec(self, **parts: dict[str, Any]) -> Tables:
        """Give the spec these state tables, at places that go with their format."""
        places: dict[str, dict[str, Any]] = {name: {"path": name} for name in parts}
        if self.iceberg:
            places = {n: {"path": f"lake.db.{n}", "format": "iceberg"} for n in parts}
        self.world.respec(state={name: {**part, **places[name]} for name, part in parts.items()})
        return self

    def job(self, job: ModuleType, *argv: str) -> int:
        """Run a job as a process would, but for its session; return its exit code."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("evenkeel_spark.runtime.command.session", lambda name: self.spark)
            return int(job.main(["--spec", self.world.spec_path, *argv]))

    def plan(self, run: str, **params: Any) -> str:
        """Learn, decide and plan a run; return the plan's digest."""
        spec, asked = self.world.spec_path, Params(force=True, **{"capacities": UNEVEN, **params})
        assert self.job(learn, "--run", run) == 0
        steps.decide(spec, run, asked)
        digest = steps.plan(spec, run, asked)
        steps.validate_plan(spec, run)
        return digest

    def move(self, run: str, digest: str) -> None:
        """Carry a plan out, and publish its epoch."""
        for job in (migrate, verify):
            assert self.job(job, "--run", run, "--digest", digest) == 0
        steps.publish(self.world.spec_path, run)

    def stored(self, name: str) -> DataFrame:
        """Read the rows of a table as they stand."""
        part = self.world.table.spec.state[name]
        if self.iceberg:
            self.spark.sql(f"REFRESH TABLE {table_sql(part)}")
        return self.spark.sql(f"SELECT * FROM {table_sql(part)}")

    def content(self) -> dict[str, list[tuple[str, ...]]]:
        """Return all rows of each table, sorted, without their slot and channel."""
        found = {}
        for name in self.world.table.spec.state:
            rows = self.stored(name)
            kept = sorted(c for c in rows.columns if c != "channel" and not c.startswith("slot"))
            found[name] = sorted(tuple(map(str, row)) for row in rows.select(kept).collect())
        return found

    def heads(self) -> dict[str, int]:
        """Return the newest commit of each table: a version, or a snapshot."""
        return {name: self._head(part.path) for name, part in self.world.table.spec.state.items()}

    def misplaced(self) -> int:
        """Count the rows that are not where the current epoch has their key."""
        epoch, count = self.world.table.epoch(), 0
        for name in self.world.table.spec.state:
            rows = self.stored(name).toPandas()
            (slot,) = (c for c in rows.columns if c.startswith("slot"))
            wrong = (rows["channel"] != epoch.lookup(rows["dest"])) | (
                rows[slot] != epoch.lookup_slot(rows["dest"])
            )
            count += int(wrong.sum())
        return count

    def append_as(self, name: str, number: int, key: str) -> None:
        """Append a copy of a row under another key, as a writer of that epoch does."""
        epoch, row = self.world.table.epoch(number), self.stored(name).limit(1)
        (slot,) = (c for c in row.columns if c.startswith("slot"))
        row = row.drop(slot, "channel").withColumn("dest", F.lit(key))
        row = row.withColumn(epoch.slot_column if self.iceberg else "slot", epoch.slot())
        self.append(name, row.withColumn("channel", epoch.route()))

    def append(self, name: str, rows: DataFrame) -> None:
        """Append rows with all their columns."""
        path = self.world.table.spec.state[name].path
        if self.iceberg:
            rows.writeTo(path).append()
        else:
            rows.write.format("delta").mode("append").save(path)

    def make(self, name: str, rows: DataFrame) -> None:
        """Write rows of a team as a new table."""
        path = self.world.table.spec.state[name].path
        if self.iceberg:
            new = rows.repartition(2).writeTo(path).using("iceberg")
            new.tableProperty("format-version", "3").create()
        else:
            rows.repartition(2).write.format("delta").save(path)

    def lose(self, name: str) -> None:
        """Remove a table for good."""
        path = self.world.table.spec.state[name].path
        if self.iceberg:
            self.spark.sql(f"DROP TABLE {path} PURGE")
        else:
            shutil.rmtree(path)

    def moved_key(self) -> str:
        """Return a key that is new, and whose channel another epoch than the first has changed."""
        new, table = [f"N{i}" for i in range(99)], self.world.table
        moved = table.epoch().lookup(new) != table.epoch(0).lookup(new)
        assert moved.any()
        return new[int(moved.argmax())]

    def _head(self, path: str) -> int:
        if not self.iceberg:
            return state.table_version(self.spark, path)
        one = IcebergTable(self.spark, path)
        one.refresh()
        return one.head()


def events_of(spark: SparkSession, folder: Path, iceberg: bool) -> Tables:
    """Write events, and a spec of two tables that Evenkeel makes of them; make none."""
    totals = {"columns": SPEC["state"]["totals"]["columns"]}
    return _begun(spark, folder, iceberg).respec(totals=totals, seen={"columns": SEEN["columns"]})


def team_of(spark: SparkSession, folder: Path, iceberg: bool) -> Tables:
    """Make a team's own tables, with many rows a key and with one, and a spec of them."""
    made = _begun(spark, folder, iceberg).respec(orders={"rows": "many"}, profiles={"rows": "one"})
    orders = made.spark.createDataFrame(made.world.events.drop(columns="weight"))
    made.make("orders", orders)
    made.make("profiles", orders.groupBy("dest").agg(F.max("miles").alias("most")))
    return made


def _begun(spark: SparkSession, folder: Path, iceberg: bool) -> Tables:
    world = World(folder)
    spec = {**SPEC, "trigger": 1.01, "max_imbalance": 1.01}
    Path(world.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    session = lake_in(spark, folder) if iceberg else spark
    return Tables(session, world.write_events(some_events(1500, 100)), iceberg)


def folded(world: World, end: str) -> pd.DataFrame:
    """Return what pandas makes of the events before a day, by key."""
    events = world.events
    by = events[events["at"] < pd.Timestamp(end, tz="UTC")].groupby("dest")
    return by.agg(trips=("at", "size"), miles=("miles", "sum"), latest=("at", "max"))
