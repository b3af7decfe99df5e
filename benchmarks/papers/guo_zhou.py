"""Variance of load and state moved of ELB, CLB, UHLB and PKG (Guo and Zhou, Table 1, Fig. 4).

The paper's two hours of tweets cannot be had. The substitute is the generator's preset guo-zhou,
row for row what `spark_jobs.generate` writes of it: 100 substreams, 120 windows of a minute with
6,100 tuples (10.6M tweets in 29 hours), shares of Zipf's law that wander as exp of an AR(1)
process. Its step is set so that ELB moves about what it did; all else follows. There are 10
channels. State is as large as load; PKG's is taken to move with its shares. Variance is that of
the next, unseen window, and beside it that of the window learned: in all, and in those in which no
substream alone is over a channel's fair share ("fits").

The order of state moved is the paper's, and of variance but for UHLB, on either window: the better
of two random hashes leaves the heavy substreams where chance puts them. The paper says neither how
often UHLB draws nor on which window it is measured.

    python -m benchmarks.papers.guo_zhou [seeds]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from partitioning.function import PartitioningFunction, numbered_channels
from partitioning.generator import KEY, PRESETS, keys_of_window
from partitioning.metrics import channel_loads, moved_shares
from partitioning.profile import Profile, profile_of_keys
from partitioning.strategies import STRATEGIES

STREAM, CHANNELS, PERIOD = PRESETS["guo-zhou"], 10, 24
#: One new hash a window; more move all the state for little.
OPTIONS: dict[str, dict[str, Any]] = {"clb": {"period": PERIOD}, "uhlb": {"draws": 1}}
#: (variance of load with its deviation over the windows, share of state moved a window): Table 1
#: and section 5.1.
PUBLISHED = {
    "uhlb": ("2.9e4 (770)", "24.2%"),
    "pkg": ("3.1e4 (1019)", "21.2%"),
    "elb": ("5.1e4 (1807)", "14.5%"),
    "clb": ("6.1e4 (5134)", "1.6%, 48.4% each time"),
}
NAMES = ("uniform", *PUBLISHED, "frontier")


def histograms(seed: int) -> list[Profile]:
    """What came of each substream, which is a key and a slot, in each window."""
    stream, substreams = replace(STREAM, seed=seed), np.arange(STREAM.keys)
    profiles = []
    for window in range(stream.windows):
        load = np.bincount(keys_of_window(stream, window), minlength=stream.keys).astype(float)
        profiles.append(profile_of_keys(KEY, substreams, load, stream.keys))
    return profiles


def measure(name: str, profiles: Sequence[Profile]) -> tuple[float, ...]:
    """Means over the windows after the first: variance of load in the next window, its standard
    deviation over the windows, variance in the learned one, and in those of them in which no
    substream is over a fair share, state moved a window, and in those in which some is."""
    previous: PartitioningFunction | None = None
    variances, learned, fits, moved, channels = [], [], [], [], numbered_channels(CHANNELS)
    for profile in profiles:
        if previous is not None:
            variances.append(channel_loads(previous, profile).var())
        function = STRATEGIES[name](profile, previous, channels, **OPTIONS.get(name, {}))
        if previous is not None:
            learned.append(channel_loads(function, profile).var())
            if profile.load.max() * CHANNELS <= profile.load.sum():
                fits.append(learned[-1])
            shares = moved_shares(previous, function, profile.heavy)
            moved.append((shares * profile.heavy_load).sum() / profile.load.sum())
        previous = function
    acted = [m for m in moved if m]
    moves = float(np.mean(moved)), float(np.mean(acted or [0]))
    return (
        float(np.mean(variances)),
        float(np.std(variances)),
        float(np.mean(learned)),
        float(np.mean(fits or [0])),
        *moves,
    )


def main(seeds: int = 5) -> None:
    print(
        f"{STREAM.keys} substreams, {CHANNELS} channels, {STREAM.windows} windows, "
        f"mean of {seeds} runs"
    )
    print(f"{'variance of':12}{'next':>10}{'(std)':>10}{'learned':>10}{'fits':>10}"
          f"{'moved a window':>16}{'when it moves':>15}   paper")  # fmt: skip
    runs = [histograms(seed) for seed in range(seeds)]
    for name in NAMES:
        following, deviation, learned, fits, moved, acted = np.mean(
            [measure(name, run) for run in runs], axis=0
        )
        paper = ", ".join(PUBLISHED.get(name, ("-",)))
        spread = f"({deviation:.1e})"
        print(f"{name:12}{following:>10.1e}{spread:>10}{learned:>10.1e}{fits:>10.1e}"
              f"{moved:>16.1%}{acted:>15.1%}   {paper}")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
