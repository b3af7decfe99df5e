"""Items in Gedik's sliding lossy counter (Gedik 2014, section 5.4, Fig. 9).

The stream of the paper's defaults: 1e6 keys, Zipf z = 1, N = 10, alpha = 1.2, sigma = .1. epsilon
is .1 of delta, which the paper calls typical (section 4.1.2). It does not say how long the history
is but for "a constant factor of the domain size": here W = |D| and 4 |D| rows. A counter's size
swings between two closings of its windows, 1/epsilon rows apart, and the paper does not say when
it looks: mean, least and most of the counter in use, from W rows on, seen 4 times a window.

    python -m benchmarks.papers.lossy [factor ...]
"""

from __future__ import annotations

import sys

import numpy as np

from partitioning.generator import hashed_keys, zipf
from partitioning.resources import delta
from partitioning.sketches import SlidingLossyCounting

KEYS, SKEW, CHANNELS, ALPHA, SIGMA, SHARE = 10**6, 1.0, 10, 1.2, 0.1, 0.1
PUBLISHED = {"LLL": "about 2,500", "LQL": "about 50,000"}


def sizes(resources: str, window: int) -> tuple[float, list[int]]:
    """(epsilon, items in the counter in use, 4 times a window of 1/epsilon rows)."""
    epsilon = SHARE * delta(ALPHA, SIGMA, CHANNELS, resources, KEYS)
    random, hashes = np.random.default_rng(0), hashed_keys(KEYS)
    below = np.cumsum(zipf(KEYS, SKEW))
    counter, seen = SlidingLossyCounting(epsilon, window), []
    while counter.rows < 2 * window:
        ranks = np.searchsorted(below, random.random(int(1 / epsilon / 4)))
        counter.update(hashes[np.minimum(ranks, KEYS - 1)])
        if counter.rows >= window:
            seen.append(len(counter.current.keys))
    return epsilon, seen


def main(factors: tuple[int, ...] = (1, 4)) -> None:
    print("Items in the sliding lossy counter, |D| = 1,000,000, z = 1, epsilon = .1 delta (Fig. 9)")
    print(f"{'':5}{'W, rows':>12}{'1/epsilon':>12}{'mean':>9}{'least':>9}{'most':>9}   paper")
    for resources, paper in PUBLISHED.items():
        for factor in factors:
            epsilon, seen = sizes(resources, factor * KEYS)
            print(f"{resources:5}{factor * KEYS:>12,}{1 / epsilon:>12,.0f}{np.mean(seen):>9,.0f}"
                  f"{min(seen):>9,}{max(seen):>9,}   {paper}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*([tuple(map(int, sys.argv[1:]))] if sys.argv[1:] else []))
