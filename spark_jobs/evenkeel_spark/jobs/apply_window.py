"""Apply a window: each channel folds its keys' events into the state tables, exactly once.

Delta's transaction id lets only one window follow a state, and so does a branch on Iceberg. A
second run of a window changes nothing, even one that a crash left between two tables; see
`applied_windows`. Leaves windows/END.json: what each channel measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import date
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.files.outcome_records import ChannelWork, WindowRecord
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.events.aggregate import EVENTS, exact, fold, route
from evenkeel_spark.events.open_days import refuse_open_days
from evenkeel_spark.events.parquet_files import between_whole, refuse_unknown_times
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import (
    need_time,
    null_key,
    read_events,
    refuse_null_keys,
    without_null_keys,
)
from evenkeel_spark.forgetting.meanwhile import check_none_forgotten
from evenkeel_spark.runtime.command import add_day, parser, run_job, say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.runtime.task_metrics import job_group, stages
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.write_session import own_session
from evenkeel_spark.windows import applied_windows, next_window, window_notes
from evenkeel_spark.windows.delta_windows import DeltaWindows
from evenkeel_spark.windows.iceberg.merging import add_window
from evenkeel_spark.windows.iceberg.notes import note_until
from evenkeel_spark.windows.iceberg.snapshots import IcebergWindows
from evenkeel_spark.windows.kept_types import check_kept
from evenkeel_spark.windows.window_merge import SeveralRowsError, gather, merge_window
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction

#: Times to merge rows of a key that writers append just before the MERGE. More: it waits longer
#: for such writers.
GATHERS = 5
#: Adds a folded window to one state table, as `_merge_until_in` does.
MergeInto = Callable[..., None]


def window_state(events: DataFrame, spec: TableSpec, function: PartitioningFunction) -> DataFrame:
    """Aggregate the window by key inside each channel's task: channel, then as `fold`."""
    return fold(route(events, function), spec, function)


def merge_once(
    spark: SparkSession,
    spec: TableSpec,
    name: str,
    window: DataFrame,
    function: PartitioningFunction,
    commit: Callable[[], AbstractContextManager[SparkSession]],
) -> None:
    """Merge a folded window into one state table while others write to it.

    Parameters
    ----------
    commit : makes the session of the MERGE's commit, which carries the window's transaction id

    Raises
    ------
    SeveralRowsError : a writer appends rows of the window's keys faster than they can be merged
    FenceError : other writers were first for too long; or as for `merge_window`
    """

    def once() -> None:
        for _ in range(GATHERS):
            try:
                with commit() as own:
                    merge_window(own, spec, name, window, function)
                return
            except SeveralRowsError:
                gather(spark, spec, name, function)
        with commit() as own:
            merge_window(own, spec, name, window, function)

    retry_on_conflict(spark, once, f"{name} ({spec.state[name].path})")


def apply_window(
    spark: SparkSession, table: Table, start: date, end: date, allow_gap: bool = False
) -> WindowRecord:
    """Fold the events of the days [start, end) into the state.

    Parameters
    ----------
    table : its spec and registry
    start, end : first day, and the day after the last
    allow_gap : days may be left out for ever, from where the last window ended to `start`

    Returns
    -------
    The record of the window.

    Raises
    ------
    InputError : the window is empty, is not over, was applied in part, goes back or leaves days
        out; or the input cannot be used
    FenceError : a migration is under way, or was while this ran; running it again completes it
    """
    spec, began = table.spec, time.monotonic()
    if spec.plain:
        raise InputError(
            "its state tables are the team's own (`rows`): Evenkeel folds no events into them",
            f"spec of {spec.table}",
            "Let the team's job write them",
        )
    spark = own_session(spark)
    need_time(spec)
    if start >= end:
        raise InputError(
            f"the window from {start} to {end} has no day",
            "--start, --end",
            "Give an end after the start: the end is the day after the last",
        )
    file = table.registry.files.window(end)
    tables, merge_into = _port(spark, table)
    tables.check()
    waiting = next_window.waiting(tables, table, start, end, allow_gap)
    if not waiting and (known := file.find()) is not None:
        say(f"the window from {start} to {end} is applied already: nothing to do")
        return known
    function = table.epoch().function
    tables.check_admits(function)
    events = read_events(spark, spec, function)
    refuse_open_days(events, spec, end)
    tables.check_events(waiting, events, function)
    window = _fold(events, spec, function, tables, (start, end)).persist()
    try:
        say(f"window {start} to {end}: routing to {len(function.channels)} channels")
        channels = measure_channels(spark, window, spec, len(function.channels))
        rows = sum(c.rows for c in channels)
        if not rows and waiting:
            what = f"no events in the window from {start} to {end}"
            raise InputError(what, spec.input.path, "Choose other days, or wait for the input")
        seconds = {}
        for name, there in waiting.items():
            say(f"{name}: merging {rows:,} events")
            merging = time.monotonic()
            merge_into(spark, table, name, window, function, (start, end), there)
            seconds[name] = round(time.monotonic() - merging, 3)
    finally:
        window.unpersist()
    record = WindowRecord(
        start=start,
        end=end,
        epoch=function.epoch,
        rows=rows,
        channels=channels,
        merge_seconds=seconds,
        seconds=round(time.monotonic() - began, 3),
    )
    if rows:
        file.write(record)
    return record


