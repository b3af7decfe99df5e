"""Gedik's resource functions: what a key of a share of the load costs, and which keys matter.

B. Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB
Journal 2014, sections 3.1 and 4.1.3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partitioning.workload.profile import Floats

#: Resource functions beta(f): constant, linear, quadratic.
RESOURCES: dict[str, Callable[[Floats], Floats]] = {
    "C": np.ones_like,
    "L": np.copy,
    "Q": np.square,
}


def theta(alpha: float, channels: int) -> float:
    """Return how far a channel's load may be off the mean, as a part of it (Eq. 15)."""
    return max(alpha * channels / (alpha + channels - 1) - 1, 0.0)


def delta(alpha: float, sigma: float, channels: int, resources: str, domain: float) -> float:
    """Return the share of the load from which a key is tracked (Eq. 17); domain: number of keys."""
    allowed = sigma * theta(alpha, channels)
    each = {
        "C": 1.0,
        "L": allowed / channels,
        "Q": float(np.sqrt(allowed / (max(domain, 1.0) * channels))),
    }
    return min(each[r] for r in resources)
