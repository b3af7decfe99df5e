"""The table that faults are tried on, at each stage of a run, and the tasks of its DAG."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.iceberg import adopt as iceberg_adopt
from evenkeel_spark.iceberg import release as iceberg_release
from evenkeel_spark.iceberg import repair as iceberg_repair
from evenkeel_spark.iceberg import verify as iceberg_verify
from evenkeel_spark.jobs import learn, migrate, roll_back, verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.plans.approved_plan import approved_migration, published
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import EvenkeelError, UnreachableError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import key_hash
from partitioning.function.sql import channel_sql, slot_sql
from tests.chaos.iceberg import rows as iceberg_rows
from tests.chaos.iceberg.copies import opened
from tests.chaos.jobs.flows import JOBS
from tests.conftest import DAYS, FIRST_DAY, SEEN, SPEC, World, some_events
from tests.support.worlds import team_tables

#: Content of each state table, by name: each key's row without its channel, sorted.
Content = dict[str, list[tuple[Any, ...]]]

#: `FIRST` is the run before, of a table that begins with split keys.
FIRST, RUN, RIVAL = "r0", "r1", "r2"
PIPELINE = ("learn", "decide", "plan", "validate_plan", "migrate", "verify", "publish")
#: What brings the table to each stage, from the one before; a rival run is planned, too.
STAGES = {
    "planned": [(task, run) for run in (RUN, RIVAL) for task in PIPELINE[:4]],
    "moved": [("migrate", RUN)],
    "sealed": [("verify", RUN)],
}
#: Tasks whose failure Airflow answers by roll_back.
MOVES = ("migrate", "verify", "publish")
#: Airflow tries a task again so often when it ends by anything but an error of ours.
RETRIES = 2
_JOBS = {"learn": learn, "migrate": migrate, "roll_back": roll_back}
#: The run moves in batches, each weighed against its budget; the rival's plan is another one.
_PARAMS = {
    FIRST: Params(force=True),
    RUN: Params(force=True, capacities=(1, 1, 1, 0.4), batch=4_000, budget=10**6),
    RIVAL: Params(force=True, capacities=(0.4, 1, 1, 1)),
}
STATEMENTS = (PySparkException, Py4JError)
#: The key that the events of a table with split keys are full of.
_HOT = "D000"
#: A build side: each owner of a split key has its row.
_PLACES = {"path": "state/places", "columns": {"place": {"merge": "copy", "of": "place"}}}


def _same(values: list[Any]) -> Any:
    """The value that all copies have."""
    (value,) = set(values)
    return value


#: How the columns of a split key's partials merge, by hand.
_MERGED: dict[str, Callable[[list[Any]], Any]] = {
    "trips": sum, "miles": sum, "first": min, "last": max, "latest": max, "place": _same,
    "flown": sum, "least": _same,
}  # fmt: skip


def task(spark: SparkSession, world: World, name: str, run: str = RUN) -> None:
    """One task of the DAG, in a session that is there already."""
    spark, world = opened(spark, world)
    iceberg = world.table.spec.iceberg
    if name in ("verify", "publish"):
        # The job does both; a table that is sealed and not yet published is a stage of its own.
        migration = approved_migration(
            world.table, run, steps.read_plan(world.table.registry.run(run)).digest
        )
        if iceberg:
            if name == "verify" or not published(migration):
                iceberg_verify.verify(spark, migration)
        elif name == "verify":
            verify.verify(spark, migration)
        else:
            publish.publish(spark, migration)
        if name == "publish":
            steps.publish(world.spec_path, run)
    elif (job := _JOBS.get(name)) is not None:
        folder = world.table.registry.run(run)
        digest = steps.read_plan(folder).digest if name != "learn" else None
        asked = Namespace(run=run, digest=digest, end=None, relearn=None)
        job._body(spark, world.table, asked)
    elif name in ("decide", "plan"):
        # Rows of Iceberg tables move in one commit.
        changes = {"batch": None} if iceberg else {}
        asked_of = _PARAMS[run].model_copy(update=changes)
        getattr(steps, name)(world.spec_path, run, asked_of)
    elif name in ("repair", "repair, dry run"):
        mend = iceberg_repair.repair if iceberg else repair
        mend(spark, world.table, dry_run=name != "repair")
    elif name in JOBS:
        JOBS[name].act(spark, world)
    elif name == "adopt":
        (iceberg_adopt.adopt if iceberg else adopt)(spark, world.table)
    elif name == "release":
        leave = iceberg_release.release if iceberg else release
        leave(spark, world.table, drop_columns=True)
    else:
        getattr(steps, name)(world.spec_path, run)


def dag(spark: SparkSession, world: World, first: str, run: str = RUN) -> bool:
    """What Airflow does from a task on: a task that dies is tried again, one that fails in our
    own words is answered by roll_back. Whether the run has published."""
    for name in PIPELINE[PIPELINE.index(first) :]:
        try:
            persist(lambda name=name: task(spark, world, name, run))
        except UnreachableError:
            raise
        except EvenkeelError:
            # A run whose key was forgotten has no plan any more, and has moved nothing.
            if name in MOVES and world.table.registry.run(run).exists("plan.json"):
                persist(lambda: task(spark, world, "roll_back", run))
            return False
    return True


def persist(what: Callable[[], None]) -> None:
    """Do it, and again where it dies, as often as Airflow would; errors of ours pass."""
    for attempt in range(RETRIES + 1):
        try:
            return what()
        except Exception as error:
            # A store that is full or down is no answer: DAGs try again then, too.
            if isinstance(error, EvenkeelError) and not isinstance(error, UnreachableError):
                raise
            if attempt == RETRIES:
                raise
    return None


def bootstrapped(
    spark: SparkSession, folder: Path, both: bool, split: bool = False, places: bool = False
) -> World:
    """A hundred keys in one state table, or in `both`, under epoch 0; where they may be `split`
    among all channels, one of them has over half of the events. `places`: a third table has
    copies."""
    made = World(folder)
    made.folder.mkdir(parents=True)
    Path(made.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    made = made.with_seen() if both else made
    made.respec(slots=16, trigger=1.01, max_imbalance=1.01)
    events = some_events(1500, 100)
    if split:
        events = events.assign(id=events.index, dest=events.dest.where(events.index % 2 > 0, _HOT))
        made.respec(split={"by": "id", "worth": 0})
    if places:
        events = events.assign(place="in " + events.dest)
        made.respec(state={**SPEC["state"], "seen": SEEN, "places": _PLACES})
    made.write_events(events)
    bootstrap(spark, made.table, (FIRST_DAY + timedelta(days=7)).date())
    return made


def shared(spark: SparkSession, folder: Path) -> World:
    """The same keys in three tables under epoch 1, which shares one of them among all channels,
    each with a partial or a copy of it; what is planned next has fewer owners, and some partials
    must join."""
    made = bootstrapped(spark, folder, both=True, split=True, places=True)
    events = FIRST_DAY + timedelta(days=7)
    assert dag(spark, made, "learn", FIRST)
    apply_window(spark, made.table, events.date(), (FIRST_DAY + timedelta(days=DAYS)).date())
    return made.respec(split={"by": "id", "copies": 3})


#: What faults are tried on: two state tables whose keys are whole, and three with a key split.
TABLES: dict[str, Callable[[SparkSession, Path], World]] = {
    "whole": lambda spark, folder: bootstrapped(spark, folder, both=True),
    "split": shared,
}


def copied(world: World, folder: Path) -> World:
    """The same table in another folder, its files as old as they were."""
    shutil.copytree(world.folder, folder)
    return World(folder)


def content(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """State without its channels, sorted: a row a key, of its partials if it has several."""
    partials: dict[str, dict[int, dict[str, Any]]] = {}
    for row in map(Row.asDict, rows):
        of_key, channel = partials.setdefault(row["dest"], {}), row.pop(state.CHANNEL)
        assert channel not in of_key, f"{row['dest']} has two rows on channel {channel}"
        of_key[channel] = row
    found = []
    for one, *others in (list(p.values()) for p in partials.values()):
        row = {n: _MERGED[n]([one[n], *(o[n] for o in others)]) for n in one if n in _MERGED}
        found.append(tuple({**one, **row}.values()))
    return sorted(found)


def misplaced(function: PartitioningFunction, rows: Sequence[Row]) -> list[Row]:
    """Rows of state that the function does not admit where they are: not on their key's channel,
    or, of a split key, on none of its owners."""
    hashes = key_hash([[r["dest"] for r in rows]], [c.type for c in function.key])
    owners, split = function.lookup_hashes(hashes).tolist(), function.split
    item, channels, _ = split.owners(np.arange(len(split)))
    admitted = set(zip(split.keys[item].tolist(), channels.tolist(), strict=True))
    return [
        r
        for r, h, owner in zip(rows, hashes.tolist(), owners, strict=True)
        if r[state.CHANNEL] != owner and (h, r[state.CHANNEL]) not in admitted
    ]


def uncopied(function: PartitioningFunction, rows: Sequence[Row]) -> set[tuple[int, int]]:
    """Hashes of split keys of a build side, and their owners that lack the key's row."""
    if not rows or "place" not in rows[0]:
        return set()
    hashes = key_hash([[r["dest"] for r in rows]], [c.type for c in function.key]).tolist()
    item, channels, _ = function.split.owners(np.arange(len(function.split)))
    owners = zip(function.split.keys[item].tolist(), channels.tolist(), strict=True)
    there = {(h, r[state.CHANNEL]) for h, r in zip(hashes, rows, strict=True)}
    return {(h, c) for h, c in owners if h in hashes} - there


