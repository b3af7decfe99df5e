"""A table's past: what each epoch cost and brought, and where a key lived, since when and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenkeel.inspect.past_plan import PastPlan, past_plan
from evenkeel.registry.epochs import Epoch, Registry
from partitioning.errors import EvenkeelError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, slot_of


@dataclass(frozen=True)
class Past:
    """An epoch and what the plan that led to it tells; None: bootstrapped, or not read. `problem`:
    what of it is damaged (then there may be no epoch either)."""

    number: int
    epoch: Epoch | None
    plan: PastPlan | None
    problem: str | None = None


@dataclass(frozen=True)
class Stay:
    """Where a key lived from an epoch on, and why it came there; `earlier`: it may have come before
    that epoch, as what is before it was not read."""

    epoch: int
    since: str
    channel: str
    why: str
    earlier: bool = False


def past(registry: Registry, newest: int | None = None, plans: int | None = None) -> list[Past]:
    """Epochs, newest first; at most the `newest` of them, and of at most `plans` their plan."""
    numbers = registry.numbers()[::-1][:newest]
    count = len(numbers) if plans is None else plans
    return [_past(registry, number, place < count) for place, number in enumerate(numbers)]


def stays(registry: Registry, epochs: Sequence[Past], hashes: Hashes) -> list[list[Stay]]:
    """Where each key (n,) lived, newest first: a stay for each change of channel within `epochs`
    (newest first, as `past` gives them). Plans that they lack are read where a key has moved."""
    found: list[list[Stay]] = [[] for _ in range(len(hashes))]
    last: list[str | None] = [None] * len(hashes)
    # Nothing is known of what came before the oldest epoch, or before one that cannot be read.
    gap = True
    for entry in reversed(epochs):
        if entry.epoch is None:
            gap = True
            continue
        function = entry.epoch.function
        slots = slot_of(hashes, len(function.slots)).tolist()
        owners = owner_names(function, hashes)
        moved = [i for i, name in enumerate(owners) if name != last[i]]
        reasons = _reasons(registry, entry) if moved and not gap else {}
        earlier = gap and entry.number > 0
        for i in moved:
            own = int(hashes[i])
            why = reasons.get(("share", own)) or reasons.get(("key", own))
            why = why or reasons.get(("slot", slots[i]))
            if why is None:
                why = "not told by a plan"
                if gap:
                    why = "not told by the epochs that were read" if earlier else "bootstrap"
            found[i].insert(0, Stay(entry.number, entry.epoch.published, owners[i], why, earlier))
            last[i] = owners[i]
        gap = False
    return found


def _reasons(registry: Registry, entry: Past) -> Mapping[tuple[str, int], str]:
    """Why each slot and key moved, by its kind and number; empty where no plan tells."""
    plan = entry.plan
    if plan is None and entry.problem is None:
        plan = _past(registry, entry.number).plan
    return plan.reasons if plan else {}


def owner_names(function: PartitioningFunction, hashes: Hashes) -> list[str]:
    """The channel of each key (n,); of a split key all, each with its share."""
    names = [function.channels[c].name for c in function.lookup_hashes(hashes).tolist()]
    split = function.split.find(hashes)
    shared = np.flatnonzero(split >= 0)
    item, channels, shares = function.split.owners(split[shared])
    owners: dict[int, list[str]] = {}
    for i, channel, share in zip(item.tolist(), channels.tolist(), shares.tolist(), strict=True):
        owners.setdefault(i, []).append(f"{function.channels[channel].name} ({share:.0%})")
    for i, told in owners.items():
        names[int(shared[i])] = ", ".join(told)
    return names


def _past(registry: Registry, number: int, with_plan: bool = True) -> Past:
    epoch: Any = None
    try:
        epoch = registry.epoch(number)
        return Past(number, epoch, past_plan(registry, epoch) if with_plan else None)
    except EvenkeelError as error:
        return Past(number, epoch, None, str(error))
