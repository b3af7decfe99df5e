"""Explain why some of Gedik's figures differ here, from his text and our runs.

m is that of one step, and one key is a large part of it. So it is shown over all steps of N, beside
b where the paper has readj fall behind. Balance is separated into the tracked keys, which the
algorithms see, and the tail, which they do not. The first key with its share of the tail bounds
what any of them can reach. A rank taken mod N shows what uniform's published m can come from.

    python -m benchmarks.papers.gedik_2014.gedik_steps [runs] [channels]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.papers.gedik_2014.domain import domain
from benchmarks.papers.gedik_2014.gedik import ALPHA, SLOTS, TRACKING, Setting, grow
from benchmarks.papers.gedik_2014.gedik_words import error
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.strategies import STRATEGIES
from partitioning.strategies.published.gedik.resources import delta
from partitioning.streams.zipf_stream import zipf
from partitioning.workload.profile import Floats

KEYS, SIGMA = 10**6, 0.1
SPANS, SHOWN = ((2, 5), (6, 10), (11, 20), (21, 32)), (10, 20, 24, 28, 32)


def over_steps(runs: int, most: int) -> None:
    """Print the mean m of spans of N, and b at some N, with standard errors; LCL."""
    spans = [(low, min(high, most)) for low, high in SPANS if low <= most]
    shown = [n for n in SHOWN if n <= most]
    setting = Setting(keys=KEYS, resources="LCL", channels=most)
    names = ("uniform", *TRACKING)
    ends = {name: [list(grow(name, setting, seed)) for seed in range(runs)] for name in names}

    def of(name: str, measure: str) -> Floats:
        return np.array([[step[measure] for step in end] for end in ends[name]])

    print(f"m, mean over N from - to ± standard error; LCL, {runs} runs (Fig. 6)")
    print(f"{'':10}" + "".join(f"{f'{low} - {high}':>8}{'':6}" for low, high in spans).rstrip())
    for name in names:
        m = of(name, "m")
        print(_row(name, [m[:, low - 2 : high - 1].mean(axis=1) for low, high in spans]))
    print("\nb at N, of the same runs")
    print(f"{'':10}" + "".join(f"{n:>8}{'':6}" for n in shown).rstrip())
    for name in names:
        b = of(name, "b")
        print(_row(name, [b[:, n - 2] for n in shown]), flush=True)


def _row(name: str, columns: Sequence[Floats]) -> str:
    """Format the mean and standard error of each column, float64 (runs,)."""
    return f"{name:10}" + "".join(f"{x.mean():>8.2f} ±{error(x):.2f}" for x in columns)


def seen_and_unseen(name: str, seed: int, channels: int = 10) -> tuple[float, float, float]:
    """Separate at LLL what the algorithms see from the tail.

    Returns max over min of the tracked keys over alpha, the tail beside the first key over the
    tail's mean, and b.
    """
    known = domain(KEYS, 1.0, seed, SLOTS)
    function: PartitioningFunction | None = None
    least = 1.0
    for count in range(1, channels + 1):
        least = delta(ALPHA, SIGMA, count, "LLL", KEYS) or 1.0
        listed = None if function is None else function.explicit_keys
        profile = known.profile(least, listed, "L")
        options = {"resources": "LLL", "sigma": SIGMA, "alpha": ALPHA}
        function = STRATEGIES[name](profile, function, numbered_channels(count), **options)
    assert function is not None
    tracked = known.load >= least
    owners = function.lookup_hashes(known.hashes[tracked])
    seen = np.bincount(owners, known.load[tracked], minlength=channels)
    both = known.loads(function, "L")
    tail = both - seen
    first = function.lookup_hashes(known.hashes[:1])[0]
    return (
        float(seen.max() / seen.min() / ALPHA),
        float(tail[first] / tail.mean()),
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


def main(runs: int = 16, most: int = 32) -> None:
    over_steps(runs, most)
    print(f"\nLLL, N = 10, {runs} runs (Fig. 3): b, max over min of the tracked keys over alpha,")
    print("and the tail beside the first key over its mean")
    print(f"{'':10}{'b':>8}{'tracked':>14}{'tail':>14}")
    for name in TRACKING:
        seen, tail, b = np.array([seen_and_unseen(name, seed) for seed in range(runs)]).T
        print(_row(name, [b, seen, tail]), flush=True)
    print(f"\nFirst key with an even tail, all else even: b {first_key(10):.3f}")
    print(f"Frequency rank mod N at N = 32: m {by_rank(32):.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
