"""A profile whose half is one key."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from partitioning.function.channels import numbered_channels
from partitioning.function.hashing import KeyColumn
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import profile_of_keys

ROW = KeyColumn("id", "bigint")
CHANNELS = 6
owners = st.dictionaries(
    st.integers(0, CHANNELS - 1), st.integers(1, 9).map(float), min_size=1, max_size=4
)


def hot(count: int = 2001, size: float = 40.0):
    """One key with half of the load, the others by Zipf; every key of one row."""
    load = np.append(1.0, zipf(count - 1, 0.5)) * 1e6
    profile = profile_of_keys(
        KEY, hashed_keys(count), load, 512, threshold=1e4, state=np.full(count, size)
    )
    return profile, uniform(profile, None, numbered_channels(8))
