"""A decision of the watch on trial: what it is, what it moves, and what speaks against it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from evenkeel.quality.budgets import BUDGET_SLACK, plan_budget
from evenkeel.runs.timings import pace
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel.watch.mitigation import mitigated, owners, reason
from evenkeel.watch.state import WatchState
from evenkeel_spark.watching.inputs import weighed
from evenkeel_spark.watching.micro_batch import need_watch
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.moves.moves import moves_between
from partitioning.planning.decide import Pace
from partitioning.watch.act_or_wait import Waiting, bytes_back
from partitioning.watch.mitigation import Limits, MicroBatch, Weights
from partitioning.workload.profile import Profile


@dataclass(frozen=True, eq=False)
class Trial:
    """Hold a decision and what speaks against it.

    Parameters
    ----------
    after : the watch with the decision
    weights : owners of each key that moves, by hash
    function : with them
    size : bytes that move
    why : in words
    waiting : what waiting for the daily run costs; None: not weighed
    against : why it is not carried out; empty: nothing speaks against it
    over : that is the budget
    """

    after: WatchState
    weights: dict[int, Weights]
    function: PartitioningFunction
    size: float = 0.0
    why: str = ""
    waiting: Waiting | None = None
    against: str = ""
    over: bool = False


def attempt(
    table: Table,
    known: WatchState,
    batch: MicroBatch,
    profile: Profile,
    row: KeyColumn | None,
    limits: Limits,
    now: datetime,
) -> Trial:
    """Fold a micro-batch, now that the state is weighed, and hold all against its decision.

    Parameters
    ----------
    known : the watch without the micro-batch
    profile : of the micro-batch, with the state of the keys that may move
    row : column by which keys are split; None: none is
    limits : of the watch
    now : UTC
    """
    spec, current = table.spec, table.epoch(known.epoch).function
    speed, count = need_watch(spec).speed, f"batch {batch.number}: {profile.events:,} events"
    _, after, decided = known.folded(batch, current, limits, speed)
    shared = {
        key for key in after.watch.keys_placed_since(known.watch) if after.watch.spread[key].helpers
    }
    if shared:
        limits = _affordable(table, limits, profile, shared)
        _, after, decided = known.folded(batch, current, limits, speed)
    if not decided:
        against = f"{count}, nothing to decide: copies take too long"
        return Trial(after, {}, current, against=against)
    weights = owners(decided, after.watch)
    why = _why(batch.number, profile, after, decided, current)
    function = mitigated(current, weights, batch.number, row)
    begins = bool(after.watch.keys_placed_since(known.watch))
    size, back = _bytes_there_and_back(current, function, profile, begins)
    waiting, against, over = None, "", None
    if begins:
        waiting = weighed(table, known, after, profile, size, back, limits, now)
        why = f"{why}; {waiting}"
    if waiting is not None and waiting.cheaper:
        against = f"not now: {why}"
    elif (over := _over_budget(spec, size, back)) is not None:
        against = f"not now: {why}; {over}"
    return Trial(after, weights, function, size, why, waiting, against, over is not None)


def _why(
    number: int,
    profile: Profile,
    after: WatchState,
    decided: dict[int, Weights],
    function: PartitioningFunction,
) -> str:
    """Return the reason of a decision in words, with the names of keys and channels."""
    named = dict(zip(profile.heavy.tolist(), profile.heavy_names, strict=True))
    return reason(
        number,
        after.watch,
        decided,
        channel=lambda c: function.channels[c].name,
        key=lambda h: named.get(h, str(h)),
    )


def _bytes_there_and_back(
    current: PartitioningFunction, function: PartitioningFunction, profile: Profile, begins: bool
) -> tuple[float, float]:
    """Return the bytes that a decision moves, and those that handing its keys back moves.

    Only a mitigation that begins now must be able to go back later: for others these are 0.
    """
    listed = np.concatenate([f.explicit_keys for f in (current, function)])
    known = profile.listing(np.unique(listed))
    size = float(sum(m.bytes for m in moves_between(current, function, known)))
    return size, bytes_back(current, function, known) if begins else 0.0


def _over_budget(spec: TableSpec, size: float, back: float) -> str | None:
    """Return in words by what a decision exceeds the spec's budget; None: it does not."""
    most = plan_budget(spec.budget)
    if most is None or max(size, back) <= most + BUDGET_SLACK:
        return None
    way = "" if size > most + BUDGET_SLACK else " to hand it back"
    moves = f"{size if not way else back:,.0f} bytes would move{way}"
    return f"{moves}, the budget is {spec.budget:,}"


def _affordable(table: Table, limits: Limits, profile: Profile, keys: Collection[int]) -> Limits:
    """Return the limits for keys that begin to be shared, now that their state is weighed."""
    listed = np.isin(profile.heavy, list(keys))
    copy, size = (float(b[listed].sum()) for b in (profile.heavy_copy_bytes, profile.heavy_bytes))
    way, every = pace(table.registry) or Pace(math.inf), need_watch(table.spec).every
    return limits.affording(
        copy,
        size - copy,
        plan_budget(table.spec.budget),
        lambda size: way.seconds(size) / 60 / every,
    )
