"""Exact profiles of made-up streams, without Spark: for tests and benchmarks."""

from __future__ import annotations

import numpy as np

from partitioning.function import DEFAULT_SLOTS, KeyColumn
from partitioning.hashing import Hashes, key_hash
from partitioning.profile import Floats, Profile, profile_of_keys

KEY = (KeyColumn("key", "bigint"),)


def zipf(keys: int, z: float) -> Floats:
    """Share of each key, float64 (keys,), most frequent first: the k-th has 1/k^z, sum 1."""
    weights: Floats = np.arange(1, keys + 1, dtype=np.float64) ** -z
    return weights / weights.sum()


def hashed_keys(keys: int, seed: int = 0) -> Hashes:
    """Hashes, int64 (keys,), of as many bigint keys; another seed gives other keys."""
    return key_hash([np.arange(keys, dtype=np.int64) + seed * keys], ["bigint"])


def zipf_profile(
    keys: int,
    z: float,
    *,
    seed: int = 0,
    slots: int = DEFAULT_SLOTS,
    threshold: float = 0.0,
    row_bytes: float | None = None,
) -> Profile:
    """Profile of a Zipf stream whose loads sum to 1.

    Parameters
    ----------
    threshold : keys with at least this share are listed as heavy
    row_bytes : bytes of state of every key; None: as many as the key's load (Gedik's linear state)
    """
    load = zipf(keys, z)
    state = None if row_bytes is None else np.full(keys, row_bytes)
    return profile_of_keys(
        KEY, hashed_keys(keys, seed), load, slots, state=state, threshold=threshold
    )
