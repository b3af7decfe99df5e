"""One look of the watch: fold new micro-batches into its state, and decide at the newest one.

A decision is weighed against all that speaks against it, and left for a run to carry out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.pipeline.plan_file import remove_plan
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.files.records import ProfileRecord, SplitColumn
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.runs.timings import pace
from evenkeel.table import Table
from evenkeel.watch.forecast import spec_limits, too_heavy_to_move
from evenkeel.watch.mitigation import (
    batches_left,
    daily_run_under_way,
    leave,
)
from evenkeel.watch.state import PendingDecision, WatchState, new_watch
from evenkeel.watch.state_file import read, write
from evenkeel_spark.events.reader import read_events, row_column, with_times
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.delta.preflight import check_ours
from evenkeel_spark.tables.iceberg.checks import adopted_tables, check_slot_column
from evenkeel_spark.tables.moving import check_no_run_moves
from evenkeel_spark.watching.inputs import decision, profile_of
from evenkeel_spark.watching.micro_batch import MeasuredBatch, measure_batch, need_watch
from evenkeel_spark.watching.trial import Trial, attempt
from partitioning.errors import DamagedError, FenceError
from partitioning.planning.decide import Pace
from partitioning.watch.mitigation import Limits, MicroBatch


def evaluate(
    spark: SparkSession,
    table: Table,
    events: DataFrame,
    number: Column,
    run: str,
    source: str,
    now: datetime,
    *,
    busy: str | None = None,
) -> PendingDecision | None:
    """Fold the micro-batches in `events` into the watch's state, each once. The newest may decide.

    A decision is left for `run` to carry out. Looking again in the same run returns it again until
    its epoch is published.

    Parameters
    ----------
    events : of the micro-batches
    number : each event's micro-batch (INT)
    run : name of the run
    source : that numbers the micro-batches
    now : when the newest ended
    busy : what else moves state already; None: the caller knows of nothing

    Returns
    -------
    The decision; None: there is none.

    Raises
    ------
    InputError : events without a time, unless the spec drops them
    """
    spec, registry, watching = table.spec, table.registry, need_watch(table.spec)
    # Schedules and the hours of sketches are in UTC.
    now = now.astimezone(UTC)
    routed = table.epoch()
    folder = registry.run(run)
    with _cached(events):
        timed = with_times(events, spec)
        batches = measure_batch(timed, spec, routed.function, number)
        # Read the epoch only now: one may have been published during the measurement.
        current = table.epoch()
        known = read(registry)
        if known is None:
            known = new_watch(source, current, watching)
        elif known.source != source:
            known = known.numbered_by(source)
        known = known.settled(current, folder.name, watching)
        if known.decided is not None:
            say(f"{known.outcome}: still to be carried out")
            return known.decided
        # Fold all of them, even if the watch remembers fewer: load over a channel's speed waits.
        batches = [b for b in batches if b.number > known.watch.last]
        if not batches:
            # A decision that this run has left, and that a later look has forgotten.
            left = folder.learned.find() if folder.watch_decision.exists() else None
            if left is not None and left.epoch == current.number:
                _remove_decision(table, folder)
            known = replace(known, outcome="no new micro-batch")
            write(registry, known)
            say(known.outcome)
            return None
        _remove_decision(table, folder)
        limits = _limits(table, now)
        for past in batches[:-1]:
            known, *_ = known.folded(
                _batch(past, routed), current.function, limits, watching.speed, True
            )
        known = _newest(spark, table, known, batches[-1], routed, limits, folder.name, now, busy)
    crash_point("decided")
    write(registry, known)
    crash_point("folded")
    say(known.outcome)
    return known.decided


@contextmanager
def _cached(events: DataFrame) -> Iterator[None]:
    """Keep events for the block, and on if its caller has them cached: it may read them again."""
    level = events.storageLevel
    if level.useMemory or level.useDisk:
        yield
        return
    events.persist()
    try:
        yield
    finally:
        events.unpersist()


def _remove_decision(table: Table, folder: RunFiles) -> None:
    """Remove what a look has left in a run, unless rows have moved by it: the run must end.

    The watch's decision goes last, and is written first: without it, a profile would pass for a
    window's.
    """
    if find_half_moved(table.registry, folder) is not None:
        return
    # Its own plan would hold this look back, as that of another run does.
    remove_plan(folder)
    folder.decision.remove()
    folder.learned.remove()
    folder.profile.remove()
    folder.params.remove()
    folder.watch_decision.remove()


def _newest(
    spark: SparkSession,
    table: Table,
    known: WatchState,
    newest: MeasuredBatch,
    routed: Epoch,
    limits: Limits,
    run: str,
    now: datetime,
    busy: str | None,
) -> WatchState:
    """Fold the newest micro-batch. Leave its decision in the run if nothing speaks against it."""
    spec, batch, current = table.spec, _batch(newest, routed), table.epoch(known.epoch)
    seen, _, decided = known.folded(batch, current.function, limits, need_watch(spec).speed)
    count = f"batch {newest.number}: {newest.sketch.rows:,} events"
    if routed.number != current.number:
        outcome = f"{count}, routed by epoch {routed.number}: they tell nothing of {current.number}"
        return replace(seen, outcome=outcome)
    if not decided:
        names = dict(zip(newest.sketch.heavy.tolist(), newest.sketch.heavy_names, strict=True))
        stays = too_heavy_to_move(spec, known, batch, current.function, limits, names)
        return replace(seen, outcome=f"{count}, nothing to decide{stays}")
    busy = busy or _busy(spark, table, current, limits.left)
    if busy is not None:
        return replace(seen, outcome=f"{count}, stepping back: {busy}")
    started = time.monotonic()
    row = row_column(read_events(spark, spec), spec)
    profile, versions = profile_of(spark, table, current, newest.sketch, decided)

    def tried(keys: frozenset[int] | None = None) -> Trial:
        return attempt(table, known, batch, profile, row, replace(limits, only=keys), now)

    found = tried()
    if found.over and len(decided) > 1:
        # The budget may pay for one of the keys alone.
        each = (tried(frozenset([key])) for key in decided)
        found = next((one for one in each if not one.against), found)
    if found.against:
        return replace(seen, outcome=found.against)
    why, folder = found.why, table.registry.run(run)
    leave(folder, newest.number, found.weights, why)
    folder.profile.write(profile)
    seconds = round(time.monotonic() - started, 3)
    folder.learned.write(
        ProfileRecord(
            epoch=current.number, tables=versions, seconds=seconds, row=SplitColumn.of(row)
        )
    )
    folder.decision.write(
        decision(spec, current, found.function, profile, why, found.size, found.waiting)
    )
    done = PendingDecision(run, newest.number, found.weights, found.after.watch)
    return replace(seen, decided=done, outcome=why)


def _batch(measured: MeasuredBatch, routed: Epoch) -> MicroBatch:
    sketch = measured.sketch
    keys = dict(zip(sketch.heavy.tolist(), sketch.heavy_load.tolist(), strict=True))
    none = np.zeros(len(measured.loads))
    return MicroBatch(measured.number, routed.number, measured.loads, none, keys, sketch.rows)


def _limits(table: Table, now: datetime) -> Limits:
    """Return the spec's limits. A migration counts as long as the quickest one so far took.

    A migration of the watch moves few rows, as the quickest one does.
    """
    spec, watching = table.spec, need_watch(table.spec)
    quickest = pace(table.registry) or Pace(math.inf)
    batches = quickest.least_seconds / 60 / watching.every
    return replace(
        spec_limits(spec, watching),
        left=batches_left(spec, now, watching.every),
        migration=lambda helpers: batches,
    )


def _busy(spark: SparkSession, table: Table, epoch: Epoch, left: float) -> str | None:
    """Say what else moves state, or is about to; None: nothing.

    Parameters
    ----------
    left : micro-batches until the daily run
    """
    if left < 1:
        # A light epoch now would be newer than the one at which the daily run has learned.
        return "the daily run is due"
    spec = table.spec
    try:
        if spec.iceberg:
            # Until its column is renamed, a table shows nothing of rows that move on a branch.
            check_no_run_moves(spec, table.registry)
            check_slot_column(spec, adopted_tables(spark, spec), epoch.function)
        else:
            for name in spec.state:
                # A released table has no constraint: that is no reason to wait for.
                check_ours(spark, spec, name)
            constraints.check_admits(spark, spec, epoch.function)
    except (FenceError, DamagedError) as error:
        return f"{error.where}: {error.what}"
    if table.registry.files.claim(epoch.number + 1).exists():
        return f"a run is about to publish epoch {epoch.number + 1}"
    return daily_run_under_way(spec.table, table.registry, epoch)
