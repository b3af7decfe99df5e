"""Variance of load and state moved of ELB, CLB, UHLB and PKG (Guo and Zhou, Table 1, Fig. 4).

The paper's two hours of tweets cannot be had. The substitute: 100 substreams, 10 channels, 120
windows of a minute with 6,100 tuples (10.6M tweets in 29 hours), shares of Zipf's law that wander
as exp of an AR(1) process. Its step is set so that ELB moves about what it did; all else follows.
State is as large as load; PKG's is taken to move with its shares. Variance is that of the next,
unseen window.

The order of state moved is the paper's, and of variance but for UHLB: on a window that it has not
seen, the better of two random hashes is no better than any. The paper does not say when UHLB
draws, nor on which window it is measured.

    python -m benchmarks.papers.guo_zhou [seeds]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from partitioning.function import PartitioningFunction, numbered_channels
from partitioning.generator import KEY, zipf
from partitioning.metrics import channel_loads, moved_shares
from partitioning.profile import Floats, Profile, profile_of_keys
from partitioning.strategies import STRATEGIES

SUBSTREAMS, CHANNELS, WINDOWS, ROWS, PERIOD = 100, 10, 120, 6100, 24
SKEW, STEP, STAY = 0.5, 0.85, 0.5
#: One new hash a window; more move all the state for little.
OPTIONS: dict[str, dict[str, Any]] = {"clb": {"period": PERIOD}, "uhlb": {"draws": 1}}
#: (variance of load, share of state moved a window): Table 1 and section 5.1.
PUBLISHED = {"uhlb": ("2.9e4", "24.2%"), "pkg": ("3.1e4", "21.2%"), "elb": ("5.1e4", "14.5%"),
             "clb": ("6.1e4", "1.6%, 48.4% each time")}  # fmt: skip
NAMES = ("uniform", *PUBLISHED, "frontier")


def histograms(seed: int) -> Iterator[Profile]:
    """What came of each substream in each window."""
    random = np.random.default_rng(seed)
    shares, drift = zipf(SUBSTREAMS, SKEW), np.zeros(SUBSTREAMS)
    for _ in range(WINDOWS):
        drift = STAY * drift + random.normal(0, STEP, SUBSTREAMS)
        rates: Floats = shares * np.exp(drift)
        load = random.poisson(ROWS * rates / rates.sum()).astype(float)
        yield profile_of_keys(KEY, np.arange(SUBSTREAMS), load, SUBSTREAMS)


def measure(name: str, seed: int) -> tuple[float, float, float]:
    """(variance of load in the next window, state moved a window, at most in one)."""
    previous: PartitioningFunction | None = None
    variances, moved, channels = [], [], numbered_channels(CHANNELS)
    for profile in histograms(seed):
        if previous is not None:
            variances.append(channel_loads(previous, profile).var())
        function = STRATEGIES[name](profile, previous, channels, **OPTIONS.get(name, {}))
        if previous is not None:
            shares = moved_shares(previous, function, profile.heavy)
            moved.append((shares * profile.heavy_load).sum() / profile.load.sum())
        previous = function
    acted = [m for m in moved if m]
    return float(np.mean(variances)), float(np.mean(moved)), float(np.mean(acted or [0]))


def main(seeds: int = 5) -> None:
    print(f"{SUBSTREAMS} substreams, {CHANNELS} channels, {WINDOWS} windows, mean of {seeds} runs")
    print(f"{'':12}{'variance':>10}{'moved a window':>16}{'when it moves':>15}   paper")
    for name in NAMES:
        variance, moved, acted = np.mean([measure(name, s) for s in range(seeds)], axis=0)
        paper = ", ".join(PUBLISHED.get(name, ("-",)))
        print(f"{name:12}{variance:>10.1e}{moved:>16.1%}{acted:>15.1%}   {paper}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
