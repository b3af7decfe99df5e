"""Bounds that no function can beat: the floor of imbalance, and the least bytes for one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partitioning.function.channels import Channel, capacities_of
from partitioning.workload.profile import Floats, Profile

#: Loads that differ by this part are equal.
EQUAL_LOADS_TOLERANCE = 1e-12


def floor(profile: Profile, channels: Sequence[Channel], splitting: bool = False) -> float:
    """Return the least imbalance that any function can reach: 1.0 if keys may be split.

    Otherwise the k heaviest keys sit whole on at most k channels, at best those with most capacity.
    The floor is the largest of these bounds over k; where channels are equal, that of k = 1. Only
    keys that the profile lists are known; 1.0 where there is no load.
    """
    if splitting:
        return 1.0
    return floor_of_keys(profile.heavy_load, float(profile.load.sum()), channels)


def floor_of_keys(keys: Floats, total: float, channels: Sequence[Channel]) -> float:
    """Return the least imbalance of any function that splits no key; see `floor`.

    Parameters
    ----------
    keys : float64 (K,): what each listed key has of the resource that is to be even
    total : what all keys have of it
    """
    if total == 0 or not len(keys):
        return 1.0
    capacities = -np.sort(-capacities_of(channels))
    heaviest = -np.sort(-keys)[: np.count_nonzero(capacities)]
    held = np.cumsum(heaviest) / np.cumsum(capacities)[: len(heaviest)]
    return max(1.0, float(held.max()) * float(capacities.sum()) / total)


def least_copies(profile: Profile, channels: Sequence[Channel], imbalance: float = 1.0) -> int:
    """Return the fewest channels that keys need beyond one each, within `imbalance`.

    Within it a channel has at most `imbalance` times its fair share of all load, and the owners of
    a key hold all of its load. So m owners of it have load for no more than the m channels with
    most capacity may have. Each key needs the least m that suffices. If all N channels are equal,
    that is ceil(N share / imbalance). Two keys may need the same channels; that is not counted, and
    neither are keys that the profile does not list.
    """
    capacities = -np.sort(-capacities_of(channels))
    held = np.cumsum(capacities) / capacities.sum() * float(profile.load.sum()) * imbalance
    # A sum of loads is off by rounding.
    needed = 1 + np.searchsorted(held, profile.heavy_load * (1 - EQUAL_LOADS_TOLERANCE))
    return int((needed[profile.heavy_load > 0] - 1).sum())


def least_bytes(
    load: Floats,
    sizes: Floats,
    home: npt.NDArray[np.int32],
    capacities: Floats,
    imbalances: Floats,
) -> Floats:
    """Return the least bytes that any assignment within each of `imbalances` moves (LP).

    Each channel sheds what it has over the allowed load, most load per byte first and the last
    item in part (the fractional knapsack); what it receives is not counted. Channels without
    capacity, or beyond `capacities`, shed everything.

    Parameters
    ----------
    load, sizes : float64 (n,): load and bytes of each item (slot tail or heavy key)
    home : int32 (n,): the channel that each item is on; -1: on none, moves for free
    capacities : float64 (N,)
    imbalances : float64 (m,): each at least 1

    Returns
    -------
    float64 (m,), bytes
    """
    allowed = np.outer(imbalances, capacities / capacities.sum() * load.sum())
    bound = np.zeros(len(imbalances))
    # Items by channel, and there by what they cost for their load; idle ones cost the most.
    dear = np.divide(sizes, load, out=np.full(len(load), np.inf), where=load > 0)
    order = np.lexsort((dear, home))
    order = order[home[order] >= 0]
    first = np.flatnonzero(np.diff(home[order], prepend=-1))
    for own in np.split(order, first[1:]) if len(order) else ():
        channel = int(home[own[0]])
        if channel >= len(capacities) or capacities[channel] == 0:
            bound += sizes[own].sum()
            continue
        own = own[load[own] > 0]
        shed = np.maximum(load[own].sum() - allowed[:, channel], 0.0)
        if shed.any():
            loads = np.concatenate([[0.0], np.cumsum(load[own])])
            bound += np.interp(shed, loads, np.concatenate([[0.0], np.cumsum(sizes[own])]))
    return bound
