"""Light epochs: what the watch has decided, as a function, a plan, and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from croniter import croniter

from evenkeel.quality.budgets import plan_budget
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.run_folder import WATCHED, RunFolder
from evenkeel.registry.store import RESTORE, shaped
from evenkeel.runs.record import read_run
from evenkeel.spec.table_spec import TableSpec
from evenkeel.watch.state import STRATEGY, speeds
from evenkeel.watch.state_file import weights_dict, weights_of
from partitioning.errors import DamagedError
from partitioning.function.function import LEAST_SHARE, KeyColumn, PartitioningFunction, successor
from partitioning.planning.plan import Plan, plan_for
from partitioning.watch.controller import Watch
from partitioning.watch.mitigation import Limits, Weights
from partitioning.workload.profile import Floats, Profile

#: What a run leaves as it begins to learn, and how long that is believed: one that was killed, and
#: is not tried again, leaves it for good.
LEARNING, FORGOTTEN = "learning.json", timedelta(hours=6)


def owners(decided: Mapping[int, Weights], after: Watch) -> dict[int, Weights]:
    """Owners of each key and their weights.

    Home and helpers of a key that is shared all stay owners, with the least weight there is while
    they shall get nothing: so no partial moves before the key is handed back.
    """
    found: dict[int, Weights] = {}
    for key, weights in decided.items():
        spread = after.spread.get(key)
        least = 2 * LEAST_SHARE * sum(weights.values())
        stay = dict.fromkeys(spread.channels, least) if spread and spread.helpers else {}
        found[key] = {**stay, **weights}
    return found


def mitigated(
    function: PartitioningFunction,
    weights: Mapping[int, Weights],
    number: int,
    row: KeyColumn | None,
) -> PartitioningFunction:
    """The function with other owners of some keys; all else stays.

    Parameters
    ----------
    weights : of each key's owners, by hash; one owner: the key is whole
    number : of the batch that it was decided at
    row : column by which keys may be split; None: none is allowed to be
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
    # Where the spec allows splitting no longer, the function's own column goes on.
    return replace(made, row=row) if len(made.split) and row is not None else made


def relieved(
    function: PartitioningFunction, before: Watch, after: Watch, limits: Limits
) -> tuple[Floats, Floats]:
    """Forecast of a batch's load of each channel, over its speed, float64 (N,): as things are, and
    once all that is decided has settled.

    Parameters
    ----------
    before, after : the watch without the decision, and with it
    """
    limits = replace(limits, speeds=speeds(function))
    spread = {key: after.evened(key, now, limits) for key, now in after.spread.items()}
    now, then = after.sample.placed(before.spread), after.sample.placed(spread)
    return now / speeds(function), then / speeds(function)


def leave(run: RunFolder, number: int, weights: Mapping[int, Weights], reason: str) -> None:
    """Leave a decision for `plan_watch`."""
    run.write_json("params.json", {"watch": number})
    run.write_json(WATCHED, {"number": number, "weights": weights_dict(weights), "reason": reason})


def plan_mitigation(
    spec: TableSpec,
    epoch: Epoch,
    profile: Profile,
    run: RunFolder,
    tables: Mapping[str, int],
    row: KeyColumn | None,
) -> Plan:
    """The plan for what a look has left in its run.

    Raises
    ------
    DamagedError : it is torn
    """
    where = run.path(WATCHED)
    left = shaped(run.read_json(WATCHED), where, number=int, weights=dict, reason=str)
    try:
        weights = weights_of(left["weights"])
    except (AttributeError, TypeError, ValueError) as error:
        raise DamagedError(f"not weights of keys ({error})", where, RESTORE) from error
    return plan_for(
        spec.table,
        profile,
        epoch.function,
        mitigated(epoch.function, weights, left["number"], row),
        budget=plan_budget(spec.budget),
        tables=tables,
        reason=left["reason"],
        splitting=spec.split is not None,
    )


def reason(
    number: int,
    after: Watch,
    decided: Mapping[int, Weights],
    channel: Callable[[int], str],
    key: Callable[[int], str],
) -> str:
    """What was decided and why, in words.

    Parameters
    ----------
    channel : a channel's number -> its name
    key : a key's hash -> how a person writes it
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
            told = ", ".join(channel(c) for c in behind)
            said.append(f"{key(h)} goes to channel {who} until {told} has caught up")
        else:
            said.append(f"{key(h)} is shared by channel {who}")
    return f"the watch, batch {number}: {'; '.join(said)}"


def batches_left(spec: TableSpec, now: datetime, minutes: float) -> float:
    """Micro-batches of so many minutes until the spec's schedule is next due; infinite: it is on
    none that tells."""
    try:
        due = croniter(spec.schedule or "", now).get_next(datetime)
    except (KeyError, ValueError):
        return float("inf")
    return (due - now).total_seconds() / 60 / minutes


def begun(run: RunFolder, epoch: Epoch) -> None:
    """Leave a mark that a run begins to learn at this epoch, for `under_way` to find. What an
    earlier attempt of the run has learned and decided goes."""
    for left in ("decision.json", "profile.json"):
        run.remove(left)
    run.write_json(LEARNING, {"epoch": epoch.number, "at": datetime.now(UTC).isoformat()})


def under_way(table: str, registry: Registry, epoch: Epoch) -> str | None:
    """What a run, none of the watch's, is about: it learns at this epoch, or has planned from it
    and may still move state; None: there is none."""
    for name in registry.store.names("runs"):
        run = registry.run(name)
        if run.exists(WATCHED):
            continue
        learned = run.exists("profile.json")
        if run.exists("plan.json") and _may_move(table, registry, epoch, run):
            return f"run {name} has planned from epoch {epoch.number}"
        # A plan beside what is still learned is an earlier attempt's.
        if learned and run.exists("plan.json"):
            continue
        if run.exists(LEARNING) and _may_plan(run, epoch):
            return f"run {name} learns at epoch {epoch.number}"
    return None


def _may_plan(run: RunFolder, epoch: Epoch) -> bool:
    """Whether a run that has no plan may make one from this epoch."""
    where = run.path(LEARNING)
    mark = shaped(run.read_json(LEARNING), where, epoch=int, at=str)
    try:
        since = datetime.now(UTC) - datetime.fromisoformat(mark["at"])
    except (TypeError, ValueError) as error:
        raise DamagedError(f"not a time ({error})", where, RESTORE) from error
    against = False
    if run.exists("decision.json"):
        decided = run.read_json("decision.json")
        against = not shaped(decided, run.path("decision.json"), rebalance=bool)["rebalance"]
    return mark["epoch"] == epoch.number and since < FORGOTTEN and not against


def _may_move(table: str, registry: Registry, epoch: Epoch, run: RunFolder) -> bool:
    """Whether a run that has a plan may still carry it out from this epoch."""
    # Told by a small file, for most runs.
    if run.exists("profile.json") and run.read_json("profile.json").get("epoch") != epoch.number:
        return False
    problems: list[str] = []
    parts = read_run(table, registry, run, problems)
    return not (
        parts.plan is None
        or parts.plan.parent_digest != epoch.function.digest
        or (parts.gate_plan is not None and not parts.gate_plan["success"])
        or (parts.approval is not None and not parts.approval["approved"])
        or parts.params.get("dry_run")
        or parts.rolled_back
    )
