"""A look of the watch at micro-batches: what they say is folded into what is known, and what is
decided is held against all that speaks against it, and left for the run that carries it out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession

from evenkeel.quality.budgets import plan_budget
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.run_folder import WATCHED
from evenkeel.runs.timings import pace
from evenkeel.table import Table
from evenkeel.watch.mitigation import batches_left, leave, mitigated, owners, reason, under_way
from evenkeel.watch.state import Decided, Watched, begun
from evenkeel.watch.state_file import read, write
from evenkeel_spark.events.reader import read_events, row_column
from evenkeel_spark.migration.fence import crash_point
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.watching.inputs import decision, profile_of, weighed
from evenkeel_spark.watching.micro_batch import Measured, measure_batch, need_watch
from partitioning.errors import FenceError
from partitioning.moves.moves import moves_between
from partitioning.planning.decide import Pace
from partitioning.watch.act_or_wait import bytes_back
from partitioning.watch.mitigation import Batch, Limits
from partitioning.workload.profile import Profile


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
) -> Decided | None:
    """Fold the micro-batches in `events` into what the watch knows, each once; the newest may
    decide. What is decided is left for `run` to carry out, and returned; looking again in the
    same run gives it again, until its epoch is published.

    Parameters
    ----------
    number : of each event's micro-batch (INT)
    source : who numbers them
    now : when the newest ended
    busy : what moves state already; None: nothing that the caller knows of
    """
    spec, registry, asked = table.spec, table.registry, need_watch(table.spec)
    # Schedules, and the hours of sketches, are of UTC.
    now = now.astimezone(UTC)
    routed = table.epoch()
    folder = registry.run(run)
    events = events.persist()
    try:
        batches = measure_batch(events, spec, routed.function, number)
        # Not before: what was measured while an epoch was published is the older one's.
        current = table.epoch()
        known = read(registry)
        if known is None or known.source != source:
            known = begun(source, current, asked)
        known = known.settled(current, folder.name, asked)
        if known.decided is not None:
            say(f"{known.told}: still to be carried out")
            return known.decided
        # All of them, however many are remembered: what came beyond a channel's speed waits.
        batches = [b for b in batches if b.number > known.watch.last]
        if not batches:
            say("no micro-batch that is new")
            write(registry, known)
            return None
        # The mark goes last, and comes first: a profile without it would pass for a window's.
        for left in ("decision.json", "profile.json", "profile.npz", "params.json", WATCHED):
            folder.remove(left)
        limits = _limits(table, now)
        for past in batches[:-1]:
            known, *_ = known.folded(
                _batch(past, routed), current.function, limits, asked.speed, True
            )
        known = _newest(spark, table, known, batches[-1], routed, limits, folder.name, now, busy)
    finally:
        events.unpersist()
    crash_point("decided")
    write(registry, known)
    crash_point("folded")
    say(known.told)
    return known.decided


def _newest(
    spark: SparkSession,
    table: Table,
    known: Watched,
    newest: Measured,
    routed: Epoch,
    limits: Limits,
    run: str,
    now: datetime,
    busy: str | None,
) -> Watched:
    """Fold the newest micro-batch; what it decides, if it holds against all else, is left."""
    spec, batch, current = table.spec, _batch(newest, routed), table.epoch(known.epoch)
    seen, after, decided = known.folded(batch, current.function, limits, need_watch(spec).speed)
    count = f"batch {newest.number}: {newest.sketch.rows:,} events"
    if routed.number != current.number:
        told = f"{count}, routed by epoch {routed.number}: they tell nothing of {current.number}"
        return replace(seen, told=told)
    if not decided:
        return replace(seen, told=f"{count}, nothing to decide")
    busy = busy or _busy(spark, table, current, limits.left)
    if busy is not None:
        return replace(seen, told=f"{count}, stepping back: {busy}")
    started = time.monotonic()
    row = row_column(read_events(spark, spec), spec)
    profile, versions = profile_of(spark, table, current, newest.sketch, decided)
    shared = {key for key in after.watch.begun(known.watch) if after.watch.spread[key].helpers}
    if shared:
        limits = _affordable(table, limits, profile, shared)
        seen, after, decided = known.folded(batch, current.function, limits, need_watch(spec).speed)
        if not decided:
            return replace(seen, told=f"{count}, nothing to decide: copies take too long")
    weights = owners(decided, after.watch)
    named = dict(zip(newest.sketch.heavy.tolist(), newest.sketch.heavy_names, strict=True))
    why = reason(
        newest.number,
        after.watch,
        decided,
        channel=lambda c: current.function.channels[c].name,
        key=lambda h: named.get(h, str(h)),
    )
    function = mitigated(current.function, weights, newest.number, row)
    listed = np.concatenate([f.explicit_keys for f in (current.function, function)])
    known_of = profile.listing(np.unique(listed))
    size = float(sum(m.bytes for m in moves_between(current.function, function, known_of)))
    # What has begun is on its way; what begins must be able to go back.
    begins = bool(after.watch.begun(known.watch))
    back = bytes_back(current.function, function, known_of) if begins else 0.0
    waiting = None
    if begins:
        waiting = weighed(table, known, after, profile, size, back, limits, now)
    if waiting is not None:
        why = f"{why}; {waiting}"
        if waiting.cheaper:
            return replace(seen, told=f"not now: {why}")
    most = plan_budget(spec.budget)
    if most is not None and max(size, back) > most + 0.5:
        way = "" if size > most + 0.5 else " to hand it back"
        over = f"{size if not way else back:,.0f} bytes would move{way}"
        over = f"{over}, the budget is {spec.budget:,}"
        return replace(seen, told=f"not now: {why}; {over}")
    folder = table.registry.run(run)
    leave(folder, newest.number, weights, why)
    folder.write("profile.npz", profile.to_bytes())
    meta: dict[str, Any] = {"tables": versions, "epoch": current.number}
    meta["seconds"] = round(time.monotonic() - started, 3)
    if row is not None:
        meta["row"] = {"name": row.name, "type": row.type}
    folder.write_json("profile.json", meta)
    folder.write_json(
        "decision.json", decision(spec, current, function, profile, why, size, waiting)
    )
    done = Decided(run, newest.number, weights, after.watch)
    return replace(seen, decided=done, told=why)


def _batch(measured: Measured, routed: Epoch) -> Batch:
    sketch = measured.sketch
    keys = dict(zip(sketch.heavy.tolist(), sketch.heavy_load.tolist(), strict=True))
    none = np.zeros(len(measured.loads))
    return Batch(measured.number, routed.number, measured.loads, none, keys)


def _limits(table: Table, now: datetime) -> Limits:
    """What the spec allows; a migration takes the time that the quickest so far took, as it moves
    few rows."""
    spec, asked = table.spec, need_watch(table.spec)
    quickest = pace(table.registry) or Pace(math.inf)
    batches = quickest.least_seconds / 60 / asked.every
    return Limits(
        eta=asked.eta,
        left=batches_left(spec, now, asked.every),
        memory=asked.memory,
        migration=lambda helpers: batches,
        splitting=spec.split is not None,
        calm=spec.trigger,
        copies=spec.split and spec.split.copies,
    )


def _affordable(table: Table, limits: Limits, profile: Profile, begun: Collection[int]) -> Limits:
    """Limits for keys that begin to be shared, now that their state is weighed."""
    keys = np.isin(profile.heavy, list(begun))
    copy, size = (float(b[keys].sum()) for b in (profile.heavy_copy_bytes, profile.heavy_bytes))
    way, every = pace(table.registry) or Pace(math.inf), need_watch(table.spec).every
    return limits.affording(
        copy,
        size - copy,
        plan_budget(table.spec.budget),
        lambda size: way.seconds(size) / 60 / every,
    )


def _busy(spark: SparkSession, table: Table, epoch: Epoch, left: float) -> str | None:
    """What else moves state, or is about to; None: nothing.

    Parameters
    ----------
    left : micro-batches until the daily run
    """
    if left < 1:
        # It would find another epoch published than the one that it has learned at.
        return "the daily run is due"
    try:
        constraints.check_admits(spark, table.spec, epoch.function)
    except FenceError as error:
        return f"{error.where} {error.what}"
    return under_way(table.spec.table, table.registry, epoch)