def _fold(
    events: DataFrame,
    spec: TableSpec,
    function: PartitioningFunction,
    tables: applied_windows.WindowTables,
    days: tuple[date, date],
) -> DataFrame:
    refuse_unknown_times(events, spec)
    events = without_null_keys(between_whole(events, spec, *days), spec)
    return check_kept(spec, tables.schema, window_state(events, spec, function))


def _port(spark: SparkSession, table: Table) -> tuple[applied_windows.WindowTables, MergeInto]:
    """Return the tables by their format, and how a window is added to one of them."""
    if table.spec.iceberg:
        return IcebergWindows(spark, table), add_window
    return DeltaWindows(spark, table), _merge_until_in


def _merge_until_in(
    spark: SparkSession,
    table: Table,
    name: str,
    window: DataFrame,
    function: PartitioningFunction,
    days: tuple[date, date],
    seen: applied_windows.Applied,
) -> None:
    """Add a window to a state table, and again if its commits tell that it is not in.

    Parameters
    ----------
    days : first day, and the day after the last
    seen : the windows that the table had

    Raises
    ------
    FenceError : a key was forgotten meanwhile; or as for `merge_once`
    """
    app = commits.windows_app(table.spec.table)
    there: applied_windows.Applied | None = seen
    meta = {"step": "apply_window", "start": f"{days[0]}", "end": f"{days[1]}"}
    while there is not None:
        mine = {**meta, "epoch": function.epoch, "seen": there.version, "seen_id": there.id}
        commit = partial(commits.our_commit, spark, app, there.count + 1, mine)
        merge_once(spark, table.spec, name, window, function, commit)
        there = applied_windows.check_applied(spark, table, name, *days, there)
        if there is not None:
            path = table.spec.state[name].path
            check_none_forgotten(spark, path, f"{name} ({path})", seen.version)


def measure_channels(
    spark: SparkSession, window: DataFrame, spec: TableSpec, channels: int
) -> list[ChannelWork]:
    """Aggregate the persisted window, and measure each channel's work.

    Rows are counted. Seconds are the executor run time of the channel's own task (task i of the
    stage that follows the routing), from Spark's status store.
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
    # The stage that has read exactly these rows is the one that follows the routing.
    for tasks in stages(spark, group, channels):
        if [task.records for task in tasks] == rows and any(rows):
            return [
                ChannelWork(channel=c, rows=rows[c], seconds=task.seconds)
                for c, task in enumerate(tasks)
            ]
    return [ChannelWork(channel=c, rows=count, seconds=0.0) for c, count in enumerate(rows)]


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    if options.holds_until is not None:
        _port(spark, table)[0].check()
        note = note_until if table.spec.iceberg else window_notes.hold_until
        note(spark, table, options.holds_until, options.of or list(table.spec.state))
        return
    if options.start is None or options.end is None:
        raise InputError(
            "both are needed", "--start, --end", "Give the first day, and the day after the last"
        )
    record = apply_window(spark, table, options.start, options.end, options.allow_gap)
    busiest = max(record.channels, key=lambda c: c.rows)
    if not record.rows:
        say("the window is in all tables, but its events are gone: no record of it is made")
        return
    say(
        f"{record.rows:,} events applied under epoch {record.epoch}; channel {busiest.channel} "
        f"had {busiest.rows * len(record.channels) / record.rows:.2f} times the mean"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    arguments = parser(__doc__ or "")
    add_day(arguments, "--start", "first day")
    add_day(arguments, "--end", "the day after the last")
    arguments.add_argument(
        "--allow-gap",
        action="store_true",
        help="leave out for ever the days from where the last window ended to --start",
    )
    add_day(
        arguments,
        "--holds-until",
        "apply nothing: say that state tables hold all events before this day, and none after. "
        "It is for tables whose history does not tell it, or that lack the window before this day",
    )
    of = "with --holds-until: this state table only"
    arguments.add_argument("--of", action="append", help=of)
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