def contents(spark: SparkSession, world: World) -> Content:
    """The content of every state table as it is now."""
    if world.table.spec.iceberg:
        return iceberg_rows.contents(spark, world)
    if world.table.spec.plain:
        return team_tables.both(spark, world)
    tables = world.table.spec.state.items()
    return {n: content(spark.read.format("delta").load(t.path).collect()) for n, t in tables}


def append(spark: SparkSession, world: World, planned: bool) -> Content:
    """What another writer does: rows of new keys, by the function of the current epoch, or of
    the one that is planned. Returns what it got in; the table may refuse the rest."""
    table = world.table
    run = table.registry.run(RUN)
    its = steps.read_plan(run).function if planned and run.exists("plan.json") else None
    if table.spec.iceberg:
        return iceberg_rows.append(spark, world, its)
    if table.spec.plain:
        return team_tables.append(spark, world)
    function = its or table.epoch().function
    added: Content = {}
    for name, part in table.spec.state.items():
        if state.table_version(spark, part.path) < 0:
            continue
        now = spark.read.format("delta").load(part.path)
        ours = now.dropDuplicates(["dest"]).orderBy("dest").limit(30).collect()
        some = spark.createDataFrame(ours, now.schema).withColumn("id", F.lit(0))
        rows = some.withColumn("dest", F.concat(F.lit("new-"), "dest"))
        rows = rows.withColumn(state.CHANNEL, F.expr(channel_sql(function)))
        slot = F.expr(slot_sql(function.key, function.row_slots))
        rows = rows.withColumn(state.SLOT, slot).select(now.columns)
        try:
            rows.write.format("delta").mode("append").save(part.path)
        except STATEMENTS as error:
            if constraints.OURS not in str(error):
                raise
            continue
        added[name] = content(rows.collect())
    return added
