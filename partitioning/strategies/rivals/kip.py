"""The Key Isolator Partitioner: heaviest keys stay where they fit, and the hash fills up the rest.

Z. Zvara et al., "System-aware dynamic partitioning for batch and streaming workloads", arXiv
2105.15023. Written after the authors' code, the classes KeyIsolatorPartitioner and
ConsistentHashPartitioner of the repository zzvara/dynamic-repartitioning. The paper itself was not
at hand. Open there, and our choice:

- The packages of the hash are our slots. Their number of a channel follows its weight, and their
  load is not looked at, as there.
- Without a previous function, packages are those of `uniform`. There they begin in one block for
  each channel.
- Channels may differ in capacity. Load is compared over capacity, and closed channels get nothing.
- If no load is left for the hash, packages follow the capacities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.hashing import checked_capacities, in_turn
from partitioning.strategies.water_filling import pour
from partitioning.workload.profile import Floats, Profile

Ints = npt.NDArray[np.int32]
#: Pinned keys, in channels. The authors' value.
EXCESS = 2.0
#: Share of the load by which heavy keys may be over the allowed level. The authors' value.
ALLOWED_ERROR = 0.001


def kip(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    excess: float = EXCESS,
) -> PartitioningFunction:
    """Keep each of the heaviest keys where it is, if it fits; then fill channels up by the hash.

    A key fits if the heavy keys of its channel are at most a fair share together, or the load of
    the heaviest key. One that does not goes to the channel of its hash, or else to the one with
    the least load of heavy keys.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : where everything is; None: as `uniform` has it
    excess : pinned keys, in open channels; over 0

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    capacities = checked_capacities(profile, previous, channels)
    if not (excess > 0 and math.isfinite(excess)):
        raise InputError(f"expected more than 0, finite, got {excess}", "excess", IN_RANGE)
    if previous is None:
        slots = in_turn(profile.slots, capacities)
        where = slots[profile.heavy_slots]
    else:
        slots, where = previous.slots, previous.unsplit.lookup_hashes(profile.heavy)
    most = max(round(np.count_nonzero(capacities) * excess), 1)
    top = np.argsort(-profile.heavy_load, kind="stable")[:most]
    at, heavy = _isolated(profile, top.tolist(), slots, where, capacities)
    light = max(float(profile.load.sum() - heavy.sum()), 0.0)
    return successor(
        profile.key,
        previous,
        channels,
        _adapted(slots, _weights(heavy, light, capacities)),
        "kip",
        {"excess": excess},
        {int(profile.heavy[key]): channel for key, channel in at.items()},
    )


def _isolated(
    profile: Profile, top: Sequence[int], slots: Ints, where: Ints, capacities: Floats
) -> tuple[dict[int, int], Floats]:
    """Return the channel of each of the heaviest keys, and the load of each channel's, (N,)."""
    load, total = profile.heavy_load, float(profile.load.sum())
    open_, heavy = np.flatnonzero(capacities), np.zeros(len(capacities))
    heaviest = float(load[top[0]]) if len(top) else 0.0
    allowed = np.maximum(total * capacities / capacities.sum(), heaviest) + ALLOWED_ERROR * total
    at: dict[int, int] = {}

    def fits(key: int, channel: int) -> bool:
        if channel >= len(capacities) or capacities[channel] == 0:
            return False
        return bool(heavy[channel] == 0 or heavy[channel] + load[key] <= allowed[channel])

    def put(key: int, channel: int) -> None:
        at[key] = channel
        heavy[channel] += load[key]

    for key in top:
        if fits(key, int(where[key])):
            put(key, int(where[key]))
    for key in top:
        if key not in at:
            hashed = int(slots[profile.heavy_slots[key]])
            if hashed == where[key] or not fits(key, hashed):
                hashed = int(open_[np.argmin(heavy[open_] / capacities[open_])])
            put(key, hashed)
    return at, heavy


def _weights(heavy: Floats, light: float, capacities: Floats) -> Floats:
    """Return the share of the light keys of each channel, (N,): it fills channels up like water."""
    open_ = np.flatnonzero(capacities)
    weights = np.zeros(len(capacities))
    weights[open_] = pour(heavy[open_] / capacities[open_], capacities[open_], light)
    if not weights.any():
        weights = capacities
    return weights / weights.sum()


def _adapted(slots: Ints, weights: Floats) -> Ints:
    """Give each channel as many slots as its weight says; no others change their channel."""
    ends = np.rint(np.cumsum(weights) * len(slots)).astype(np.int64)
    due, adapted, leaving = np.diff(ends, prepend=0), slots.copy(), []
    for channel in np.unique(slots).tolist():
        there = np.flatnonzero(slots == channel)
        least = int(due[channel]) if channel < len(due) else 0
        leaving.append(there[: max(len(there) - least, 0)])
        if channel < len(due):
            due[channel] = max(least - len(there), 0)
    adapted[np.sort(np.concatenate(leaving))] = np.repeat(np.arange(len(due)), due)
    return adapted
