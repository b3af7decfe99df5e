"""Streams for sketches of heavy hitters, and what a sketch must hold of one."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from partitioning.workload.sketches import SpaceSaving

# Few distinct keys, some of them much more frequent; cut into batches at random.
batches = st.lists(
    st.lists(st.integers(0, 30).map(lambda x: min(x, 12 + x // 3)), max_size=40), max_size=8
)


epsilons = st.sampled_from([0.03, 0.1, 0.25, 0.6])


def fed(kind, epsilon, parts):
    sketch = kind(epsilon)
    for part in parts:
        sketch.update(np.array(part, dtype=np.int64))
    return sketch


def holds(sketch, truth):
    total = sum(truth.values())
    assert sketch.total == sketch.rows == total
    assert sketch.missed <= sketch.epsilon * total + 1e-9
    found = dict(zip(sketch.keys.tolist(), sketch.counts.tolist(), strict=True))
    assert (np.diff(sketch.keys) > 0).all()
    assert set(found) <= set(truth)
    for key, times in truth.items():
        assert found.get(key, 0) <= times <= found.get(key, 0) + sketch.missed
    keys = np.array([*truth, 999], dtype=np.int64)
    most = np.array([found.get(k, 0) + sketch.missed for k in keys.tolist()])
    assert sketch.estimates(keys).tolist() == most.tolist()
    if isinstance(sketch, SpaceSaving):
        assert len(found) <= np.ceil(1 / sketch.epsilon)
