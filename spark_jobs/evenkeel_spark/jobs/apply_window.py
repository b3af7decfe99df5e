"""Apply a window: each channel folds its keys' events into the state tables, exactly once.

Delta's transaction id is the day number of the window's end, so a second run of a window changes
nothing, even one that a crash left between two tables; see `applied`. Leaves windows/END.json: what
each channel measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.state_view import joined
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.events import applied_windows
from evenkeel_spark.events.aggregate import EVENTS, exact, fold, merged_sql, of_table, route
from evenkeel_spark.events.reader import (
    between,
    check_key,
    day_number,
    need_time,
    null_key,
    read_events,
    reading,
    refuse_null_keys,
    refuse_null_times,
    without_null_keys,
)
from evenkeel_spark.migration.split_state import PartialMerge, check_nothing_lost
from evenkeel_spark.runtime.command import parser, run_job, say
from evenkeel_spark.runtime.task_metrics import job_group, stages
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.placement_sql import of_keys_sql
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.delta.write_session import own_session
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import quoted
from partitioning.moves.partial_rows import owners_sql

#: Of a folded row: whether its key is split.
_SPLIT, _OWNERS = "_split", "_owners"


@dataclass(frozen=True)
class ChannelWork:
    """What one channel did: events, and seconds of its task (0 where Spark did not say)."""

    channel: int
    rows: int
    seconds: float


def window_state(events: DataFrame, spec: TableSpec, function: PartitioningFunction) -> DataFrame:
    """The window folded by key inside each channel's task: channel, then as `fold`."""
    return fold(route(events, function), spec, function, by=[state.CHANNEL])


def merge_window(
    spark: SparkSession,
    spec: TableSpec,
    name: str,
    window: DataFrame,
    function: PartitioningFunction,
) -> None:
    """MERGE a folded window into one state table, by slot and key, and of keys that the window's
    function splits by channel. A row keeps its channel; a new key, or a new owner's partial, starts
    at the channel that the function gave it; a copy goes to every owner.

    Raises
    ------
    FenceError : the table stands under another function by now, or a migration is under way
    """
    equal = "<=>" if spec.null_keys == "keep" else "="
    same = [f"s.{state.SLOT} = w.{state.SLOT}"]
    same += [f"s.{quoted(c)} {equal} w.{quoted(c)}" for c in spec.key]
    table, rows = spec.state[name], of_table(window, spec, name)
    starts = {quoted(c): f"w.{quoted(c)}" for c in rows.columns}
    types = {c.name: c.dataType.simpleString() for c in rows.schema}
    here, new = f"s.{state.CHANNEL} = w.{state.CHANNEL}", "true"
    if len(function.split):
        split = F.expr(of_keys_sql(function, function.split.keys))
        if table.copied:
            every = joined(rows.where(split), table, spec.key)
            its = F.expr(owners_sql(function, state.SLOT))
            # A row beside each owner's meets a copy that is none's of them: an owner since.
            every = every.withColumn(_OWNERS, its).withColumn(
                state.CHANNEL, F.explode(F.concat(its, F.array(F.lit(constraints.NOWHERE))))
            )
            rows = rows.where(~split).unionByName(every, allowMissingColumns=True)
            new = f"w.{state.CHANNEL} <> {constraints.NOWHERE}"
            here = f"{here} OR NOT ({new} OR array_contains(w.{_OWNERS}, s.{state.CHANNEL}))"
        # Not all keys by channel: one that has moved since the window was routed would seem new.
        rows = rows.withColumn(_SPLIT, split)
        same.append(f"(NOT w.{_SPLIT} OR {here})")
    merge = (
        DeltaTable.forPath(spark, table.path)
        .alias("s")
        .merge(rows.alias("w"), " AND ".join(same))
        # The key has moved, or has other owners, since: refused as a whole, by the constraint, lest
        # a sum be added to each of its partials, or a copy lack what is new.
        .whenMatchedUpdate(
            f"s.{state.CHANNEL} <> w.{state.CHANNEL}", {state.CHANNEL: str(constraints.NOWHERE)}
        )
        .whenMatchedUpdate(
            set={quoted(c): v for c, v in merged_sql(table, "s", "w", types).items()}
        )
        .whenNotMatchedInsert(new, starts)
    )
    # What changes from here on is a conflict, unless it does before Delta reads the table.
    constraints.check_unchanged(spark, table.path, function)
    with exact(f"{name} ({table.path})"), constraints.refusing(table.path, function.epoch):
        merge.execute()


def gather(spark: SparkSession, spec: TableSpec, name: str, function: PartitioningFunction) -> None:
    """Merge several rows of a split key on one channel, as writers leave that append: the window
    would be added to each.

    Raises
    ------
    InputError : a column has no merge: its values would be lost
    FenceError : the table stands under another function by now, or a migration is under way
    """
    if not len(function.split):
        return
    joining = PartialMerge(spec, name, function, function.split.keys)
    if spark.sql(joining.left()).isEmpty():
        return
    path = spec.state[name].path
    check_nothing_lost(spark, spec, name)
    constraints.check_unchanged(spark, path, function)
    with (
        constraints.refusing(path, function.epoch),
        commits.commit_session(spark, None, None, {"step": "gather"}) as own,
    ):
        own.sql(joining.merge())
    say(f"{name}: several rows of split keys became one")


