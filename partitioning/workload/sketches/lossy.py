"""Lossy counting, over all of a stream or over its recent past.

G. Manku, R. Motwani, "Approximate frequency counts over data streams", VLDB 2002; B. Gedik,
"Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014,
section 4.1.2.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from partitioning.errors import InputError
from partitioning.function.hashing import Hashes
from partitioning.workload.profile import Floats
from partitioning.workload.sketches.counted import Counted, counts_of, union


class LossyCounting(Counted):
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

    def frequent(self, delta: float) -> Hashes:
        """Keys that may have a share of over `delta`, at least epsilon: all that have it are
        there, and none with less than delta - epsilon."""
        if not self.epsilon <= delta <= 1:
            raise InputError(f"{delta} is not {self.epsilon} to 1", "delta")
        return self.keys[self.counts >= (delta - self.epsilon) * self.total]

    def _take(self, other: Self) -> None:
        before = self.missed
        self.errors = self.errors + other.missed
        self.total += other.total
        self._join(other.keys, other.counts, before + other.errors, before + other.missed)


class SlidingLossyCounting:
    """The last W to 1.5 W rows: three counters over tumbling windows (Fig. 2).

    A counter lives for 1.5 W rows, W of them to fill and W/2 in use; they begin W/2 apart, so one
    is always in use: the oldest. Until W rows have come it has all there were. Parts of a stream
    that are counted apart are one by `LossyCounting.merged` of their counters in use.

    Parameters
    ----------
    epsilon : of each counter
    window : W, rows, even and over 0
    """

    def __init__(self, epsilon: float, window: int) -> None:
        if window < 2 or window % 2:
            raise InputError(f"{window} rows are no even number over 0", "window")
        self.epsilon, self.half = epsilon, window // 2
        self.rows = 0
        self.counters = [LossyCounting(epsilon)]

    @property
    def current(self) -> LossyCounting:
        """The counter in use."""
        return self.counters[0]

    def update(self, hashes: Hashes, load: Floats | None = None) -> None:
        """Take in a batch: int64 (n,), in the order of the stream; load of each row, None: 1."""
        done = 0
        while done < len(hashes):
            taken = min(len(hashes) - done, self.half - self.rows % self.half)
            part = slice(done, done + taken)
            for counter in self.counters:
                counter.update(hashes[part], None if load is None else load[part])
            self.rows += taken
            done += taken
            if self.rows % self.half == 0:
                self.counters = [*self.counters[-2:], LossyCounting(self.epsilon)]
