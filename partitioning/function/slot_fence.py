"""The CHECK constraint over the integers slot and channel alone, for writers that are not Spark.

They do not know Spark's hash of the key, which `sql.check_sql` calls. Spark, delta-rs and Polars
all evaluate this text. It cannot see whether a slot is that of the row's key, nor which key of a
slot a row has. So it admits every channel that any key of the slot may be on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import slot_of

#: Channels that a row is compared with one after the other. With more, they are halved by CASE
#: first. A higher value: writers compare more. A lower one: more text for a writer to parse.
LISTED_CHANNELS = 16

Ints = npt.NDArray[np.int64]


def admitted_pairs(*functions: PartitioningFunction) -> tuple[Ints, Ints]:
    """Return the channels and slots of the rows that any of the functions can place.

    A slot's rows are on its own channel, and on those of its heavy and split keys. If a function
    has more slots than rows know, the rows of a slot are on the channels of all its parts.

    Returns
    -------
    Channels and slots, int64 (P,) each: distinct pairs, ascending.
    """
    count = functions[0].row_slots
    pairs: list[Ints] = []
    for f in functions:
        copies = np.diff(f.split.starts)
        for channels, slots in (
            (f.slots, np.arange(len(f.slots), dtype=np.int64) % count),
            (f.explicit_channels, slot_of(f.explicit_keys, count)),
            (f.split.channels, np.repeat(slot_of(f.split.keys, count), copies)),
        ):
            pairs.append(channels.astype(np.int64) * count + slots)
    every: Ints = np.unique(np.concatenate(pairs))
    return every // count, every % count


def slot_fence_sql(*functions: PartitioningFunction) -> str:
    """Write SQL (BOOLEAN) for whether any of the functions can place a row on its channel.

    It reads the columns slot and channel. A null in either makes it null, which no constraint
    admits.
    """
    owners, slots = admitted_pairs(*functions)
    channels, starts = np.unique(owners, return_index=True)
    listed = [", ".join(map(str, its.tolist())) for its in np.split(slots, starts[1:])]
    return _any_of(list(zip(channels.tolist(), listed, strict=True)))


def _any_of(channels: Sequence[tuple[int, str]]) -> str:
    """Write SQL for whether a row is on one of the channels, in one of the slots listed with it."""
    if len(channels) <= LISTED_CHANNELS:
        return " OR ".join(f"(channel = {c} AND slot IN ({slots}))" for c, slots in channels)
    half = len(channels) // 2
    lower, upper = _any_of(channels[:half]), _any_of(channels[half:])
    return f"CASE WHEN channel < {channels[half][0]} THEN {lower} ELSE {upper} END"
