"""Measure what planning for a forecast is worth: the next window's imbalance and the moved load.

This is not from a paper: all five plan for the past window. The made-up streams have 100,000 Zipf
keys, z = 1, 1M rows a window, 16 windows and 10 channels. Between two windows a share `churn` of
the ranks swap. Each function is built from earlier windows and scored on a window that it has not
seen. "learned" plans for the last window. "forecast" plans for what all windows so far predict of
the next. "oracle" knows the next window itself.

    python -m benchmarks.papers.gedik_2014.forecast [windows]
"""

from __future__ import annotations

import sys

import numpy as np

from evenkeel.backtest.scoring import Forecasts, backtest
from evenkeel.backtest.windows import Series, Window
from partitioning.function.hashing import key_hash
from partitioning.streams.zipf_stream import KEY, Stream, key_of_rank, zipf

CHANNELS, CHURNS = 10, (0.0, 0.02, 0.1, 0.5)
#: (strategy, who plans for a forecast, what it is called here)
RUNS = (
    ("uniform", Forecasts.none, ""),
    ("scan", Forecasts.none, ""),
    ("elb", Forecasts.none, ""),
    ("frontier", Forecasts.none, ", learned"),
    ("frontier", Forecasts.own, ", forecast"),
    ("frontier", Forecasts.oracle, ", oracle"),
)


def series(stream: Stream) -> Series:
    """Draw the stream's windows, each key's count by Poisson's law."""
    random = np.random.default_rng(stream.seed)
    shares = zipf(stream.keys, stream.z) * stream.rows
    windows, none = [], np.empty(0, dtype=np.int32)
    for number in range(stream.windows):
        keys = key_of_rank(stream, np.arange(stream.keys), number)
        load = random.poisson(shares).astype(np.float64)
        hashes = key_hash([keys], ["bigint"])
        order = np.argsort(hashes)
        order = order[load[order] > 0]
        rows = int(load.sum())
        windows.append(Window(str(number), hashes[order], load[order], rows, none, None))
    every = np.unique(np.concatenate([w.hashes for w in windows]))
    return Series(KEY, every, tuple(windows), ())


def main(windows: int = 16) -> None:
    print(
        f"{windows} windows, {CHANNELS} channels: imbalance of the next window, load moved a window"
    )
    print(f"{'churn':20}" + "".join(f"{c:>18.0%}" for c in CHURNS))
    streams = [series(Stream(windows=windows, churn=c)) for c in CHURNS]
    for name, forecasts, called in RUNS:
        shown = []
        for stream in streams:
            scores = list(backtest(stream, [name], [CHANNELS], forecasts=forecasts))
            even = np.mean([s.imbalance for s in scores])
            moved = np.mean([s.moved for s in scores[1:]])
            shown.append(f"{even:>11.3f}{moved:>7.2%}")
        print(f"{name + called:20}{''.join(shown)}", flush=True)
    floors = [np.mean([s.floor for s in backtest(x, ["uniform"], [CHANNELS])]) for x in streams]
    print(f"{'floor':20}" + "".join(f"{f:>11.3f}{'':7}" for f in floors))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
