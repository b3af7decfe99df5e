"""Compare planners on windows that no plan has seen, on many streams and several hashes.

Each stream is played window by window. A plan is made from what was known then, and the next window
gives its imbalance (1 is perfect). "moved" is the share of the load that changes channel, a window.
"sum" is both together, and "ms" the time of one plan with its forecast, in milliseconds.

A hash decides which keys share a slot, and one hash is not a measurement. So keys are salted
several times. "over frontier" is the paired difference in the sum, with its standard error over the
hashes. A difference over 0 means that frontier, as specs have it by default, is better.

Choices, such as the set of decays, were made on half of the sets. The other half is only reported.

    python -m benchmarks.planning.unseen [--hashes 5] [--channels 10,20] [--sets flights,zipf]
    python -m benchmarks.planning.unseen --file events.parquet --key user --time at --every 1d
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from benchmarks.planning.unseen_reference import ReferencePlanner
from benchmarks.planning.unseen_sets import SETS, DataSet
from evenkeel.backtest.arguments import parse_channels
from evenkeel.backtest.scoring import Forecasts, backtest
from evenkeel.backtest.windows import Series, read_series, salted
from partitioning.workload.profile import Floats

#: Imbalance of the next window, load moved a window, and seconds a plan.
Result = tuple[float, float, float]
Player = Callable[[Series, int], Result]
OURS = "frontier"
DECAYS = (0.2, 0.5, 0.8)


def play_frontier(
    series: Series, channels: int, forecasts: Forecasts = Forecasts.own, decay: float | None = None
) -> Result:
    """Play a stream with the product's own planner."""
    scores = list(backtest(series, [OURS], [channels], forecasts=forecasts, decay=decay))
    return (
        float(np.mean([s.imbalance for s in scores])),
        float(np.mean([s.moved for s in scores[1:] or scores])),
        float(np.mean([s.plan_seconds for s in scores])),
    )


def play_reference(series: Series, channels: int) -> Result:
    """Play a stream with the reference planner."""
    planner, found = ReferencePlanner(series, channels), []
    loads = np.zeros((len(series.windows), series.keys))
    for own, window in zip(loads, series.windows, strict=True):
        own[np.searchsorted(series.hashes, window.hashes)] = window.load
    for load, unseen in pairwise(loads):
        before, began = planner.owners(), time.process_time()
        planner.learn(load)
        seconds, after = time.process_time() - began, planner.owners()
        there = np.bincount(after, unseen, channels)
        moved = float(load[before != after].sum() / load.sum())
        found.append((float(there.max() / there.mean()), moved, seconds))
    even, moved, seconds = np.array(found).T
    return float(even.mean()), float(moved[1:].mean() if len(moved) > 1 else 0), seconds.mean()


PLAYERS: dict[str, Player] = {
    OURS: play_frontier,
    "last window": partial(play_frontier, forecasts=Forecasts.none),
    **{f"decay {decay:g}": partial(play_frontier, decay=decay) for decay in DECAYS},
    "reference": play_reference,
}


def measure(series: Series, channels: int, hashes: int) -> dict[str, Floats]:
    """Return each planner's results, float64 (hashes, 3); the salts are 1, 2, ..."""
    rows: dict[str, list[Result]] = {name: [] for name in PLAYERS}
    for salt in range(1, hashes + 1):
        own = salted(series, salt)
        for name, player in PLAYERS.items():
            rows[name].append(player(own, channels))
    return {name: np.array(found) for name, found in rows.items()}


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean over hashes and its standard error; the error of one hash is not known."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def lines(name: str, found: dict[str, Floats]) -> Iterable[str]:
    """Yield a line for each planner of a set."""
    ours = found[OURS][:, :2].sum(axis=1)
    for planner, values in found.items():
        milliseconds = 1000 * values[:, 2].mean()
        even, even_error = mean_and_error(values[:, 0])
        both = values[:, :2].sum(axis=1)
        over, over_error = mean_and_error(both - ours)
        yield (
            f"{name:26}{planner:12}{even:>8.4f} ±{even_error:<7.4f}{values[:, 1].mean():>7.2%}"
            f"{both.mean():>9.4f}{over:>+9.4f} ±{over_error:<7.4f}{milliseconds:>7.1f}"
        )
        name = ""


HEADER = (
    f"{'set':26}{'planner':12}{'imbalance':>17}{'moved':>7}{'sum':>9}{'over frontier':>18}{'ms':>7}"
)


def summary(title: str, every: Sequence[dict[str, Floats]]) -> Iterable[str]:
    """Yield the means over sets, and on how many of them frontier is beaten."""
    yield f"{title}: means over {len(every)} rows of sets and channels"
    for planner in PLAYERS if every else ():
        values = np.array([found[planner].mean(axis=0) for found in every])
        gaps = [
            mean_and_error((found[planner] - found[OURS])[:, :2].sum(axis=1)) for found in every
        ]
        lower, beaten = sum(g < 0 for g, _ in gaps), sum(g < -e for g, e in gaps)
        even, moved, milliseconds = values.mean(axis=0) * (1, 1, 1000)
        told = (
            "" if planner == OURS else f"  below frontier in {lower}, by over one error in {beaten}"
        )
        yield (
            f"  {planner:12}{even:>8.4f}{moved:>8.2%}{even + moved:>9.4f}{milliseconds:>8.1f} ms"
            f"{told}"
        )


def report(sets: Sequence[DataSet], channels: Sequence[int], hashes: int) -> None:
    """Print a table of each half of the sets, and its summary."""
    for choice in (True, False):
        title = "Sets for choices" if choice else "Sets that are only reported"
        print(f"\n{title}, {hashes} hashes\n{HEADER}")
        every = []
        for data in (s for s in sets if s.choice is choice):
            try:
                series = data.series()
            except FileNotFoundError as error:
                print(f"{data.name}: left out, EVENKEEL_DATA has no {error.args[0].name}")
                continue
            for count in channels:
                found = measure(series, count, hashes)
                every.append(found)
                print("\n".join(lines(f"{data.name}, N = {count}", found)), flush=True)
        print("\n".join(summary(title, every)), flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="unseen", description="Compare planners on unseen windows"
    )
    parser.add_argument("--hashes", type=int, default=5, help="how often keys are salted")
    parser.add_argument("--channels", default="10", help="numbers of channels, as 10,20")
    parser.add_argument("--sets", default="", help="parts of names of sets, as flights,zipf")
    parser.add_argument("--file", help="your own stream: Parquet, CSV or text")
    parser.add_argument("--key", default="line", help="its key columns, as a,b")
    parser.add_argument("--weight", help="its column of each row's load")
    parser.add_argument("--rows", type=int, help="rows of a window")
    parser.add_argument("--time", help="its column of time")
    parser.add_argument("--every", help="span of a window, as 1d")
    given = parser.parse_args(argv)
    parts = given.sets.split(",")
    sets = [s for s in SETS if any(part in s.name for part in parts)]
    if given.file:
        cut = {name: getattr(given, name) for name in ("weight", "rows", "time", "every")}
        keys = given.key.split(",")
        sets = [DataSet("own", partial(read_series, given.file, keys, **cut), choice=False)]
    report(sets, parse_channels(given.channels), given.hashes)


if __name__ == "__main__":
    main()
