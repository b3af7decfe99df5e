"""Any partitioning function, for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.function.slot_fence import LISTED_CHANNELS
from partitioning.function.split import Split

KEY = (KeyColumn("key", "string"),)


@st.composite
def functions(
    draw: st.DrawFn, slots: int | None = None, row_slots: int = 0
) -> PartitioningFunction:
    """Draw a function with heavy and split keys.

    Parameters
    ----------
    slots : S; None: any
    row_slots : R; 0: as S
    """
    slots = slots or draw(st.integers(1, 40))
    channels = draw(st.integers(1, 3 * LISTED_CHANNELS))
    owner = st.integers(0, channels - 1)
    hashes = st.integers(-(2**63), 2**63 - 1)
    heavy = draw(st.dictionaries(hashes, owner, max_size=6))
    shared = {}
    if channels > 1:
        owners = st.dictionaries(owner, st.floats(0.1, 1), min_size=2, max_size=4)
        shared = draw(st.dictionaries(hashes.filter(lambda h: h not in heavy), owners, max_size=3))
    keys = sorted(heavy)
    return PartitioningFunction(
        KEY,
        numbered_channels(channels),
        np.array(draw(st.lists(owner, min_size=slots, max_size=slots))),
        np.array(keys, dtype=np.int64),
        np.array([heavy[k] for k in keys], dtype=np.int32),
        Split.of(shared),
        row=KeyColumn("id", "bigint"),
        row_slots=row_slots,
    )
