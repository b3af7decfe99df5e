"""Moves: what changes its channel between two functions, what goes with it, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import slot_of
from partitioning.moves.partial_rows import flows, shared_keys
from partitioning.moves.safe_order import safe_order
from partitioning.workload.metrics import channel_loads, fit_slots, placements
from partitioning.workload.profile import Floats, Profile


@dataclass(frozen=True)
class Move:
    """One slot's tail or one heavy key that changes its channel, or part of a split key.

    Parameters
    ----------
    kind : `slot`, `key`, or `share` of a key that is split before or after. A share moves no state
        by itself but the copy that a new owner gets
    item : number of the slot, or hash of the key
    name : as people write it: the key, or `slot` and its number
    source : number of the channel that it leaves
    target : number of the channel to which it goes
    load : that goes with it, in the window's unit
    bytes : bytes of state that go with it
    rows : rows of state that go with it
    reason : why it moves, in words
    share : part of the key's events that goes, 0 to 1; 1: all
    """

    kind: str
    item: int
    name: str
    source: int
    target: int
    load: float
    bytes: float
    rows: float
    reason: str
    share: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; a whole key has no share."""
        return {n: v for n, v in vars(self).items() if n != "share" or self.kind == "share"}


def moves_between(
    previous: PartitioningFunction,
    function: PartitioningFunction,
    profile: Profile,
    reason: str | None = None,
) -> tuple[Move, ...]:
    """Return every move that leads from one function to the other, in `safe_order`.

    A move is a slot's tail, a heavy key or a share of a split key that changes its channel.

    Parameters
    ----------
    previous, function : if they differ in slots, moves are of the slots of the one with more
    profile : what is known of load and state. It must list the explicit and split keys of both
        functions (`Profile.listing`)
    reason : reason of every move; None: each states its own
    """
    slots = max(len(previous.slots), len(function.slots))
    previous, function = previous.refined(slots), function.refined(slots)
    shared = np.isin(profile.heavy, shared_keys(previous, function))
    reasons = _Reasons(previous, function, profile, reason)
    moves = [
        *_slot_moves(previous, function, profile, reasons),
        *_key_moves(previous, function, profile, ~shared, reasons),
        *_of_split_keys(previous, function, profile, np.flatnonzero(shared), reason),
    ]
    moves.sort(key=lambda m: (-m.load, m.kind, m.item, m.source, m.target))
    before = channel_loads(previous, profile)
    count = max(len(before), len(function.channels))
    batches = safe_order(
        [m.source for m in moves],
        [m.target for m in moves],
        [m.load for m in moves],
        np.pad(before, (0, count - len(before))),
        np.pad(function.capacities, (0, count - len(function.channels))),
    )
    return tuple(moves[i] for batch in batches for i in batch)


class _Reasons:
    """Say why whole items move between two functions; `given` replaces every reason."""

    def __init__(
        self,
        previous: PartitioningFunction,
        function: PartitioningFunction,
        profile: Profile,
        given: str | None,
    ) -> None:
        self.previous, self.function, self.given = previous, function, given
        self.share = _shares(previous, profile)
        added = function.channels[len(previous.channels) :]
        self.names = [c.name for c in (*previous.channels, *added)]

    def of(self, source: int, target: int, back: bool = False) -> str:
        """Return the reason of a move; `back`: its key was pinned and goes to its slot."""
        if self.given is not None:
            return self.given
        share, names, channels = self.share, self.names, self.function.channels
        if back and share[source] <= share[target]:
            return "it is light by now and goes back to its slot"
        if source >= len(channels) or channels[source].capacity == 0:
            return f"channel {names[source]} is being emptied"
        if target >= len(self.previous.channels):
            return f"channel {names[target]} is new"
        return (
            f"channel {names[source]} carries {share[source]:.3f}x fair share, "
            f"channel {names[target]} {share[target]:.3f}x"
        )


