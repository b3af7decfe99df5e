"""A table's past: what each epoch cost and gained, and where a key lived, since when and why."""

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
    """An epoch, and what its plan says.

    Parameters
    ----------
    number : of the epoch
    epoch : None: its file cannot be read
    plan : that led to it; None: it was bootstrapped, or the plan was not read
    problem : what of it is damaged
    """

    number: int
    epoch: Epoch | None
    plan: PastPlan | None
    problem: str | None = None


@dataclass(frozen=True)
class Stay:
    """The channel where a key lived from an epoch on.

    Parameters
    ----------
    epoch, since : the epoch that brought it there, and when that was published (ISO 8601)
    channel : its name; for a split key all names, with shares
    why : the reason in words
    earlier : it may have come there before that epoch, because earlier epochs were not read
    """

    epoch: int
    since: str
    channel: str
    why: str
    earlier: bool = False


def past(
    registry: Registry,
    newest: int | None = None,
    plans: int | None = None,
    before: int | None = None,
) -> list[Past]:
    """List the epochs, newest first.

    Parameters
    ----------
    registry : of the table
    newest : how many to list at most; None: all
    plans : for how many of them to read the plan; None: for all
    before : only epochs below this number; None: all
    """
    found = registry.numbers()[::-1]
    numbers = [n for n in found if before is None or n < before][:newest]
    count = len(numbers) if plans is None else plans
    return [_past(registry, number, place < count) for place, number in enumerate(numbers)]


def stays(registry: Registry, epochs: Sequence[Past], hashes: Hashes) -> list[list[Stay]]:
    """List where each key lived: one stay for each change of channel within `epochs`.

    A plan that `epochs` lack is read if a key has moved there.

    Parameters
    ----------
    registry : of the table
    epochs : newest first, as `past` gives them
    hashes : int64 (n,), of the keys

    Returns
    -------
    For each key its stays, newest first.
    """
    found: list[list[Stay]] = [[] for _ in range(len(hashes))]
    last: list[str | None] = [None] * len(hashes)
    # An epoch before the oldest one, or one that cannot be read, may have brought the key there.
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
                why = "no plan gives a reason"
                if gap:
                    why = "the epochs that were read give no reason" if earlier else "bootstrap"
            found[i].insert(0, Stay(entry.number, entry.epoch.published, owners[i], why, earlier))
            last[i] = owners[i]
        gap = False
    return found


def _reasons(registry: Registry, entry: Past) -> Mapping[tuple[str, int], str]:
    """Return why each slot and key moved, by kind and number; empty if no plan says so."""
    plan = entry.plan
    if plan is None and entry.problem is None:
        plan = _past(registry, entry.number).plan
    return plan.reasons if plan else {}


def owner_names(function: PartitioningFunction, hashes: Hashes) -> list[str]:
    """Return the name of each key's channel, for keys (n,); for a split key all, with shares."""
    names = [function.channels[c].name for c in function.lookup_hashes(hashes).tolist()]
    split = function.split.find(hashes)
    shared = np.flatnonzero(split >= 0)
    item, channels, shares = function.split.owners(split[shared])
    owners: dict[int, list[str]] = {}
    for i, channel, share in zip(item.tolist(), channels.tolist(), shares.tolist(), strict=True):
        owners.setdefault(i, []).append(f"{function.channels[channel].name} ({share:.0%})")
    for i, shown in owners.items():
        names[int(shared[i])] = ", ".join(shown)
    return names


def _past(registry: Registry, number: int, with_plan: bool = True) -> Past:
    epoch: Any = None
    try:
        epoch = registry.epoch(number)
        return Past(number, epoch, past_plan(registry, epoch) if with_plan else None)
    except EvenkeelError as error:
        return Past(number, epoch, None, str(error))
