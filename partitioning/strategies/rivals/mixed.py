"""Mixed: a routing table of bounded size, rebalanced so that little state moves.

J. Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance", arXiv
1610.05121: Mixed, after its abstract. Its steps are those of the class MixedPartitioner in the
repository g-jozsef/dr-microbenchmarks, by which the authors of `kip` compare with it. The paper
itself was not at hand. Open there, and our choice:

- The hash is `consistent` over slots. The routing table is the list of pinned keys. Only keys
  that the profile lists can be in it, and a slot's light keys stay with their hash.
- The index of a key is load ** beta / bytes. Their code takes bytes in proportion to load.
- Each round moves back as many keys more as the table is too long. Their code forgets its last
  number, and may repeat a round.
- Their code fails where a key fits nowhere. Here it goes to the channel with the least load. A key
  over its channel's limit by itself stays where it is. No move helps where channels are equal.
- If every key has been moved back and the table is still too long, its lightest keys leave it.
- Channels may differ in capacity. A fair share is in proportion to it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.hashing import checked_capacities, ring_slots
from partitioning.workload.profile import Floats, Profile, sums_by

Ints = npt.NDArray[np.int32]
#: How far a channel may be over its fair share, in parts of it. Our choice.
THETA = 0.08
#: Keys of the routing table, in channels: the size that the authors of `kip` give it.
TABLE = 2.0
#: Exponent of the load in the index of a key, in their code.
BETA = 1.5
#: Keys that are placed in a round until no key makes others leave: their code's limit.
MOST_EXCHANGES = 1_000


@dataclass(frozen=True, eq=False)
class _Keys:
    """Hold the keys and channels of a round.

    Parameters
    ----------
    load, index : float64 (K,): load of each key, and how much of it a byte moves
    resting : float64 (N,): load that stays on each channel
    limit : float64 (N,): load that each channel may have; 0: closed
    """

    load: Floats
    index: Floats
    resting: Floats
    limit: Floats

    @property
    def open(self) -> list[int]:
        """Numbers of the channels that may have load."""
        found: list[int] = np.flatnonzero(self.limit > 0).tolist()
        return found


def mixed(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    theta: float = THETA,
    table: float = TABLE,
    beta: float = BETA,
) -> PartitioningFunction:
    """Move keys off channels over the limit, the most load for a byte first, and list them.

    If the table gets too long, its keys with the least bytes go back to their hash first, and all
    is done again.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : where everything is; None: as `consistent` has it
    theta : how far a channel may be over its fair share, in parts of it; 0 or more
    table : most keys of the routing table, in open channels; 0 or more
    beta : exponent of the load in the index of a key, 0 or more

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    capacities = checked_capacities(profile, previous, channels)
    for name, value in (("theta", theta), ("table", table), ("beta", beta)):
        if not 0 <= value < math.inf:
            raise InputError(f"expected 0 or more, finite, got {value}", name, IN_RANGE)
    slots = ring_slots(profile.slots, channels)
    keys = _Keys(
        profile.heavy_load,
        _index(profile, beta),
        sums_by(slots, profile.tail(profile.load, profile.heavy_load), len(channels)),
        (1 + theta) * float(profile.load.sum()) * capacities / capacities.sum(),
    )
    homes, at = slots[profile.heavy_slots], slots[profile.heavy_slots]
    if previous is not None:
        at = previous.unsplit.lookup_hashes(profile.heavy)
        gone = (at >= len(channels)) | (capacities[np.minimum(at, len(channels) - 1)] == 0)
        at = np.where(gone, homes, at)
    at = _rounds(keys, profile.heavy_bytes, homes, at, int(table * np.count_nonzero(capacities)))
    return successor(
        profile.key,
        previous,
        channels,
        slots,
        "mixed",
        {"theta": theta, "table": table, "beta": beta},
        dict(zip(profile.heavy.tolist(), at.tolist(), strict=True)),
    )


def _index(profile: Profile, beta: float) -> Floats:
    """Return load ** beta / bytes of each key, (K,); a key without bytes moves first."""
    size = profile.heavy_bytes
    free = np.where(profile.heavy_load > 0, np.inf, 0.0)
    return np.divide(profile.heavy_load**beta, size, out=free, where=size > 0)


def _rounds(keys: _Keys, size: Floats, homes: Ints, at: Ints, most: int) -> Ints:
    """Return the channel of each key, (K,), with at most `most` of them away from home."""
    listed = np.flatnonzero(at != homes)
    listed = listed[np.argsort(size[listed], kind="stable")]
    back = 0
    while True:
        start = at.copy()
        start[listed[:back]] = homes[listed[:back]]
        placed = _assigned(keys, start)
        over = int(np.count_nonzero(placed != homes)) - most
        if over <= 0:
            return placed
        if back == len(listed):
            break
        back = min(back + over, len(listed))
    away = np.flatnonzero(placed != homes)
    away = away[np.argsort(keys.load[away], kind="stable")][:over]
    placed[away] = homes[away]
    return placed


def _assigned(keys: _Keys, start: Ints) -> Ints:
    """Take keys off channels over the limit, and place them, largest first."""
    at, loads = start.copy(), keys.resting + sums_by(start, keys.load, len(keys.limit))
    order = np.lexsort((-keys.load, -keys.index))
    on: list[list[int]] = [[] for _ in keys.limit]
    for key in order.tolist():
        if keys.load[key] > 0:
            on[at[key]].append(key)
    waiting: list[tuple[float, int]] = []
    for channel, there in enumerate(on):
        for key in list(there):
            if loads[channel] <= keys.limit[channel]:
                break
            if keys.load[key] <= keys.limit[channel]:
                there.remove(key)
                loads[channel] -= keys.load[key]
                heapq.heappush(waiting, (-keys.load[key], key))
    for turn in range(MOST_EXCHANGES + len(order)):
        if not waiting:
            break
        _, key = heapq.heappop(waiting)
        channel, leaving = _place(keys, key, on, loads, exchange=turn < MOST_EXCHANGES)
        for other in leaving:
            on[channel].remove(other)
            loads[channel] -= keys.load[other]
            heapq.heappush(waiting, (-keys.load[other], other))
        at[key] = channel
        loads[channel] += keys.load[key]
        on[channel].append(key)
        on[channel].sort(key=lambda k: (-keys.index[k], -keys.load[k]))
    return at


def _place(
    keys: _Keys, key: int, on: Sequence[Sequence[int]], loads: Floats, *, exchange: bool
) -> tuple[int, list[int]]:
    """Return the channel of a key, least load first, and the smaller keys that leave it."""
    by_load = sorted(keys.open, key=lambda c: (loads[c] / keys.limit[c], c))
    for channel in by_load:
        over, leaving = loads[channel] + keys.load[key] - keys.limit[channel], []
        for other in on[channel] if exchange else ():
            if over <= 0:
                break
            if keys.load[other] < keys.load[key]:
                leaving.append(other)
                over -= keys.load[other]
        if over <= 0:
            return channel, leaving
    return by_load[0], []
