"""Gedik's sliding lossy counter: his figures 9 to 11 ask for it, the product has no use for it."""

from __future__ import annotations

from partitioning.errors import InputError
from partitioning.function.hashing import Hashes
from partitioning.workload.profile import Floats
from partitioning.workload.sketches import LossyCounting


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
