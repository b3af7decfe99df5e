"""Explain why some of Gedik's figures differ here, from his text and our runs.

m is that of one step, and one key is a large part of it. So it is shown over all steps of N, beside
b where the paper has readj fall behind. Balance is separated into the tracked keys, which the
algorithms see, and the tail, which they do not. The first key with its share of the tail bounds
what any of them can reach. A rank taken mod N shows what uniform's published m can come from.

    python -m benchmarks.papers.gedik_2014.gedik_steps [runs] [channels]
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.papers.gedik_2014.gedik import ALPHA, SLOTS, TRACKING, Setting, grow
from partitioning.function.function import PartitioningFunction, numbered_channels
from partitioning.strategies import STRATEGIES
from partitioning.strategies.published.gedik_resources import delta
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import profile_of_keys

KEYS, SIGMA = 10**6, 0.1
SPANS, SHOWN = ((2, 5), (6, 10), (11, 20), (21, 32)), (10, 20, 24, 28, 32)


def over_steps(runs: int, most: int) -> None:
    """Print the mean m of spans of N, and b at some N; LCL."""
    spans = [(low, min(high, most)) for low, high in SPANS if low <= most]
    shown = [n for n in SHOWN if n <= most]
    print(f"m, mean over N from - to, and b at N; LCL, mean of {runs} runs (Fig. 6)")
    print(f"{'':10}" + "".join(f"{f'm {low}-{high}':>9}" for low, high in spans)
          + "".join(f"{f'b {n}':>7}" for n in shown))  # fmt: skip
    setting = Setting(keys=KEYS, resources="LCL", channels=most)
    for name in ("uniform", *TRACKING):
        ends = [list(grow(name, setting, seed)) for seed in range(runs)]
        m, b = (np.mean([[step[x] for step in end] for end in ends], axis=0) for x in "mb")
        moved = "".join(f"{m[low - 2 : high - 1].mean():>9.2f}" for low, high in spans)
        print(f"{name:10}{moved}" + "".join(f"{b[n - 2]:>7.2f}" for n in shown), flush=True)


def seen_and_unseen(name: str, seed: int, channels: int = 10) -> tuple[float, float, float]:
    """Separate at LLL what the algorithms see from the tail.

    Returns max over min of the tracked keys over alpha, the tail beside the first key over the
    tail's mean, and b.
    """
    load, hashes = zipf(KEYS, 1.0), hashed_keys(KEYS, seed)
    function: PartitioningFunction | None = None
    least = 1.0
    for count in range(1, channels + 1):
        least = delta(ALPHA, SIGMA, count, "LLL", KEYS) or 1.0
        known = None if function is None else function.explicit_keys
        profile = profile_of_keys(KEY, hashes, load, SLOTS, threshold=least, listed=known)
        options = {"resources": "LLL", "sigma": SIGMA, "alpha": ALPHA}
        function = STRATEGIES[name](profile, function, numbered_channels(count), **options)
    assert function is not None
    owners, tracked = function.lookup_hashes(hashes), load >= least
    seen = np.bincount(owners[tracked], load[tracked], minlength=channels)
    tail = np.bincount(owners[~tracked], load[~tracked], minlength=channels)
    both = seen + tail
    return (
        float(seen.max() / seen.min() / ALPHA),
        float(tail[owners[load.argmax()]] / tail.mean()),
        float(both.max() / both.min() / ALPHA),
    )


def first_key(channels: int) -> float:
    """Return b if only the first key, with its channel's share of the tail, is uneven."""
    load = zipf(KEYS, 1.0)
    tail = load[load < delta(ALPHA, SIGMA, channels, "LLL", KEYS)].sum() / channels
    fullest = load.max() + tail
    return float(fullest / ((1 - fullest) / (channels - 1)) / ALPHA)


def by_rank(channels: int) -> float:
    """Return m of frequency rank mod N at the last step."""
    load, rank = zipf(KEYS, 1.0), np.arange(1, KEYS + 1)
    return float(load[rank % (channels - 1) != rank % channels].sum() * channels)


def main(runs: int = 3, most: int = 32) -> None:
    over_steps(runs, most)
    print(
        f"\nLLL, N = 10: tracked keys, tail beside the first key, mean of {runs + 2} runs (Fig. 3)"
    )
    print(f"{'':10}{'max/min of tracked, over alpha':>32}{'tail there, over its mean':>28}{'b':>7}")
    for name in TRACKING:
        each = np.mean([seen_and_unseen(name, seed) for seed in range(runs + 2)], axis=0)
        print(f"{name:10}{each[0]:>32.2f}{each[1]:>28.3f}{each[2]:>7.3f}", flush=True)
    print(f"\nFirst key with an even tail, all else even: b {first_key(10):.3f}")
    print(f"Frequency rank mod N at N = 32: m {by_rank(32):.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
