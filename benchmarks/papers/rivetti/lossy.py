"""Count the items in Gedik's sliding lossy counter (Gedik 2014, section 5.4, Figs. 9 to 11).

The stream has the paper's defaults: 1e6 keys, Zipf z = 1, N = 10, alpha = 1.2, sigma = 0.1. sigma,
z and N are then varied one at a time. epsilon is 0.1 of delta, which the paper calls typical
(section 4.1.2). The paper says only that the history is "a constant factor of the domain size":
here W = |D| and 4 |D| rows at the defaults, |D| elsewhere. A counter's size swings between two
closings of its windows, 1/epsilon rows apart, and the paper does not say when it looks. The table
has mean, least and most of the counter in use, from W rows on, seen 4 times a window of the
counter.

    python -m benchmarks.papers.rivetti.lossy [factor ...]
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.papers.rivetti.sliding import SlidingLossyCounting
from partitioning.strategies.published.gedik.resources import delta
from partitioning.streams.zipf_stream import hashed_keys, zipf

KEYS, SKEW, CHANNELS, ALPHA, SIGMA, SHARE = 10**6, 1.0, 10, 1.2, 0.1, 0.1
PUBLISHED = {"LLL": "about 2,500", "LQL": "about 50,000"}
#: (what is varied, its values by resources, what the paper says): LCL is as LLL throughout.
SWEEPS = (
    ("sigma", {"LLL": (0.008, 0.03, 0.1, 0.3, 1.0), "LQL": (0.008, 0.03, 0.1, 0.3, 1.0)},
     "Fig. 9: more as sigma falls"),
    ("z", {"LLL": (0.4, 0.6, 0.8, 1.0), "LQL": (0.25, 0.3, 0.4, 0.5)},
     "Fig. 10: LLL flat, a little less at high z; LQL first up, then down"),
    ("N", {"LLL": (5, 10, 20, 32), "LQL": (5, 10, 20, 32)}, "Fig. 11: linear in N"),
)  # fmt: skip


def sizes(
    resources: str,
    window: int,
    *,
    keys: int = KEYS,
    sigma: float = SIGMA,
    z: float = SKEW,
    channels: int = CHANNELS,
) -> tuple[float, list[int]]:
    """Return epsilon, and the items in the counter in use, 4 times a window of 1/epsilon rows."""
    epsilon = SHARE * delta(ALPHA, sigma, channels, resources, keys)
    random, hashes = np.random.default_rng(0), hashed_keys(keys)
    below = np.cumsum(zipf(keys, z))
    counter, seen = SlidingLossyCounting(epsilon, window), []
    while counter.rows < 2 * window:
        ranks = np.searchsorted(below, random.random(int(1 / epsilon / 4)))
        counter.update(hashes[np.minimum(ranks, keys - 1)])
        if counter.rows >= window:
            seen.append(len(counter.current.keys))
    return epsilon, seen


def main(factors: tuple[int, ...] = (1, 4)) -> None:
    print(
        "Items in the sliding lossy counter, |D| = 1,000,000, z = 1, epsilon = 0.1 delta (Fig. 9)"
    )
    print(f"{'':5}{'W, rows':>12}{'1/epsilon':>12}{'mean':>9}{'least':>9}{'most':>9}   paper")
    for resources, paper in PUBLISHED.items():
        for factor in factors:
            epsilon, seen = sizes(resources, factor * KEYS)
            print(f"{resources:5}{factor * KEYS:>12,}{1 / epsilon:>12,.0f}{np.mean(seen):>9,.0f}"
                  f"{min(seen):>9,}{max(seen):>9,}   {paper}", flush=True)  # fmt: skip
    if len(factors) > 1:
        for name, values, paper in SWEEPS:
            sweep(name, values, paper)


def sweep(name: str, values: dict[str, tuple[float, ...]], paper: str) -> None:
    """Print the mean over one of sigma, z and N, with W = |D|."""
    print(f"\nMean over {name}, W = |D|; paper, {paper}")
    field = "channels" if name == "N" else name
    for resources, each in values.items():
        means = [np.mean(sizes(resources, KEYS, **{field: v})[1]) for v in each]  # type: ignore[arg-type]
        print(f"{resources:5}" + "".join(f"{f'{v:g}:':>8}{m:>8,.0f}"
              for v, m in zip(each, means, strict=True)), flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*([tuple(map(int, sys.argv[1:]))] if sys.argv[1:] else []))
