"""Draws of ranks by their share, from uniform numbers and without rejection: alias tables.

One face is here, in NumPy; `evenkeel_spark.jobs.generate` has the other, as Spark expressions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioning.workload.profile import Floats

Ints = npt.NDArray[np.int64]

#: Number of Zipf ranks drawn with their exact share; the others are drawn by `tail_terms`. A larger
#: value is more exact and makes the tables longer.
HEAD_RANKS = 1024


@dataclass(frozen=True, eq=False)
class Alias:
    """How to draw one of M cells: Walker, 1977; Vose, 1991.

    A uniform number picks a cell i of M and keeps it with `keep[i]`, else takes `other[i]`.

    keep : float64 (M,); other : int64 (M,)
    """

    keep: Floats
    other: Ints

    def draw(self, uniform: Floats) -> Ints:
        """Return a cell, int64 (n,), for each number in [0, 1), float64 (n,)."""
        scaled = uniform * len(self.keep)
        cell = np.minimum(scaled.astype(np.int64), len(self.keep) - 1)
        return np.where(scaled - cell < self.keep[cell], cell, self.other[cell])


def alias(shares: Floats) -> Alias:
    """Build the tables that draw cells by their shares, float64 (M,), sum 1."""
    cells = len(shares)
    scaled = shares * cells
    keep, other = np.ones(cells), np.arange(cells, dtype=np.int64)
    small = [i for i in range(cells) if scaled[i] < 1]
    large = [i for i in range(cells) if scaled[i] >= 1]
    while small and large:
        i, j = small.pop(), large[-1]
        keep[i], other[i] = scaled[i], j
        scaled[j] -= 1 - scaled[i]
        if scaled[j] < 1:
            small.append(large.pop())
    return Alias(keep, other)


def tail_terms(keys: int, z: float) -> tuple[float, float, float]:
    """Return (a, L, p) of the ranks beyond the head, which lie between a and a e^L, from 1 on.

    p is 1 - z, or 0 where z is so close to 1 that the logarithm is exact enough.
    """
    a = HEAD_RANKS + 0.5
    return a, math.log((keys + 0.5) / a), 0.0 if abs(1 - z) < 1e-9 else 1 - z


def zipf_head(keys: int, z: float) -> Floats:
    """Return the shares of the first `HEAD_RANKS` ranks, then that of all other ranks together."""
    weights: Floats = np.arange(1, min(keys, HEAD_RANKS) + 1, dtype=np.float64) ** -z
    if keys > HEAD_RANKS:
        a, length, p = tail_terms(keys, z)
        rest = a**p * math.expm1(p * length) / p if p else length
        weights = np.append(weights, rest)
    return weights / weights.sum()


def tail_ranks(keys: int, z: float, uniform: Floats) -> Ints:
    """Return a Zipf rank beyond the head, int64 (n,), from 0 on, for each number in [0, 1).

    The integral of x^-z from r - 1/2 to r + 1/2 stands for the share of r, and is inverted. The
    relative error of a rank's share is z (z+1) / 24 r^2, at most 5e-7.
    """
    a, length, p = tail_terms(keys, z)
    # It is a^p (e^(p L) - 1) / p up to a e^L; at p = 0 it is L.
    log = np.log1p(uniform * math.expm1(p * length)) / p if p else uniform * length
    ranks = np.floor(a * np.exp(log) - 0.5).astype(np.int64)
    return np.clip(ranks, HEAD_RANKS, keys - 1)
