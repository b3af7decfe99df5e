"""Measure FlexD's load imbalance over time, from the start of a stream (its Fig. 9).

The paper draws lambda over time for PStream, Dalton and FlexD at five skews. It says in words only
three things of the curves. PStream's begins high at z = 2 and 2.5, Dalton's too at 3, and FlexD's
is steady. Here a stream of 10,000 keys passes in windows of 10,000 rows on 10 channels; a router
knows nothing at first. A window of the stream is a segment of FlexD's sketch, whose size the paper
does not give.

frontier with splitting is planned from the window before, so it has no first one. Its state moves
with each new plan; routers avoid that by leaving parts of it behind.

    python -m benchmarks.papers.flexd.flexd_time [windows]
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.papers.flexd.flexd import KEYS, SKEWS, series
from evenkeel.backtest.scoring import Forecasts, backtest
from evenkeel.backtest.windows import Series
from partitioning.strategies import ROUTERS

ROWS, WINDOWS, CHANNELS = 10_000, 50, 10
#: Windows shown, from 1 on.
SHOWN = (1, 2, 3, 5, 10, 20, 50)
RUNS = (("pstream", {}), ("dalton", {}), ("flexd", {}), ("frontier", {"splitting": True}))


def course(data: Series, name: str, options: dict[str, bool]) -> list[float]:
    """Return lambda of each window; in the first, only a router has one."""
    scores = list(backtest(data, [name], [CHANNELS], {name: options}, forecasts=Forecasts.none))
    first = scores[0].imbalance_learned if name in ROUTERS else np.nan
    return [first - 1, *(score.imbalance - 1 for score in scores)]


def main(windows: int = WINDOWS) -> None:
    shown = [number for number in SHOWN if number <= windows]
    print(f"lambda of windows of {ROWS:,} rows, {KEYS:,} keys, {CHANNELS} channels, and its mean")
    print("and deviation from the second on (Fig. 9)")
    for z in SKEWS:
        print(f"{f'z = {z:g}':20}" + "".join(f"{n:>8}" for n in shown) + f"{'mean':>9}{'std':>8}")
        data = series(z, ROWS, count=windows)
        for name, options in RUNS:
            each = np.array(course(data, name, options))
            cells = "".join("       -" if np.isnan(each[n - 1]) else f"{each[n - 1]:>8.1%}"
                            for n in shown)  # fmt: skip
            label = name + (", splitting" if options else "")
            print(f"{label:20}{cells}{each[1:].mean():>9.1%}{each[1:].std():>8.1%}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
