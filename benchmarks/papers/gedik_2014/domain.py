"""Sum a Zipf domain by slot, so that a step costs its slots and heavy keys, not all its keys.

Every key is counted, once, a part of the domain at a time. A function places a key by its slot
unless it names the key. So the sums by slot and the heaviest keys are all that its loads need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, key_hash, slot_of
from partitioning.strategies.published.gedik.resources import RESOURCES
from partitioning.streams.zipf_stream import KEY
from partitioning.workload.profile import Floats, Profile, sums_by

#: Keys that are summed at a time, and the heaviest keys that are kept one by one.
PART, HEAD = 10**6, 5_000


@dataclass(frozen=True, eq=False)
class Domain:
    """The sums by slot of each resource, float64 (S,), and the heaviest keys, (H,)."""

    sums: dict[str, Floats]
    hashes: Hashes
    load: Floats

    def profile(self, least: float, listed: Hashes | None, state: str) -> Profile:
        """List the keys of at least this load, and those given."""
        wanted = self.load >= least
        if wanted.all() and len(self.load) == HEAD:
            raise ValueError(f"more than {HEAD} keys have a load of {least}: raise HEAD")
        if listed is not None:
            if np.setdiff1d(listed, self.hashes).size:
                raise ValueError(f"a listed key is not among the heaviest {HEAD}: raise HEAD")
            wanted |= np.isin(self.hashes, listed)
        at = np.flatnonzero(wanted)
        at = at[np.argsort(self.hashes[at])]
        return Profile(
            key=KEY,
            load=self.sums["L"].copy(),
            bytes=self.sums[state].copy(),
            rows=self.sums["C"].copy(),
            heavy=self.hashes[at],
            heavy_load=self.load[at],
            heavy_bytes=RESOURCES[state](self.load[at]),
            heavy_rows=np.ones(len(at)),
            heavy_names=tuple(map(str, at)),
            error=least,
        )

    def _named(self, *functions: PartitioningFunction) -> np.ndarray:
        """Return where in `hashes` the keys stand that these functions name."""
        names = np.unique(np.concatenate([f.explicit_keys for f in functions]))
        return np.flatnonzero(np.isin(self.hashes, names))

    def loads(self, function: PartitioningFunction, resource: str) -> Floats:
        """Return the load of each channel, float64 (N,), by every key."""
        at = self._named(function)
        cost, count = RESOURCES[resource](self.load[at]), len(function.channels)
        slots = slot_of(self.hashes[at], len(function.slots))
        rest = self.sums[resource] - sums_by(slots, cost, len(function.slots))
        owners = function.lookup_hashes(self.hashes[at])
        return sums_by(function.slots, rest, count) + sums_by(owners, cost, count)

    def moved(self, before: PartitioningFunction, after: PartitioningFunction, state: str) -> float:
        """Return the part of the state whose channel differs."""
        at = self._named(before, after)
        cost, slots = RESOURCES[state](self.load[at]), slot_of(self.hashes[at], len(after.slots))
        rest = self.sums[state] - sums_by(slots, cost, len(after.slots))
        named = before.lookup_hashes(self.hashes[at]) != after.lookup_hashes(self.hashes[at])
        total = rest[before.slots != after.slots].sum() + cost[named].sum()
        return float(total / self.sums[state].sum())


@lru_cache(maxsize=256)
def domain(keys: int, z: float, seed: int, slots: int) -> Domain:
    """Sum so many keys with Zipf's law; another seed gives other keys."""
    total = sum(float(_ranks(start, keys, z).sum()) for start in range(0, keys, PART))
    sums = {resource: np.zeros(slots) for resource in RESOURCES}
    head = []
    for start in range(0, keys, PART):
        load = _ranks(start, keys, z) / total
        numbers = np.arange(start, start + len(load), dtype=np.int64) + seed * keys
        hashes = key_hash([numbers], ["bigint"])
        slot = slot_of(hashes, slots)
        for resource, beta in RESOURCES.items():
            sums[resource] += sums_by(slot, beta(load), slots)
        if not head:
            head = [hashes[:HEAD], load[:HEAD]]
    return Domain(sums, *head)


def _ranks(start: int, keys: int, z: float) -> Floats:
    """Return the weights of one part of the domain, most frequent first."""
    return np.arange(start + 1, min(start + PART, keys) + 1, dtype=np.float64) ** -z
