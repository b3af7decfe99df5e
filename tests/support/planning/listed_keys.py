"""Profiles of a few listed keys, whose hash says their slot: hash modulo `SLOTS`."""

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.streams.zipf_stream import KEY
from partitioning.workload.profile import Profile

SLOTS = 64


def listed(keys: dict[int, tuple[float, float]], light: float = 0.0) -> Profile:
    """Return a profile of keys {hash: (load, bytes)}; each slot has `light` load beside them."""
    heavy = np.array(sorted(keys), dtype=np.int64)
    load, size = (np.array([keys[int(h)][i] for h in heavy], float) for i in (0, 1))
    slot_load = np.full(SLOTS, light)
    np.add.at(slot_load, heavy % SLOTS, load)
    ones, names = np.ones(SLOTS) * size.sum(), tuple(map(str, heavy))
    return Profile(KEY, slot_load, ones, ones, heavy, load, size, size, names)


def keyed(loads: dict[int, float], light: float) -> Profile:
    """Return the same of keys {hash: load} of one byte each."""
    return listed({h: (load, 1.0) for h, load in loads.items()}, light)


def at(function: PartitioningFunction, *hashes: int) -> list[int]:
    """Return the channels of some keys."""
    return function.lookup_hashes(np.array(hashes)).tolist()
