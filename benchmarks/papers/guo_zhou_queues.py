"""Model latency and speedup of ELB, CLB, UHLB and PKG by queues (Guo and Zhou, Table 2, Fig. 6).

The paper says how its operator is fed: the rate grows evenly from 1,000 to 16,000 tuples a second,
an instance takes 1,000 a second, and one more instance is added each time. So n instances serve n
thousand tuples a second: there is no headroom. It does not say how long the operator pauses while
state moves. Both are swept here.

Each instance is a queue with a fixed rate of service, fed evenly within a minute with its share of
that minute's tuples. A plan is made from the minute before. All tuples wait while the operator
pauses, and the pause is in proportion to the state that moves. Queues are kept from minute to
minute. A tuple's latency is what waits before it, over the rate of service, and the service itself.

    python -m benchmarks.papers.guo_zhou_queues [windows] [streams]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.papers.gedik_2014.gedik_words import error
from benchmarks.papers.guo_zhou import OPTIONS, histograms
from partitioning.function.channels import numbered_channels
from partitioning.strategies import STRATEGIES
from partitioning.workload.metrics import channel_loads, moved_shares
from partitioning.workload.profile import Floats, Profile

#: Tuples a second that an instance takes, and that come at first and at last; seconds of a window.
SERVICE, FIRST, LAST, WINDOW = 1_000.0, 1_000.0, 16_000.0, 60.0
#: Moments of a window at which waits are taken, and streams measured.
STEPS, STREAMS = 240, 16
#: (spare capacity over the mean load, seconds of pause if all state moves).
SETTINGS = ((1.0, 0.0), (1.5, 0.0), (2.0, 0.0), (2.0, 1.0), (2.0, 5.0))
#: Table 2, in milliseconds: mean, median, 95th percentile, most.
PUBLISHED = {
    "clb": (0.76, 0.30, 1.12, 1103),
    "elb": (0.73, 0.33, 0.68, 1110),
    "pkg": (0.92, 0.38, 1.70, 1551),
    "uhlb": (1.01, 0.38, 1.89, 1505),
}


@dataclass(frozen=True, eq=False)
class Minute:
    """One window: tuples a second of each instance, (n,), and the share of state moved for it."""

    rates: Floats
    moved: float


def minutes(name: str, profiles: Sequence[Profile], spare: float) -> list[Minute]:
    """Plan each window from the one before, with as many instances as its rate asks for."""
    found, previous = [], None
    grow = np.linspace(FIRST, LAST, len(profiles) - 1)
    for learned, coming, rate in zip(profiles, profiles[1:], grow.tolist(), strict=False):
        channels = numbered_channels(math.ceil(spare * rate / SERVICE - 1e-9))
        function = STRATEGIES[name](learned, previous, channels, **OPTIONS.get(name, {}))
        moved = 0.0
        if previous is not None:
            shares = moved_shares(previous, function, learned.heavy)
            moved = float((shares * learned.heavy_load).sum() / learned.load.sum())
        loads = channel_loads(function, coming)
        found.append(Minute(loads / loads.sum() * rate, moved))
        previous = function
    return found


def latencies(course: Sequence[Minute], pause: float) -> tuple[Floats, Floats]:
    """Return latencies in milliseconds, and how many tuples have each."""
    waits, weights, waiting = [], [], np.zeros(0)
    step = WINDOW / STEPS
    for minute in course:
        waiting = np.pad(waiting, (0, len(minute.rates) - len(waiting)))
        stopped = pause * minute.moved
        for _ in range(STEPS):
            waits.append(waiting / SERVICE + stopped + 1 / SERVICE)
            weights.append(minute.rates * step)
            serves = max(step - stopped, 0.0)
            stopped = max(stopped - step, 0.0)
            waiting = np.maximum(waiting + minute.rates * step - SERVICE * serves, 0.0)
    return 1000 * np.concatenate(waits), np.concatenate(weights)


def percentile(values: Floats, weights: Floats, part: float) -> float:
    """Return the value below which this part of the weight lies."""
    order = np.argsort(values)
    at = np.searchsorted(np.cumsum(weights[order]), part * weights.sum())
    return float(values[order][min(at, len(values) - 1)])


def measured(course: Sequence[Minute], pause: float) -> Floats:
    """Measure one stream, float64 (5,): mean, median, 95th percentile and most, in milliseconds.

    The last is the share of the ideal speedup beyond 14,000 tuples a second.
    """
    values, weights = latencies(course, pause)
    mean = float(np.average(values, weights=weights))
    parts = [percentile(values, weights, part) for part in (0.5, 0.95)]
    late = [minute for minute in course if minute.rates.sum() >= 14_000]
    speedup = np.mean([np.minimum(m.rates, SERVICE).sum() / m.rates.sum() for m in late])
    return np.array([mean, *parts, values.max(), speedup])


def row(name: str, each: Floats) -> str:
    """Format the means over some streams, float64 (streams, 5), and the error of the first."""
    *cells, speedup = each.mean(axis=0)
    theirs = "".join(f"{x:>9g}" for x in PUBLISHED[name])
    spread = f"{error(each[:, 0]):>11,.1f}"
    rest = "".join(f"{x:>13,.1f}" for x in cells[1:])
    return f"{name:8}{cells[0]:>13,.1f}{spread}{rest}{speedup:>9.0%}{theirs}"


def main(windows: int = 120, streams: int = STREAMS) -> None:
    profiles = [histograms(seed)[: windows + 1] for seed in range(streams)]
    print("latency in ms: mean, median, 95th percentile, most; share of the ideal speedup beyond")
    print("14,000 tuples a second; and the paper's latencies (Table 2, Figs. 5, 6). Means of")
    print(f"{streams} streams; se: standard error of the mean before it")
    courses: dict[tuple[str, float], list[list[Minute]]] = {}
    for spare, pause in SETTINGS:
        print(f"\ncapacity {spare:g} times the load, pause {pause:g} s if all state moves")
        heads = "".join(f"{x:>13}" for x in ("median", "95%", "most"))
        theirs = "".join(f"{x:>9}" for x in ("paper", "median", "95%", "most"))
        print(f"{'':8}{'mean':>13}{'se':>11}{heads}{'speedup':>9}{theirs}")
        for name in PUBLISHED:
            if (name, spare) not in courses:
                courses[name, spare] = [minutes(name, each, spare) for each in profiles]
            each = np.array([measured(course, pause) for course in courses[name, spare]])
            print(row(name, each), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
