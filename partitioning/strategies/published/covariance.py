"""Splitting load series into sets whose members do not rise and fall together."""

from __future__ import annotations

import numpy as np

from partitioning.strategies.published.dkg import Ints
from partitioning.workload.profile import Floats


def split_by_covariance(series: Floats, count: int, theta: float) -> Ints:
    """Set of each substream, int32 (p,), 0 to count - 1.

    All begin in one set. Again and again the substream that covaries most with its own set stays,
    and those of the set that correlate with it leave for a new one. Open in the paper, and our
    choice:

    - Its text moves the substreams with cov >= theta, its pseudocode those with cov <= theta. The
      text's way puts apart what rises together, which is what Eq. 5 is after.
    - theta is below 1 while a covariance has a unit: it is compared with the correlation.
    - The weights of substreams that move are set to 0 and then summed in part; here both sets'
      weights are the sums of covariances over theta within the set.
    - If nothing in the whole correlates any more, the set with most load is halved instead, every
      other substream by load. A set of one substream is not split, so with few substreams sets may
      stay empty.

    Nothing here looks at how much load a set has: Eq. 4 drops the means that Eq. 3 keeps. On made
    streams its variance is far above ELB's, not 1.2 times it as in the paper's Table 1. Weighing by
    E[X Y] or always splitting the set with most load changes little.

    Parameters
    ----------
    series : float64 (m, p): load of each substream in each of m windows
    count : sets to make
    theta : correlation from which two substreams are put apart

    Source: Guo and Zhou, Algorithm 2 and section 4.
    """
    substreams = series.shape[1]
    centred = series - series.mean(axis=0)
    covariance = centred.T @ centred / len(series)
    deviation = np.sqrt(np.diag(covariance))
    related = covariance >= np.maximum(theta * np.outer(deviation, deviation), 1e-300)
    np.fill_diagonal(related, False)
    attraction = np.where(related, covariance, 0.0)
    sets, mean = np.zeros(substreams, dtype=np.int32), series.mean(axis=0)
    for new in range(1, count):
        same = sets[:, None] == sets
        weights = (attraction * same).sum(axis=1)
        chosen = int(weights.argmax())
        if weights[chosen] > 0:
            leaving = np.flatnonzero(related[chosen] & same[chosen])
        else:
            sizes = np.bincount(sets, minlength=count)
            loads = np.where(sizes > 1, np.bincount(sets, mean, minlength=count), -1.0)
            if loads.max() < 0:
                break
            members = np.flatnonzero(sets == loads.argmax())
            leaving = members[np.argsort(-mean[members], kind="stable")][1::2]
        sets[leaving] = new
    return sets
