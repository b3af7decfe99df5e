"""Space Saving: at most 1/epsilon counters over all of a stream, mergeable.

A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k elements in
data streams", ICDT 2005; P. Agarwal et al., "Mergeable summaries", PODS 2012.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from partitioning.function.hashing import Hashes
from partitioning.workload.profile import Floats
from partitioning.workload.sketches.key_counter import KeyCounter, counts_of, union


class SpaceSaving(KeyCounter):
    """Space Saving, a batch at a time.

    Kept in Misra and Gries' form: where the counters do not suffice, all are lowered by the largest
    that must go, which is what each may have missed since. It holds the same as Space Saving, whose
    counters are these plus `missed` (Mergeable summaries, section 3). Lowering by v takes v from
    more than 1/epsilon counters, so `missed` stays below epsilon times the load. A batch is a merge
    with its exact counts: the bound is that of the tuples one by one, the counts are at least as
    good.
    """

    def __init__(self, epsilon: float) -> None:
        super().__init__(epsilon)
        self.capacity = math.ceil(1 / epsilon)
        self._missed = 0.0

    @property
    def missed(self) -> float:
        """Bound on what any count lacks."""
        return self._missed

    def _add(self, keys: Hashes, load: Floats) -> None:
        both = union(self.keys, keys)
        counts = counts_of(self.keys, self.counts, both) + counts_of(keys, load, both)
        if len(both) > self.capacity:
            lowered = float(np.partition(counts, -self.capacity - 1)[-self.capacity - 1])
            self._missed += lowered
            counts -= lowered
            both, counts = both[counts > 0], counts[counts > 0]
        self.keys, self.counts = both, counts

    def _take(self, other: Self) -> None:
        self.total += other.total
        self._missed += other._missed
        self._add(other.keys, other.counts)
