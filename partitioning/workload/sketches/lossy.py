"""Lossy counting, over all of a stream.

G. Manku, R. Motwani, "Approximate frequency counts over data streams", VLDB 2002; B. Gedik,
"Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014,
section 4.1.2.
"""

from __future__ import annotations

import numpy as np

from partitioning.function.hashing import Hashes
from partitioning.workload.profile import Floats
from partitioning.workload.sketches.key_counter import KeyCounter, counts_of, union


class LossyCounting(KeyCounter):
    """Lossy counting, a batch at a time.

    A key comes in with what it can have had before: as many tuples as windows of 1/epsilon have
    passed. One whose count and error are no more than the windows passed goes. Here windows close
    only at the end of a batch; the bounds hold, and memory is that of the windows and one batch.
    """

    def __init__(self, epsilon: float) -> None:
        super().__init__(epsilon)
        self.errors: Floats = np.empty(0)

    @property
    def missed(self) -> float:
        """Windows passed: bound on what any count lacks."""
        return float(np.floor(self.epsilon * self.total))

    def _add(self, keys: Hashes, load: Floats) -> None:
        before = float(np.floor(self.epsilon * (self.total - load.sum())))
        both = union(self.keys, keys)
        counts = counts_of(self.keys, self.counts, both) + counts_of(keys, load, both)
        errors = counts_of(self.keys, self.errors, both, before)
        kept = counts + errors > self.missed
        self.keys, self.counts, self.errors = both[kept], counts[kept], errors[kept]
