"""The two strategies that look at no load: uniform and consistent hashing of slots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import mmh3
import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function.channels import Channel, capacities_of, check_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import KeyColumn
from partitioning.workload.profile import Floats, Profile

#: Points of a channel of the first channel's capacity on the ring (Gedik, section 5.5).
POINTS = 1000
#: A recorded unit stays while the first open channel has up to this many times it, or this part.
UNIT_STAYS = 16.0
#: Points on a ring whose first open channel is tiny. More: hashing takes longer.
MOST_POINTS = 2**21


def uniform(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> PartitioningFunction:
    """Give slot s to channel s mod N.

    Each slot in turn goes to the channel furthest behind its capacity, the lowest number first;
    with equal capacities that is exactly s mod N. Channels of capacity 0 get none.

    Parameters
    ----------
    profile : gives the key and S; its loads are not looked at
    previous : gives epoch and parent only
    channels : the N owners

    Raises
    ------
    InputError : unusable channels, or a previous function with another S
    """
    slots = in_turn(profile.slots, checked_capacities(profile, previous, channels))
    return successor(profile.key, previous, channels, slots, "uniform")


def first_function(
    key: tuple[KeyColumn, ...], slots: int, channels: Sequence[Channel]
) -> PartitioningFunction:
    """Build the function of epoch 0: consistent hashing, which looks at no load.

    Parameters
    ----------
    key : columns of the key, with their types
    slots : their number S
    channels : the N owners

    Raises
    ------
    InputError : unusable channels
    """
    empty, none = np.zeros(slots), np.zeros(0)
    nothing = Profile(
        key, empty, empty, empty, np.zeros(0, np.int64), none, none, none, heavy_names=()
    )
    return consistent(nothing, None, channels)


def in_turn(count: int, capacities: Floats) -> npt.NDArray[np.int32]:
    """Return the channel of each of `count` items, int32 (count,).

    Each item goes to the channel furthest behind its capacity, float64 (N,), the lowest number
    first.
    """
    # A channel's k-th slot falls due at k/capacity; no channel gets more than its share and one.
    most = np.ceil(capacities / capacities.sum() * count).astype(np.int64) + 1
    owner = np.repeat(np.arange(len(capacities)), np.where(capacities > 0, most, 0))
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    turn = np.arange(len(owner)) - np.repeat(first, np.diff(first, append=len(owner))) + 1
    order = np.lexsort((owner, turn / capacities[owner]))
    return owner[order[:count]].astype(np.int32)


def consistent(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    points: int = POINTS,
) -> PartitioningFunction:
    """Hash slots consistently: a new channel takes slots from the others, which exchange none.

    Parameters
    ----------
    profile, previous, channels : as in `uniform`
    points : points on the ring of a channel with the unit's capacity. The unit is the capacity of
        the first open channel of the first such function, which the next ones keep

    Raises
    ------
    InputError : unusable channels or points, or a previous function with another S

    Source: Gedik 2014, section 4.1.1 (128-bit ring, MurmurHash3, 1,000 replicas); Karger 1997.
    """
    check_slots(profile, previous)
    check_channels(channels)
    options: dict[str, float] = {"points": points}
    first, unit = _first_open(channels), _recorded_unit(previous)
    if unit is not None and unit != first and 1 / UNIT_STAYS <= first / unit <= UNIT_STAYS:
        # Without it, closing the first channel would give others more points, and so move slots.
        options["unit"] = unit
    slots = ring_slots(profile.slots, channels, points, options.get("unit", first))
    return successor(profile.key, previous, channels, slots, "consistent", options)


def _first_open(channels: Sequence[Channel]) -> float:
    return float(next(c.capacity for c in channels if c.capacity > 0))


def _recorded_unit(previous: PartitioningFunction | None) -> float | None:
    """Return the capacity that had `points` points in the previous function, if it has a ring."""
    if previous is None or previous.strategy != "consistent":
        return None
    return float(previous.options.get("unit", _first_open(previous.channels)))


def ring_slots(
    slots: int, channels: Sequence[Channel], points: int = POINTS, unit: float | None = None
) -> npt.NDArray[np.int32]:
    """Return the channel of each slot, int32 (slots,): the owner of the next point clockwise.

    Points belong to a channel's number, not its name, so that a new name moves nothing.

    Parameters
    ----------
    points : of a channel whose capacity is `unit`; fewer if that is tiny beside the others
    unit : None: the capacity of the first open channel
    """
    check_channels(channels)
    if not 1 <= points <= MOST_POINTS:
        fix = f"Give 1 to {MOST_POINTS}"
        raise InputError(f"{points} points make no ring of use", "points", fix)
    capacities = capacities_of(channels)
    unit = unit or _first_open(channels)
    # A tiny unit would make a ring without end; of even channels this changes nothing.
    most = max(MOST_POINTS, points * len(capacities))
    unit = max(unit, capacities.sum() * points / most)
    # Rounded up, so that no open channel is left without a point.
    counts = np.ceil(capacities / unit * points).astype(int).tolist()
    ring = np.concatenate([_places(f"channel {i}", n) for i, n in enumerate(counts)])
    owner = np.repeat(np.arange(len(channels), dtype=np.int32), counts)
    items = _places("slot", slots)
    both = np.concatenate([ring, items])
    # Exact over all 128 bits: points and slots sorted together, a point before an equal slot's
    # successor; each slot then looks for the next point in that order.
    is_slot = np.arange(len(both)) >= len(ring)
    order = np.lexsort((~is_slot, both[:, 0], both[:, 1]))
    points_in_order = owner[order[~is_slot[order]]]
    passed = np.cumsum(~is_slot[order])[is_slot[order]]
    result = np.empty(slots, dtype=np.int32)
    result[order[is_slot[order]] - len(ring)] = points_in_order[passed % len(points_in_order)]
    return result


@lru_cache(maxsize=512)
def _places(name: str, count: int) -> npt.NDArray[np.uint64]:
    """Place the first `count` points of `name` on the ring: uint64 (count, 2), low half first."""
    digests = b"".join(mmh3.hash_bytes(f"{name} {i}") for i in range(count))
    return np.frombuffer(digests, dtype="<u8").reshape(count, 2)


def check_slots(profile: Profile, previous: PartitioningFunction | None) -> None:
    """Refuse a previous function whose S is not the profile's."""
    if previous is not None and len(previous.slots) != profile.slots:
        raise InputError(
            f"the function in force has {len(previous.slots)} slots, the profile {profile.slots}",
            "slots",
            "Learn again: start a new run",
        )


def checked_capacities(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> Floats:
    """Return the capacity weight of each channel, float64 (N,), for a strategy's arguments.

    Raises
    ------
    InputError : unusable channels, or a previous function with another S
    """
    check_slots(profile, previous)
    check_channels(channels)
    return capacities_of(channels)
