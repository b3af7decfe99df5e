"""Score strategies that split no key on real data, on the window after the one it is for.

This is not from a paper. Words are those of two novels in reading order; purchases are those of
UCI's Online Retail by stock code. There are 10 and 20 channels, and figures are means over all
windows. `frontier` plans for a forecast, and aims at what is even but for chance.

Its variants follow. One has an aim of 1.05. Others plan for the window learned, or know the next
window. Last come the nearest competitors with the
same forecast. By day the variants run on 10 channels only, because that run is the longest of all.

The files are read from the folder EVENKEEL_DATA, by default shared/data beside the project.

    python -m benchmarks.papers.flexd.real_data [rows]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.papers.data import LACKING, PURCHASES, WORDS, find
from evenkeel.backtest.scoring import Forecasts, Score, backtest
from evenkeel.backtest.windows import Series, read_series
from partitioning.strategies import WHOLE

CHANNELS = (10, 20)
#: Rivals that the benchmark `leaderboard` plays instead.
ELSEWHERE = ("mixed", "kip", "estore")
PLAYED = tuple(name for name in WHOLE if name not in ELSEWHERE)
#: (name, files, how it is cut into windows, on how many channels the variants are run)
SERIES: tuple[tuple[str, tuple[tuple[str, str], ...], dict[str, Any], tuple[int, ...]], ...] = (
    ("words, 100,000", WORDS, {"rows": 100_000}, CHANNELS),
    ("purchases, by week", PURCHASES, {"time": "InvoiceDate", "every": "1w"}, CHANNELS),
    ("purchases, by day", PURCHASES, {"time": "InvoiceDate", "every": "1d"}, CHANNELS[:1]),
)
#: Variants: strategy, what is other, options, who plans for a forecast.
VARIANTS: tuple[tuple[str, str, dict[str, Any], Forecasts], ...] = (
    ("frontier", "aim 1.05", {"max_imbalance": 1.05}, Forecasts.own),
    ("frontier", "learned", {}, Forecasts.none),
    ("frontier", "oracle", {}, Forecasts.oracle),
    *((name, "forecast", {}, Forecasts.all) for name in ("elb", "flux", "sbk")),
)


def means(scores: Iterable[Score]) -> tuple[float, float]:
    """Return the next window's imbalance and, after the first function, the share of load moved."""
    pairs = np.array([(s.imbalance, s.moved) for s in scores])
    return float(pairs[:, 0].mean()), float(pairs[1:, 1].mean())


def measure(data: Series, count: int, variants: bool = True) -> dict[str, tuple[float, float]]:
    """Return `means` of each strategy, the most even first, then of each variant."""
    scores = list(backtest(data, list(PLAYED), [count]))
    found = {name: means(s for s in scores if s.strategy == name) for name in PLAYED}
    found = dict(sorted(found.items(), key=lambda item: item[1]))
    for name, other, options, forecasts in VARIANTS if variants else ():
        given = {name: options}
        told = backtest(data, [name], [count], given, forecasts=forecasts)
        found[f"{name}, {other}"] = means(told)
    return found


def main(limit: int | None = None) -> int:
    """Print a table for each series; return the exit code, `LACKING` if one is missing."""
    lacking = 0
    for name, files, cut, varied in SERIES:
        at = find(files)
        if at is None:
            print(f"{name}: EVENKEEL_DATA has no {' or '.join(f for f, _ in files)}\n")
            lacking = LACKING
            continue
        data = read_series(str(at[0]), [at[1]], limit=limit, **cut)
        print(f"{name}: {len(data.windows)} windows, {data.keys:,} keys")
        print(f"{'':20}" + "".join(f"{f'N = {count}':>10}{'moved':>8}" for count in CHANNELS))
        found = [measure(data, count, count in varied) for count in CHANNELS]
        for label in found[0]:
            each = (at_count[label] for at_count in found if label in at_count)
            print(f"{label:20}" + "".join(f"{even:>10.4f}{moved:>8.1%}" for even, moved in each))
        print()
    return lacking


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
