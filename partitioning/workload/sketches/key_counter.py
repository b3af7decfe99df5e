"""Some keys and what was counted of each: what all sketches of heavy keys have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from partitioning.errors import InputError
from partitioning.function.hashing import Hashes, positions
from partitioning.workload.profile import Floats, Sketch, sums_by


class KeyCounter(ABC):
    """Counted keys, int64 (K,) ascending, and `counts`, float64 (K,): never more than their load.

    No key, counted or not, has more than `missed` of load that is not in its count, and `missed`
    is at most `epsilon` times `total`, all load so far.

    Parameters
    ----------
    epsilon : over 0, below 1

    Raises
    ------
    InputError : another epsilon
    """

    def __init__(self, epsilon: float) -> None:
        if not 0 < epsilon < 1:
            raise InputError(
                f"expected more than 0 and less than 1, got {epsilon}",
                "epsilon",
                "Give a share of the load, such as 0.01",
            )
        self.epsilon = epsilon
        self.keys: Hashes = np.empty(0, dtype=np.int64)
        self.counts: Floats = np.empty(0)
        self.total = 0.0
        self.rows = 0

    @property
    @abstractmethod
    def missed(self) -> float:
        """Bound on what any count lacks."""

    @abstractmethod
    def _add(self, keys: Hashes, load: Floats) -> None:
        """Take in the exact load of a batch's keys (distinct, ascending)."""

    @abstractmethod
    def _take(self, other: Self) -> None:
        """Take in what another of one epsilon has counted, and its total; not its rows."""

    @classmethod
    def merged(cls, sketches: Sequence[Self]) -> Self:
        """Merge several into one for all their streams together.

        Raises
        ------
        InputError : none, or of different epsilons
        """
        if len({s.epsilon for s in sketches}) != 1:
            raise InputError(
                "sketches of one epsilon can be merged, and of no other",
                "epsilon",
                "Make all with one epsilon",
            )
        result = cls(sketches[0].epsilon)
        for sketch in sketches:
            result.rows += sketch.rows
            result._take(sketch)
        return result

    def update(self, hashes: Hashes, load: Floats | None = None) -> None:
        """Take in a batch: int64 (n,), in any order, and the load of each row; None: 1."""
        if len(hashes):
            keys, inverse = np.unique(hashes, return_inverse=True)
            weights = np.ones(len(hashes)) if load is None else load
            self.total += float(weights.sum())
            self.rows += len(hashes)
            self._add(keys, sums_by(inverse, weights, len(keys)))

    def estimates(self, hashes: Hashes) -> Floats:
        """Return the most that each key can have had so far, float64 (n,)."""
        return counts_of(self.keys, self.counts, hashes) + self.missed

    def sketch(self, load: Floats, names: Mapping[int, str] | None = None) -> Sketch:
        """Return a `Sketch`: counts understate by at most its error.

        Parameters
        ----------
        load : float64 (S,): load of each slot, which is cheap to count exactly
        names : how a person writes a key; default: its hash
        """
        shown = tuple((names or {}).get(h, str(h)) for h in self.keys.tolist())
        return Sketch(load, self.keys, self.counts, shown, self.missed, self.rows)


def counts_of(keys: Hashes, counts: Floats, hashes: Hashes, missing: float = 0.0) -> Floats:
    """Return the count of each hash, float64 (n,); `missing` for hashes that are not in `keys`.

    Parameters
    ----------
    keys, counts : int64, ascending, and float64 (K,): counted keys and their counts
    """
    found = np.full(len(hashes), missing)
    at = positions(hashes, keys)
    found[at >= 0] = counts[at[at >= 0]]
    return found


def union(a: Hashes, b: Hashes) -> Hashes:
    """Return the keys of both, ascending.

    With counts, NumPy sorts. Since 2.3 np.union1d hashes instead, at 100 times the cost for a
    million keys.
    """
    return np.unique(np.concatenate([a, b]), return_counts=True)[0]
