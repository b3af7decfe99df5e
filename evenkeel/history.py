"""A table's past: what each epoch cost and brought, and where a key lived, since when and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenkeel.epochs import Epoch, Registry
from evenkeel.standing import epoch_plan
from partitioning.errors import EvenkeelError
from partitioning.function import PartitioningFunction
from partitioning.hashing import Hashes, slot_of
from partitioning.plan import Plan


@dataclass(frozen=True)
class Past:
    """An epoch and the plan that led to it; None: bootstrapped. `problem`: what of it is damaged
    (then there may be no epoch either)."""

    number: int
    epoch: Epoch | None
    plan: Plan | None
    problem: str | None = None


@dataclass(frozen=True)
class Stay:
    """Where a key lived from an epoch on, and why it came there."""

    epoch: int
    since: str
    channel: str
    why: str


def past(registry: Registry, newest: int | None = None) -> list[Past]:
    """Epochs with their plans, newest first; at most the `newest` of them."""
    numbers = registry.numbers()[::-1]
    return [_past(registry, number) for number in numbers[:newest]]


def stays(epochs: Sequence[Past], hashes: Hashes) -> list[list[Stay]]:
    """Where each key (n,) lived, newest first: a stay for each change of channel within `epochs`
    (newest first, as `past` gives them)."""
    found: list[list[Stay]] = [[] for _ in range(len(hashes))]
    last: list[str | None] = [None] * len(hashes)
    for entry in reversed(epochs):
        if entry.epoch is None:
            continue
        function = entry.epoch.function
        reasons: dict[tuple[str, int], str] = {}
        if entry.plan is not None:
            reasons = {(m.kind, m.item): m.reason for m in entry.plan.moves}
        slots = slot_of(hashes, len(function.slots)).tolist()
        owners = owner_names(function, hashes)
        for i, (slot, name) in enumerate(zip(slots, owners, strict=True)):
            if name == last[i]:
                continue
            why = reasons.get(("key", int(hashes[i]))) or reasons.get(("slot", slot))
            if why is None:
                why = "before this page's history" if last[i] is None else "not told by a plan"
                if entry.number == 0:
                    why = "bootstrap"
            found[i].insert(0, Stay(entry.number, entry.epoch.published, name, why))
            last[i] = name
    return found


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


def _past(registry: Registry, number: int) -> Past:
    epoch: Any = None
    try:
        epoch = registry.epoch(number)
        return Past(number, epoch, epoch_plan(registry, number))
    except EvenkeelError as error:
        return Past(number, epoch, None, str(error))