def _slot_moves(
    previous: PartitioningFunction,
    function: PartitioningFunction,
    profile: Profile,
    reasons: _Reasons,
) -> Iterator[Move]:
    """Return the moves of slots' tails."""
    tails = [
        fit_slots(profile.tail(values, heavy), len(function.slots))
        for values, heavy in (
            (profile.load, profile.heavy_load),
            (profile.bytes, profile.heavy_bytes),
            (profile.rows, profile.heavy_rows),
        )
    ]
    for slot in np.flatnonzero(previous.slots != function.slots).tolist():
        source, target = int(previous.slots[slot]), int(function.slots[slot])
        load, size, rows = (float(t[slot]) for t in tails)
        why = reasons.of(source, target)
        yield Move("slot", slot, f"slot {slot}", source, target, load, size, rows, why)


def _key_moves(
    previous: PartitioningFunction,
    function: PartitioningFunction,
    profile: Profile,
    whole: npt.NDArray[np.bool_],
    reasons: _Reasons,
) -> Iterator[Move]:
    """Return the moves of the heavy keys that both functions leave whole, bool (K,)."""
    left, reached = previous.lookup_hashes(profile.heavy), function.lookup_hashes(profile.heavy)
    unnamed = np.setdiff1d(previous.explicit_keys, function.explicit_keys)
    home = previous.slots[slot_of(profile.heavy, len(previous.slots))]
    back = np.isin(profile.heavy, unnamed) & (reached == home)
    for k in np.flatnonzero((left != reached) & whole).tolist():
        source, target = int(left[k]), int(reached[k])
        yield Move(
            "key",
            int(profile.heavy[k]),
            profile.heavy_names[k],
            source,
            target,
            float(profile.heavy_load[k]),
            float(profile.heavy_bytes[k]),
            float(profile.heavy_rows[k]),
            reasons.of(source, target, bool(back[k])),
        )


def _of_split_keys(
    previous: PartitioningFunction,
    function: PartitioningFunction,
    profile: Profile,
    keys: npt.NDArray[np.intp],
    reason: str | None,
) -> list[Move]:
    """Return the moves of keys that either function splits.

    A partial row weighs the mean of the key's partial rows. A copy that is deleted costs nothing.

    Parameters
    ----------
    keys : positions of the keys in the profile
    """
    hashes = profile.heavy[keys]
    copies = [
        np.bincount(placements(f, hashes)[0], minlength=len(keys)).tolist()
        for f in (previous, function)
    ]
    mean = (float(profile.load.sum()) or 1.0) / max(1, int((function.capacities > 0).sum()))
    copy_bytes, copy_rows = profile.heavy_copy_bytes, profile.heavy_copy_rows
    moves = []
    for k, had, has, ways in zip(
        keys.tolist(), *copies, flows(previous, function, hashes), strict=True
    ):
        partial_bytes = max(float(profile.heavy_bytes[k]) / had - float(copy_bytes[k]), 0.0)
        partial_rows = max(float(profile.heavy_rows[k]) / had - float(copy_rows[k]), 0.0)
        size = f"it has {profile.heavy_load[k] / mean:.3f} of a mean channel's load"
        if had == 1:
            why = f"{size}: {has} channels share it"
        elif has == 1:
            why = f"{size}: one channel holds it again"
        else:
            why = f"{size}: {has} channels share it, {had} did"
        moves += [
            Move(
                "share",
                int(profile.heavy[k]),
                profile.heavy_names[k],
                way.source,
                way.target,
                way.share * float(profile.heavy_load[k]),
                way.size(partial_bytes, float(copy_bytes[k])),
                way.size(partial_rows, float(copy_rows[k])),
                why if reason is None else reason,
                way.share,
            )
            for way in ways
        ]
    return moves


def _shares(function: PartitioningFunction, profile: Profile) -> Floats:
    loads = channel_loads(function, profile)
    fair = function.capacities / function.capacities.sum() * max(float(loads.sum()), 1e-300)
    return np.divide(loads, fair, out=np.full(len(loads), np.inf), where=fair > 0)
