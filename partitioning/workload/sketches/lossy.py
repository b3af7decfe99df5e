"""Lossy counting, over all of a stream.

G. Manku, R. Motwani, "Approximate frequency counts over data streams", VLDB 2002; B. Gedik,
"Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014,
section 4.1.2.
"""

from __future__ import annotations

from typing import Self

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
        self._join(keys, load, np.full(len(keys), before), before)

    def _join(self, keys: Hashes, load: Floats, errors: Floats, before: float) -> None:
        """Add counts whose errors include what the keys can have had here before."""
        both = union(self.keys, keys)
        counts = counts_of(self.keys, self.counts, both) + counts_of(keys, load, both)
        own = counts_of(self.keys, self.errors, both, np.nan)
        new = counts_of(keys, errors, both, np.nan)
        errors = np.where(np.isnan(own), new, np.where(np.isnan(new), own, own + new - before))
        kept = counts + errors > self.missed
        self.keys, self.counts, self.errors = both[kept], counts[kept], errors[kept]

    def _take(self, other: Self) -> None:
        before = self.missed
        self.errors = self.errors + other.missed
        self.total += other.total
        self._join(other.keys, other.counts, before + other.errors, before + other.missed)
