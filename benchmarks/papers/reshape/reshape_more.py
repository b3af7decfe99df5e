"""Run Reshape by how busy workers are, and at other levels of skew (its sections 7.12 and 7.7).

The figures are the paper's Figs. 27 and 23. Flink (7.12) shows no queues. So the load of a worker
is the part of a second that it was busy, and it is skewed from 80% on; all else is as in `reshape`.
Two workers that are both busy all the time look alike. So the first phase ends as soon as the
helper is busy, and the skewed worker keeps its lead. For 48 cores the paper gives the tuples: 13M
and 14M of California's, 10M and 10M of Texas's. So Texas and the rest of the two workers' input
make 20M. The totals are thus set to the paper's ("=").

Levels of skew (7.7): the paper joins DSB's sales by item, highly skewed, and by date, moderately.
It draws the shares of both and prints none. The substitutes are Zipf's law with z = 1 over 204,000
items, and z = 0.3 over the 365 dates of a year. Both are hashed to 40, 60 and 80 workers, with as
much more data, 360,000 tuples a worker. The fullest worker takes 267 s at 40 cores and 335 s at 80,
as there, and all are as fast.

The paper does not print how fast the input comes either. It is swept, as a part of those seconds.
The five fullest workers of each join have a helper each, the emptiest. They share all that they
have, as in `reshape`'s sorting.

    python -m benchmarks.papers.reshape.reshape_more
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.papers.reshape.queues import ENDLESS, TWEETS, Run, tweets
from partitioning.strategies.skew import Threshold, skewed_pairs
from partitioning.streams.zipf_stream import zipf
from partitioning.workload.profile import Floats

#: Thousands of tuples that come to the two workers: the big key's, others', the helper's own.
STATES = {"California": (26_000, 600, 400), "Texas": (19_000, 500, 500)}
PUBLISHED = {"California": "about 0.9 (=13M, =14M)", "Texas": "about 0.9 (=10M, =10M)"}
#: How workers are compared; busy is in milliseconds of a second.
BY_QUEUES: dict[str, Any] = {}
BY_BUSY: dict[str, Any] = {"by_busy": True, "limits": replace(ENDLESS, eta=800.0)}
#: Workers, and seconds of the fullest one.
SCALES = {40: 267.0, 60: 301.0, 80: 335.0}
TUPLES, SKEWED = 360_000, 5
JOINS = {"item": (204_000, 1.0), "date": (365, 0.3)}
PARTS = (0.05, 0.2, 0.3, 0.4)


def flink() -> None:
    print(
        "Average load-balancing ratio by queues, and by how busy workers are, as on Flink (7.12);"
    )
    print("=: set to this")
    print(f"  {'':12}{'queues':>20}{'busy':>20}   paper")
    for state, (big, small, own) in STATES.items():
        cells = ""
        for options in (BY_QUEUES, BY_BUSY):
            run = Run("reshape", **options).go(tweets(own, big, small), TWEETS)
            counts = ", ".join(f"{a / 1000:.0f}M" for a in run.allotted)
            cells += f"{f'{np.mean(run.balance):.2f} ({counts})':>20}"
        print(f"  {state:12}{cells}   {PUBLISHED[state]}")


def counts_of(join: str, workers: int, seed: int = 0) -> Floats:
    """Return the tuples of each worker, float64 (workers,), whose keys are hashed."""
    keys, z = JOINS[join]
    of = np.random.default_rng((seed, workers)).integers(workers, size=keys)
    return np.bincount(of, zipf(keys, z), minlength=workers) * TUPLES * workers


def ratios(counts: Floats, seconds: float, speed: float, part: float) -> list[float]:
    """Return the average load-balancing ratio of each of the fullest workers and its helper."""
    found = []
    for skewed, helper in skewed_pairs(counts, 0.0, 0.0)[:SKEWED]:
        came = np.array([counts[skewed], 0, counts[helper]]) / (part * seconds)
        tau = Threshold(100, 0, np.inf, left=0)
        run = Run("reshape", tau=tau).go(lambda now, c=came: c, part * seconds, speed, dt=0.5)
        found.append(float(np.mean(run.balance)))
    return found


def levels() -> None:
    print(
        "\nAverage load-balancing ratio of the five most skewed workers, P25 P50 P75, by how much"
    )
    print("of the seconds the input takes to come (7.7); paper: by item P25, P75 over 0.6, median")
    print("over 0.77; by date lower, detected late")
    print(f"  {'':14}{'max/mean':>9}{'none':>7}" + "".join(f"{f'{p:g}':>19}" for p in PARTS))
    for join in JOINS:
        for workers, seconds in SCALES.items():
            counts = counts_of(join, workers)
            speed = counts_of("item", workers).max() / seconds
            pairs = skewed_pairs(counts, 0.0, 0.0)[:SKEWED]
            alone = np.median([counts[b] / counts[a] for a, b in pairs])
            cells = ""
            for part in PARTS:
                each = np.percentile(ratios(counts, seconds, speed, part), (25, 50, 75))
                cells += f"{' '.join(f'{x:.2f}' for x in each):>19}"
            most = counts.max() / counts.mean()
            print(f"  {f'{join}, {workers}':14}{most:>9.2f}{alone:>7.2f}{cells}", flush=True)


def main() -> None:
    flink()
    levels()


if __name__ == "__main__":
    main()
