"""Epochs within the day: the watch's decision as a function, a plan and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from croniter import croniter

from evenkeel.quality.budgets import plan_budget
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.files.records import ParamsRecord, WatchDecision
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.runs.record import read_run
from evenkeel.spec.table_spec import TableSpec
from evenkeel.watch.state import STRATEGY, speeds
from partitioning.function.function import MIN_SHARE, PartitioningFunction, successor
from partitioning.function.hashing import KeyColumn
from partitioning.planning.plan import Plan, plan_for
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Limits, Weights
from partitioning.workload.profile import Floats, Profile

#: Age from which on the mark of a run that learns is ignored: a run that was killed and never
#: retried leaves it for good. Longer: such a run stops the watch longer.
FORGOTTEN = timedelta(hours=6)


def owners(decided: Mapping[int, Weights], after: Controller) -> dict[int, Weights]:
    """Return the owners of each key and their weights.

    Home and helpers of a shared key all stay owners. One that should get no events has the least
    possible weight. So no partial row moves before the key is handed back.
    """
    found: dict[int, Weights] = {}
    for key, weights in decided.items():
        spread = after.spread.get(key)
        least = 2 * MIN_SHARE * sum(weights.values())
        stay = dict.fromkeys(spread.channels, least) if spread and spread.helpers else {}
        found[key] = {**stay, **weights}
    return found


def mitigated(
    function: PartitioningFunction,
    weights: Mapping[int, Weights],
    number: int,
    row: KeyColumn | None,
) -> PartitioningFunction:
    """Return the function with other owners of some keys, and all else unchanged.

    Parameters
    ----------
    function : of the current epoch
    weights : of each key's owners, by hash; one owner: the key is whole
    number : of the batch at which this was decided
    row : column by which keys may be split; None: the spec splits no key
    """
    whole = dict(
        zip(function.explicit_keys.tolist(), function.explicit_channels.tolist(), strict=True)
    )
    split: dict[int, Mapping[int, float]] = {h: {} for h in function.split.keys.tolist()}
    items = function.split.owners(np.arange(len(split)))
    for item, channel, share in zip(*(a.tolist() for a in items), strict=True):
        h = int(function.split.keys[item])
        split[h] = {**split[h], channel: share}
    for key, given in weights.items():
        whole.pop(key, None)
        split[key] = given
    made = successor(
        function.key, function, function.channels, function.slots, STRATEGY,
        {"batch": number}, whole, split,
    )  # fmt: skip
    # If the spec no longer splits keys, keys already split stay so, by the function's own column.
    return replace(made, row=row) if len(made.split) and row is not None else made


def relieved(
    function: PartitioningFunction, before: Controller, after: Controller, limits: Limits
) -> tuple[Floats, Floats]:
    """Forecast each channel's load of one batch, without and with the decision.

    Parameters
    ----------
    function : of the current epoch
    before, after : the watch without the decision, and with it
    limits : of the watch

    Returns
    -------
    Two arrays, float64 (N,): load over the channel's speed as things are, and once the decision
    has settled.
    """
    limits = replace(limits, speeds=speeds(function))
    spread = {key: after.even_shares(key, now, limits) for key, now in after.spread.items()}
    now, then = after.sample.placed(before.spread), after.sample.placed(spread)
    return now / speeds(function), then / speeds(function)


def leave(run: RunFiles, number: int, weights: Mapping[int, Weights], reason: str) -> None:
    """Write a decision into a run's folder, for `plan_watch`."""
    run.params.write(ParamsRecord(watch=number))
    owned = {key: dict(owners) for key, owners in weights.items()}
    run.watch_decision.write(WatchDecision(number=number, weights=owned, reason=reason))


