"""Who is overloaded, who helps, and when to act: the decisions of Reshape, free of any engine.

A. Kumar et al., "Reshape: adaptive result-aware skew handling for exploratory analysis on big
data", sections 2.1, 4.3 and 6.2. Workloads are in any one unit: tuples waiting, tuples received.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from partitioning.workload.profile import Floats


def skewed_pairs(workloads: Floats, eta: float, tau: float) -> list[tuple[int, int]]:
    """List pairs (skewed worker, helper), the most loaded first; a worker is in one at most.

    A worker with at least `eta` is skewed if the least loaded one that is still free has `tau`
    less (Eq. 1 and 2); that one helps it.

    Parameters
    ----------
    workloads : float64 (N,); infinite: takes no part
    """
    able = np.flatnonzero(np.isfinite(workloads))
    fullest = able[np.argsort(-workloads[able], kind="stable")].tolist()
    emptiest = able[np.argsort(workloads[able], kind="stable")].tolist()
    pairs = []
    for skewed, helper in zip(fullest[: len(able) // 2], emptiest, strict=False):
        gap = workloads[skewed] - workloads[helper]
        if workloads[skewed] < eta or gap < tau or gap <= 0:
            break
        pairs.append((skewed, helper))
    return pairs


def standard_error(sample: Sequence[float], per: float = 1.0) -> float:
    """Return the error of the mean as a forecast of the sum of the next `per` values.

    It is sqrt(per) d sqrt(1 + per/n), for the sample's standard deviation d; infinite below two
    values. With `per` 1 it is the paper's. Metrics that are read more often than what they forecast
    need more.

    Source: section 4.3.2.
    """
    n = len(sample)
    return float(np.std(sample, ddof=1)) * math.sqrt(per * (1 + per / n)) if n > 1 else math.inf


@dataclass(frozen=True)
class Threshold:
    """tau, and how it adapts (Algorithm 1).

    Parameters
    ----------
    tau : difference of workloads from which a pair is skewed
    lower : error of forecasts below which tau is too high
    upper : error of forecasts above which tau is too low
    step : by how much it is raised (section 7.6: 50 tuples, for a tau of 100)
    left : adjustments still allowed (section 7.6: 3)
    """

    tau: float
    lower: float
    upper: float
    step: float = 50.0
    left: int = 3

    @classmethod
    def of(cls, tau: float) -> Self:
        """Return the watch's threshold: the paper's bounds and step in proportion to tau.

        The paper has bounds of 98 and 110 tuples and a step of 50 for a tau of 100. A higher upper
        bound or a smaller step lets tau rise more slowly.

        >>> Threshold.of(1.0)
        Threshold(tau=1.0, lower=0.98, upper=1.1, step=0.5, left=3)
        """
        return cls(tau, 0.98 * tau, 1.1 * tau, 0.5 * tau)

    def adjusted(self, gap: float, error: float) -> Threshold:
        """Return the threshold for the next round.

        The workloads of a pair were `gap` apart, and forecast with `error`. A pair that is skewed
        before it can be forecast raises tau. One that can be forecast before it is skewed lowers
        tau to the gap, and so starts at once.

        The paper lowers tau to any gap. Two workers that were just made alike are forecast well,
        and a gap of noise between them would be tau from then on. Here only a gap over the error
        counts.
        """
        if not self.left:
            return self
        if gap >= self.tau and error > self.upper:
            return replace(self, tau=self.tau + self.step, left=self.left - 1)
        if error < gap < self.tau and error < self.lower:
            return replace(self, tau=gap, left=self.left - 1)
        return self


def early(tau: float, skewed: float, helper: float, rate: float, migration: float) -> float:
    """Return tau', at which to begin so that the workloads are tau apart once state has moved.

    It is less than tau by what comes in meanwhile, and not below 0 (section 6.1).

    Parameters
    ----------
    skewed, helper : share of the input that each is forecast to get
    rate : tuples per unit of time
    migration : time that state takes to move
    """
    return max(tau - (skewed - helper) * rate * migration, 0.0)


def pays(migration: float, left: float) -> bool:
    """Return whether moving state ends before the input does (section 6.1)."""
    return migration < left


def helpers(
    skewed: float,
    candidates: Floats,
    total: float,
    left: float,
    rate: float,
    migration: Callable[[int], float],
) -> int:
    """Return how many helpers to take, of `candidates` in this order.

    As many are taken as raise the load reduction that can still be had, chi = min(LR_max, F)
    (section 6.2).

    Parameters
    ----------
    skewed : share of the input that the skewed worker gets
    candidates : float64 (m,), ascending: that each candidate gets
    total : tuples in all
    left : tuples still to come
    rate : tuples per unit of time
    migration : time that state takes to move to so many helpers
    """
    best, chosen = 0.0, 0
    for n in range(1, len(candidates) + 1):
        reduction = (skewed - (skewed + candidates[:n].sum()) / (n + 1)) * total
        future = (left - migration(n) * rate) * skewed
        chi = min(reduction, future)
        if chi <= best:
            break
        best, chosen = chi, n
    return chosen
