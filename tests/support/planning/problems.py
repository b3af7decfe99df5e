"""Problems for frontier, drawn by hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import Hashes
from partitioning.streams.zipf_stream import (
    KEY,
    hashed_keys,
    zipf,
)
from partitioning.workload.metrics import imbalance
from partitioning.workload.profile import Floats, Profile, profile_of_keys

SLOTS = 32


@dataclass(frozen=True)
class Instance:
    """Every key's load and bytes, what is known of them, and the function in force."""

    hashes: Hashes
    load: Floats
    state: Floats
    profile: Profile
    previous: PartitioningFunction
    channels: tuple[Channel, ...]

    def moved(self, function: PartitioningFunction) -> float:
        """Bytes of the keys that change their channel, counted key by key."""
        before, after = (f.lookup_hashes(self.hashes) for f in (self.previous, function))
        return float(self.state[before != after].sum())

    def imbalance(self, function: PartitioningFunction) -> float:
        """Counted key by key."""
        owners = function.lookup_hashes(self.hashes)
        loads = np.bincount(owners, self.load, minlength=len(function.channels))
        return imbalance(loads, function.capacities)


@st.composite
def problems(draw, same_channels: bool = False) -> Instance:
    """Loads of any shape, bytes in proportion or not, any previous function, channels that stay,
    come, go, drain and differ."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    keys = draw(st.integers(1, 120))
    shape = draw(st.sampled_from(["zipf", "equal", "wild", "some idle", "idle"]))
    load = {
        "zipf": zipf(keys, draw(st.sampled_from([0.5, 1.0, 2.0]))),
        "equal": np.ones(keys),
        "wild": random.lognormal(0, 2, keys),
        "some idle": random.poisson(1, keys).astype(float),
        "idle": np.zeros(keys),
    }[shape]
    state = load if draw(st.booleans()) else random.integers(0, 100, keys).astype(float)
    hashes = hashed_keys(keys, draw(st.integers(0, 99)))
    threshold = float(np.quantile(load, draw(st.sampled_from([0.0, 0.5, 0.9]))))
    profile = profile_of_keys(KEY, hashes, load, SLOTS, state=state, threshold=threshold)
    count = draw(st.integers(1, 6))
    capacities = st.sampled_from([1.0, 1.0, 1.0, 0.5, 3.0])
    before = [Channel(str(i), draw(capacities)) for i in range(count)]
    named = random.permutation(profile.heavy)[: draw(st.integers(0, 10))].tolist()
    previous = successor(
        KEY,
        None,
        before,
        random.integers(0, count, SLOTS),
        "random",
        None,
        {h: int(random.integers(0, count)) for h in named},
    )
    after = list(before)
    if not same_channels:
        after = after[: draw(st.integers(1, count))]
        after += [Channel(f"new {i}", draw(capacities)) for i in range(draw(st.integers(0, 3)))]
        if len(after) > 1 and draw(st.booleans()):
            after[draw(st.integers(0, len(after) - 1))] = Channel("drained", 0.0)
    return Instance(hashes, load, state, profile, previous, tuple(after))


def by_hand(loads, sizes, owners, count: int) -> tuple[Profile, PartitioningFunction]:
    """One slot a key."""
    load = np.array(loads, dtype=float)
    state = np.array(sizes, dtype=float)
    none = np.empty(0)
    hashes, rows = none.astype(np.int64), np.ones(len(load))
    profile = Profile(KEY, load, state, rows, hashes, none, none, none, ())
    return profile, successor(KEY, None, numbered_channels(count), owners, "by hand")