def plan_mitigation(
    spec: TableSpec,
    epoch: Epoch,
    profile: Profile,
    run: RunFiles,
    tables: Mapping[str, int],
    row: KeyColumn | None,
) -> Plan:
    """Make the plan for the decision that the watch has left in a run.

    Raises
    ------
    DamagedError : the decision's file is torn
    """
    left = run.watch_decision.read()
    return plan_for(
        spec.table,
        profile,
        epoch.function,
        mitigated(epoch.function, left.weights, left.number, row),
        budget=plan_budget(spec.budget),
        tables=tables,
        reason=left.reason,
        splitting=spec.split is not None,
    )


def reason(
    number: int,
    after: Controller,
    decided: Mapping[int, Weights],
    channel: Callable[[int], str],
    key: Callable[[int], str],
) -> str:
    """Say in words what was decided and why.

    Parameters
    ----------
    number : of the batch
    after : the watch, with the decision
    decided : weights of each key's owners, by hash
    channel : maps a channel's number to its name
    key : maps a key's hash to the text that people know
    """
    said = []
    for h, weights in decided.items():
        spread = after.spread.get(h)
        who = ", ".join(channel(c) for c in sorted(weights))
        if spread is None:
            said.append(f"{key(h)} goes back to channel {who}: its skew is gone")
        elif not spread.helpers:
            said.append(f"{key(h)} goes to channel {who}: its channel has too much")
        elif spread.catching:
            behind = [spread.home] if spread.catching > 0 else spread.helpers
            slow = ", ".join(channel(c) for c in behind)
            said.append(f"{key(h)} goes to channel {who} until {slow} has caught up")
        else:
            said.append(f"{key(h)} is shared by channel {who}")
    return f"the watch, batch {number}: {'; '.join(said)}"


def batches_left(spec: TableSpec, now: datetime, minutes: float) -> float:
    """Return the number of micro-batches until the spec's schedule is next due.

    Parameters
    ----------
    now : UTC
    minutes : of a micro-batch

    Returns
    -------
    Batches; infinite if the schedule is not a cron expression, but names assets or is empty.
    """
    try:
        due = croniter(str(spec.schedule), now).get_next(datetime)
    except (KeyError, ValueError):
        return float("inf")
    return (due - now).total_seconds() / 60 / minutes


def daily_run_under_way(table: str, registry: Registry, epoch: Epoch) -> str | None:
    """Say which daily run learns at this epoch, or has planned from it and may still move state.

    Runs of the watch do not count.

    Returns
    -------
    A text for people; None: there is no such run.
    """
    for name in registry.store.names("runs"):
        run = registry.run(name)
        if run.watch_decision.exists():
            continue
        learned = run.learned.exists()
        if run.plan.exists() and _may_move(table, registry, epoch, run):
            return f"run {name} has planned from epoch {epoch.number}"
        # A plan without a profile is of an earlier attempt, which this run has begun again.
        if learned and run.plan.exists():
            continue
        if _may_plan(run, epoch):
            return f"run {name} learns at epoch {epoch.number}"
    return None


def _may_plan(run: RunFiles, epoch: Epoch) -> bool:
    """Return whether a run that has no plan learns, and may make one from this epoch."""
    mark, decision = run.learning.find(), run.decision.find()
    return (
        mark is not None
        and mark.epoch == epoch.number
        and datetime.now(UTC) - mark.at < FORGOTTEN
        and (decision is None or decision.rebalance)
    )


def _may_move(table: str, registry: Registry, epoch: Epoch, run: RunFiles) -> bool:
    """Return whether a run that has a plan may still carry it out from this epoch."""
    # For most runs this small file is enough.
    learned = run.learned.find()
    if learned is not None and learned.epoch != epoch.number:
        return False
    problems: list[str] = []
    parts = read_run(table, registry, run, problems)
    return not (
        parts.plan is None
        or parts.plan.parent_digest != epoch.function.digest
        or (parts.gate_plan is not None and not parts.gate_plan.success)
        or (parts.approval is not None and parts.approval.refuses(parts.plan.digest))
        or parts.params.dry_run
        or parts.rolled_back
    )
