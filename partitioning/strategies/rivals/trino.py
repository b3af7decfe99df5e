"""Trino's scaling of skewed writers: the fullest channel's heaviest keys get one more channel each.

The source is Trino's own: class SkewedPartitionRebalancer of its package io.trino.operator.output.
There, open in a window, and our choice:

- A partition is a heavy key. Trino's are 4,096 buckets, of which we keep the slots. The load of a
  slot's light keys counts, and stays: a function splits keys that the profile lists, and no slots.
- Each window is one cycle. Trino begins one after so many bytes, several of them in a long query.
- The bytes that a partition must have before it is scaled are a part of a fair share, `least`.
- Tasks have one bucket each. Channels of other capacities are compared by load over capacity.
- The number of partitions that may be scaled is not limited. In Trino a node's memory limits it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.hashing import checked_capacities
from partitioning.strategies.published.reshape import Placed, first_placement
from partitioning.workload.profile import Floats, Profile

#: Part by which a channel must be emptier than the fullest one to get a key of it. Trino's value.
SKEWNESS = 0.7
#: Load that a key must have for each channel that it is on already, in fair shares of a channel.
#: Trino has a number of bytes, which says nothing of a window's load.
MIN_SHARED_PART = 0.1


def trino(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    skewness: float = SKEWNESS,
    least: float = MIN_SHARED_PART,
) -> PartitioningFunction:
    """Let emptier channels share the keys of the fullest ones, in equal parts; no key goes back.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : where everything is; None: as `uniform` has it
    skewness : over 0 to 1; part by which a channel must be emptier than the fullest
    least : load of a key for each channel that it is on already, in fair shares

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S

    Examples
    --------
    >>> from partitioning.function.channels import numbered_channels
    >>> from partitioning.streams.zipf_stream import zipf_profile
    >>> len(trino(zipf_profile(1000, 2.0, slots=64), None, numbered_channels(4)).split)
    2
    """
    capacities = checked_capacities(profile, previous, channels)
    if not 0 < skewness < 1:
        raise InputError(
            f"expected more than 0 and less than 1, got {skewness}", "skewness", IN_RANGE
        )
    if not 0 <= least < np.inf:
        raise InputError(f"expected 0 or more, finite, got {least}", "least", IN_RANGE)
    placed = first_placement(profile, previous, capacities)
    _scale(placed, capacities, skewness, least * placed.loads.sum() / np.count_nonzero(capacities))
    return successor(
        profile.key,
        previous,
        channels,
        placed.slots,
        "trino",
        {"skewness": skewness, "least": least},
        split=dict(zip(profile.heavy.tolist(), placed.keys, strict=True)),
    )


def _scale(placed: Placed, capacities: Floats, skewness: float, least: float) -> None:
    """Run one cycle: from the fullest channel down, each key gets one channel more at most."""
    load, scaled = placed.profile.heavy_load.tolist(), set()
    waiting = {c for c in range(len(capacities)) if capacities[c] > 0}
    while waiting:
        levels = np.divide(placed.loads, capacities, out=np.full(len(capacities), np.inf),
                           where=capacities > 0)  # fmt: skip
        full = max(waiting, key=lambda c: (levels[c], -c))
        waiting.discard(full)
        empty = np.flatnonzero(levels < (1 - skewness) * levels[full])
        if not len(empty):
            return
        empty = empty[np.argsort(levels[empty], kind="stable")]
        there = [k for k, parts in enumerate(placed.keys) if full in parts]
        for key in sorted(there, key=lambda k: (-load[k] * placed.keys[k][full], k)):
            parts = placed.keys[key]
            if key in scaled:
                continue
            if load[key] < least * len(parts) or load[key] <= 0:
                break
            target = next((c for c in empty.tolist() if c not in parts), None)
            if target is not None:
                scaled.add(key)
                waiting |= _shared(placed, key, [*parts, target])


def _shared(placed: Placed, key: int, owners: Sequence[int]) -> set[int]:
    """Give each of these channels an equal part of a key; return them."""
    load = float(placed.profile.heavy_load[key])
    for channel, share in placed.keys[key].items():
        placed.loads[channel] -= load * share
    placed.keys[key] = dict.fromkeys(owners, 1 / len(owners))
    for channel in owners:
        placed.loads[channel] += load / len(owners)
    return set(owners)
