"""Moves: what changes its channel between two functions, what goes with it, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partitioning.function import PartitioningFunction
from partitioning.metrics import channel_loads
from partitioning.order import safe_order
from partitioning.profile import Floats, Profile


@dataclass(frozen=True)
class Move:
    """One slot's tail or one heavy key that changes its channel.

    kind is "slot" or "key"; item is the slot's number or the key's hash; source and target are
    channel numbers; load (the window's unit), bytes and rows are what goes with it.
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


def moves_between(
    previous: PartitioningFunction,
    function: PartitioningFunction,
    profile: Profile,
    reason: str | None = None,
) -> tuple[Move, ...]:
    """Every slot tail and heavy key of the profile that changes its channel, in `safe_order`.

    The profile must list the explicit keys of both functions (`Profile.listing`).
    """
    share = _shares(previous, profile)
    names = {
        i: c.name
        for i, c in enumerate((*previous.channels, *function.channels[len(previous.channels) :]))
    }

    def why(source: int, target: int) -> str:
        if reason is not None:
            return reason
        if source >= len(function.channels) or function.channels[source].capacity == 0:
            return f"channel {names[source]} is being emptied"
        if target >= len(previous.channels):
            return f"channel {names[target]} is new"
        return (
            f"channel {names[source]} carries {share[source]:.3f} of its fair share, "
            f"{names[target]} {share[target]:.3f}"
        )

    moves = []
    tails = [
        profile.tail(values, heavy)
        for values, heavy in (
            (profile.load, profile.heavy_load),
            (profile.bytes, profile.heavy_bytes),
            (profile.rows, profile.heavy_rows),
        )
    ]
    for slot in np.flatnonzero(previous.slots != function.slots).tolist():
        source, target = int(previous.slots[slot]), int(function.slots[slot])
        load, size, rows = (float(t[slot]) for t in tails)
        moves.append(
            Move(
                "slot", slot, f"slot {slot}", source, target, load, size, rows, why(source, target)
            )
        )
    left, reached = previous.lookup_hashes(profile.heavy), function.lookup_hashes(profile.heavy)
    unnamed = np.setdiff1d(previous.explicit_keys, function.explicit_keys)
    back = np.isin(profile.heavy, unnamed) & (reached == previous.slots[profile.heavy_slots])
    for k in np.flatnonzero(left != reached).tolist():
        source, target = int(left[k]), int(reached[k])
        told = why(source, target)
        if reason is None and back[k] and share[source] <= share[target]:
            told = "it is light by now and goes back to its slot"
        moves.append(
            Move(
                "key",
                int(profile.heavy[k]),
                profile.heavy_names[k],
                source,
                target,
                float(profile.heavy_load[k]),
                float(profile.heavy_bytes[k]),
                float(profile.heavy_rows[k]),
                told,
            )
        )
    moves.sort(key=lambda m: (-m.load, m.kind, m.item))
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


def _shares(function: PartitioningFunction, profile: Profile) -> Floats:
    loads = channel_loads(function, profile)
    fair = function.capacities / function.capacities.sum() * max(float(loads.sum()), 1e-300)
    return np.divide(loads, fair, out=np.full(len(loads), np.inf), where=fair > 0)
