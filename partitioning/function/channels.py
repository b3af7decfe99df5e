"""Channels: the owners of state, as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError


@dataclass(frozen=True)
class Channel:
    """Name an owner of state, stored as its position in the list; capacity 0 drains it."""

    name: str
    capacity: float = 1.0


def capacities_of(channels: Sequence[Channel]) -> npt.NDArray[np.float64]:
    """Return the capacity weight of each channel, float64 (N,)."""
    return np.array([c.capacity for c in channels], dtype=np.float64)


def check_channels(channels: Sequence[Channel]) -> None:
    """Refuse an empty list, a repeated name, or capacities that are not finite, or all zero."""
    if not channels:
        raise InputError("there must be at least 1 channel", fix="Name one")
    if len({c.name for c in channels}) != len(channels):
        raise InputError("channel names must differ", fix="Give each channel a name of its own")
    capacities = capacities_of(channels)
    with np.errstate(over="ignore"):
        total = capacities.sum()
    if not np.isfinite(total) or (capacities < 0).any() or total == 0:
        raise InputError(
            "capacities must be finite, not negative, and not all 0",
            fix="Give each open channel a capacity above 0, such as 1",
        )


def numbered_channels(count: int) -> tuple[Channel, ...]:
    """Return `count` channels of capacity 1, named by their number."""
    if count < 1:
        raise InputError(f"{count} channels asked for", fix="Give at least 1")
    return tuple(Channel(str(i)) for i in range(count))