def apply_window(
    spark: SparkSession, table: Table, start: date, end: date, allow_gap: bool = False
) -> dict[str, Any]:
    """Fold the events of the days [start, end) into the state; returns what was recorded.

    Parameters
    ----------
    allow_gap : whether days may be left out for ever, from where the last window ended to `start`

    Raises
    ------
    InputError : an empty window, one that was applied in part, goes back or leaves days out,
        unusable input
    FenceError : a migration is under way, or was while this ran: then running it again completes it
    """
    spec, began = table.spec, time.monotonic()
    spark = own_session(spark)
    need_time(spec)
    if start >= end:
        raise InputError(f"the window from {start} to {end} has no day", "--start, --end")
    file = f"{applied_windows.FOLDER}/{end}.json"
    check_tables(spark, spec)
    waiting = applied_windows.waiting(spark, table, start, end, allow_gap)
    if not waiting and table.registry.store.exists(file):
        say(f"the window from {start} to {end} is applied already: nothing to do")
        return dict(table.registry.store.read_json(file))
    function = table.epoch().function
    constraints.check_admits(spark, spec, function)
    events = read_events(spark, spec, function.row if len(function.split) else None)
    check_key(events, spec, function.key)
    refuse_null_times(events, spec)
    events = without_null_keys(between(events, spec, start, end), spec)
    window = window_state(events, spec, function).persist()
    try:
        say(f"window {start} to {end}: routing to {len(function.channels)} channels")
        channels = measure_channels(spark, window, spec, len(function.channels))
        rows = sum(c.rows for c in channels)
        if not rows:
            raise InputError(
                f"no events in the window from {start} to {end}",
                spec.input.path,
                "Choose other days, or wait for the input",
            )
        seconds = {}
        for name in waiting:
            say(f"{name}: merging {rows:,} events")
            merging = time.monotonic()
            meta = {"step": "apply_window", "start": f"{start}", "end": f"{end}"}
            app = commits.app_id(spec.table, commits.WINDOWS)
            mine = {**meta, "epoch": function.epoch}
            gather(spark, spec, name, function)
            with commits.commit_session(spark, app, day_number(end), mine) as own:
                merge_window(own, spec, name, window, function)
            applied_windows.check_applied(spark, spec.state[name].path, start, end)
            seconds[name] = round(time.monotonic() - merging, 3)
    finally:
        window.unpersist()
    record = {
        "start": f"{start}",
        "end": f"{end}",
        "epoch": function.epoch,
        "rows": rows,
        "channels": [vars(c) for c in channels],
        "merge_seconds": seconds,
        "seconds": round(time.monotonic() - began, 3),
    }
    table.registry.store.write_json(file, record)
    return record


def measure_channels(
    spark: SparkSession, window: DataFrame, spec: TableSpec, channels: int
) -> list[ChannelWork]:
    """Fold the persisted window, and say what each channel had to do for it.

    Rows are counted; seconds are the executor run time of the channel's own task (task i of the
    stage that follows the routing), as Spark's status store has it.
    """
    nulls = F.sum(F.when(null_key(spec), F.col(EVENTS)))
    with (
        job_group(spark, "evenkeel: each channel's work") as group,
        reading(spec),
        exact(spec.input.path),
    ):
        found = window.groupBy(state.CHANNEL).agg(F.sum(EVENTS), nulls).collect()
    refuse_null_keys(sum(r[2] or 0 for r in found), spec)
    rows = [0] * channels
    for channel, count, _ in found:
        rows[channel] = count
    # The stage that read just these rows is the one that follows the routing.
    for tasks in stages(spark, group, channels):
        if [task.records for task in tasks] == rows and any(rows):
            return [ChannelWork(c, rows[c], task.seconds) for c, task in enumerate(tasks)]
    return [ChannelWork(c, count, 0.0) for c, count in enumerate(rows)]


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    if options.holds_until is not None:
        check_tables(spark, table.spec)
        applied_windows.hold_until(
            spark, table, options.holds_until, options.of or list(table.spec.state)
        )
        return
    if options.start is None or options.end is None:
        raise InputError(
            "both are needed", "--start, --end", "Give the first day, and the day after the last"
        )
    record = apply_window(spark, table, options.start, options.end, options.allow_gap)
    busiest = max(record["channels"], key=lambda c: c["rows"])
    mean = record["rows"] / len(record["channels"])
    say(
        f"{record['rows']:,} events applied under epoch {record['epoch']}; channel "
        f"{busiest['channel']} had {busiest['rows'] / mean:.2f} times the mean"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments, day = parser(__doc__ or ""), date.fromisoformat
    arguments.add_argument("--start", type=day, help="first day")
    arguments.add_argument("--end", type=day, help="the day after the last")
    arguments.add_argument(
        "--allow-gap",
        action="store_true",
        help="leave out for ever the days from where the last window ended to --start",
    )
    arguments.add_argument(
        "--holds-until",
        type=day,
        help="apply nothing: say that state tables which were brought back without Delta's "
        "transaction ids hold all events before this day, and none after",
    )
    arguments.add_argument(
        "--of", action="append", help="with --holds-until: this state table only"
    )
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
