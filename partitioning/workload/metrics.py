"""Metrics of a function: channel loads, imbalance, how far it is from even."""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt

from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.workload.profile import Floats, Profile, sums_by

Indices = npt.NDArray[np.intp]


def channel_sums(
    function: PartitioningFunction, profile: Profile, values: Floats, heavy_values: Floats
) -> Floats:
    """Sum per channel, shape (N,), a quantity given per slot (S,) and heavy key (K,).

    The slot quantities include their heavy keys' (as in `Profile`), and may be of more or fewer
    slots than the function has (`fit_slots`). A split key counts with each owner by its share. An
    explicit or split key that the profile does not list counts with its slot.
    """
    tail = profile.tail(values, heavy_values)
    tail = fit_slots(tail, len(function.slots))
    in_slots = sums_by(function.slots, tail, len(function.channels))
    return in_slots + key_sums(function, profile.heavy, heavy_values)


def fit_slots(values: Floats, slots: int) -> Floats:
    """Return quantities of slots, float64 (S,), as those of another number of slots.

    Those of more slots are added up, which is exact. Those of fewer are spread evenly, which is all
    that is known.
    """
    if len(values) == slots:
        return values
    common = gcd(len(values), slots)
    parts = slots // common
    return np.tile(values.reshape(-1, common).sum(axis=0) / parts, parts)


def key_sums(function: PartitioningFunction, hashes: Hashes, values: Floats) -> Floats:
    """Return the sum per channel, float64 (N,), of a quantity of some keys.

    A split key counts with each owner by its share.

    Parameters
    ----------
    hashes, values : int64 and float64 (n,): hash and quantity of each key
    """
    item, channel, share = placements(function, hashes)
    return sums_by(channel, values[item] * share, len(function.channels))


def placements(
    function: PartitioningFunction, hashes: Hashes
) -> tuple[Indices, npt.NDArray[np.int32], Floats]:
    """Return every owner of some keys, m in total.

    Parameters
    ----------
    hashes : int64 (n,): the keys

    Returns
    -------
    position in `hashes`, channel, and share from 0 to 1 of each owner, all (m,)
    """
    shared = function.split.find(hashes)
    whole, parts = np.flatnonzero(shared < 0), np.flatnonzero(shared >= 0)
    item, channel, share = function.split.owners(shared[parts])
    return (
        np.concatenate([whole, parts[item]]),
        np.concatenate([function.lookup_hashes(hashes[whole]), channel]),
        np.concatenate([np.ones(len(whole)), share]),
    )


def moved_shares(
    before: PartitioningFunction, after: PartitioningFunction, hashes: Hashes
) -> Floats:
    """Return the share of each key's rows that change channel, float64 (n,); whole keys: 0 or 1."""
    count = max(len(before.channels), len(after.channels))
    stays = np.zeros(len(hashes))
    (old, old_share), (new, new_share) = (
        (item * count + channel, share)
        for item, channel, share in (placements(f, hashes) for f in (before, after))
    )
    _, i, j = np.intersect1d(old, new, return_indices=True)
    np.add.at(stays, old[i] // count, np.minimum(old_share[i], new_share[j]))
    return np.where(stays > 1 - 1e-12, 0.0, 1 - stays)


def channel_loads(function: PartitioningFunction, profile: Profile) -> Floats:
    """Return the load of each channel, shape (N,), in the profile's unit of load."""
    return channel_sums(function, profile, profile.load, profile.heavy_load)


def imbalance(loads: Floats, capacities: Floats) -> float:
    """Return the highest load/capacity over total load/total capacity; 1.0 is perfect.

    Load on a channel without capacity makes it infinite; no load at all makes it 1.
    """
    total = float(loads.sum())
    if total == 0:
        return 1.0
    open_ = capacities > 0
    if loads[~open_].any():
        return float("inf")
    return float((loads[open_] / capacities[open_]).max() * capacities.sum() / total)


def imbalance_of(function: PartitioningFunction, profile: Profile) -> float:
    """Return the `imbalance` that a function reaches on a profile."""
    return imbalance(channel_loads(function, profile), function.capacities)


def fair_shares(loads: Floats, capacities: Floats) -> list[float]:
    """Return the load of each channel over its fair share; infinite for load on a closed channel.

    Parameters
    ----------
    loads, capacities : float64 (N,)
    """
    fair = capacities / capacities.sum() * (float(loads.sum()) or 1.0)
    return [
        float(x / f) if f > 0 else (float("inf") if x else 0.0)
        for x, f in zip(loads, fair, strict=True)
    ]
