"""Rows of the Iceberg tables that suffer faults: the tables, what other writers add, what pandas
says that they hold."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.state_view import slot_column
from evenkeel.spec.parts import CHANNEL
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.iceberg.table import IcebergTable
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql, slot_sql
from tests.chaos.iceberg.copies import by_place, make_place, opened
from tests.conftest import FIRST_DAY, SEEN, SPEC, World, some_events
from tests.support.iceberg.tables import team_in

Content = dict[str, list[tuple[Any, ...]]]


def bootstrapped(spark: SparkSession, folder: Path) -> World:
    """Two tables that Evenkeel has made of a week's events, a row a key."""
    made = make_place(folder)
    state = {
        name: {**part, "path": f"lake.db.{name}", "format": "iceberg"}
        for name, part in {**SPEC["state"], "seen": SEEN}.items()
    }
    changes = {"state": state, "slots": 16, "trigger": 1.01, "max_imbalance": 1.01}
    spec = {**SPEC, **changes, **by_place(made)}
    Path(made.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    made.write_events(some_events(1500, 100))
    session, world = opened(spark, made)
    bootstrap(session, world.table, (FIRST_DAY + timedelta(days=7)).date())
    return made


def team(spark: SparkSession, folder: Path) -> World:
    """A team's own: orders, with many rows a key and partitions by day, and profiles, with one."""
    made = make_place(folder)
    events = some_events(600, 60)
    # Few days, so that there are few files.
    events["at"] = events["at"].dt.floor("7D") + (events["at"] - events["at"].dt.floor("1D"))
    session, world = opened(spark, made)
    team_in(session, world.folder, events, files=1)
    return made.respec(**by_place(made))


def adopted(spark: SparkSession, folder: Path) -> World:
    """The same, adopted."""
    made = team(spark, folder)
    session, world = opened(spark, made)
    adopt(session, world.table)
    return made


def contents(spark: SparkSession, world: World) -> Content:
    """Return what each table holds but for where it is, sorted: see `truth`."""
    spark, world = opened(spark, world)
    found = {}
    for name, part in world.table.spec.state.items():
        one = IcebergTable(spark, part.path)
        one.refresh()
        found[name] = compared(world, name, spark.table(one.sql))
    return found


def compared(world: World, name: str, rows: DataFrame) -> list[tuple[Any, ...]]:
    """Return rows of a table as they are compared, sorted: a team's as texts; of a table that
    Evenkeel has made slot, key and columns."""
    spec, slots = world.table.spec, [c for c in rows.columns if c.startswith("slot_")]
    if spec.plain:
        names = sorted(c for c in rows.columns if c not in (*slots, CHANNEL))
        return sorted(tuple(map(str, r)) for r in rows.select(names).collect())
    chosen = rows.select(*slots, "dest", *spec.state[name].columns)
    return sorted(tuple(r) for r in chosen.collect())


def team_truth(world: World) -> Content:
    """Return what pandas makes of the raw events of a team's tables."""
    events = world.events
    orders = [
        (at := _local(e.at), at.date(), e.dest, e.miles, [e.dest])
        for e in events.itertuples(index=False)
    ]
    profiles = events.groupby("dest")["miles"].max().items()
    found = {"orders": orders, "profiles": profiles}
    return {n: sorted(tuple(map(str, r)) for r in rows) for n, rows in found.items()}


def _local(at: pd.Timestamp) -> Any:
    """The moment as Spark's collect gives it."""
    return at.to_pydatetime().astimezone().replace(tzinfo=None)


def append(spark: SparkSession, world: World, planned: PartitioningFunction | None) -> Content:
    """Do what other writers do: rows of new keys. Return what got in; the rest was refused.

    Parameters
    ----------
    planned : a writer that routes by this function names whatever column there is, so its rows come
        in where they should not be; None: it routes by the epoch that is published, and names the
        column of that
    """
    spark, world = opened(spark, world)
    table, added = world.table, Content()
    for name, part in table.spec.state.items():
        if not spark.catalog.tableExists(part.path):
            continue
        one = IcebergTable(spark, part.path)
        one.refresh()
        now = spark.table(one.sql)
        ours = now.dropDuplicates(["dest"]).orderBy("dest").limit(30)
        # Not read again once it is written.
        some = spark.createDataFrame(ours.collect(), now.schema)
        rows = some.withColumn("dest", F.concat(F.lit("new-"), "dest"))
        epoch = one.epoch()
        if epoch is not None:
            plain = rows.drop(slot_column(epoch), CHANNEL)
            # A table that Evenkeel has made lets them in: no other program should write to it.
            let_in = part.plain and _written(plain, one)
            assert not let_in, f"{name}: rows without slot and channel were let in"
            function = planned or table.epoch().function
            named = epoch if planned else function.epoch
            slot = F.expr(slot_sql(function.key, function.row_slots))
            rows = plain.withColumn(slot_column(named), slot)
            rows = rows.withColumn(CHANNEL, F.expr(channel_sql(function)))
        if _written(rows, one):
            added[name] = compared(world, name, rows)
    return added


def _written(rows: DataFrame, one: IcebergTable) -> bool:
    """Append rows by name; False: Spark refuses them, as columns are others than the table's."""
    try:
        rows.writeTo(one.sql).append()
    except PySparkException as error:
        if "INCOMPATIBLE_DATA_FOR_TABLE" not in str(error) and "UNRESOLVED" not in str(error):
            raise
        return False
    return True
