"""Measure Gedik's figures over ranges that `gedik` leaves out (his Table 1, Figs. 5 and 8).

- sigma under LQL (Fig. 5) at z = 0.5, the highest skew at which the paper plots LQL. It does not
  say which skew its Fig. 5 has. At its default, z = 1, b_c is in the 30s for any sigma.
- |D| (Fig. 8) with averages of 5 runs, as in the paper, for the two sizes that are quick.
- |D| = 10^7, of a range up to 10^8, and N up to 100; the paper shows neither. They are at LLL,
  where `frontier` has one resource; with several it takes minutes a step beyond N = 32. N grows one
  by one from 1 on 10^5 keys.
- alpha over its range from 1 to 4, at LLL, on 10^5 keys, mean of 3 runs; the paper shows only 1.2.
  At 1 every key would be tracked. `frontier` aims at no alpha; only the unit of b changes, and the
  list of keys.
- LQL over z at every N to 10, on 200,000 keys; the paper leaves out z beyond 0.5.

    python -m benchmarks.papers.gedik_2014.gedik_ranges [--quick]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from benchmarks.papers.gedik_2014.gedik import NAMES, TRACKING, Setting, grow

#: (name, setting, seed, numbers of channels shown), where `MEASURES` are told.
Job = tuple[str, Setting, int, tuple[int, ...]]
#: (title, rows (x, setting, strategies, runs, numbers of channels shown))
Table = tuple[str, list[tuple[str, Setting, Sequence[str], int, tuple[int, ...]]]]
MEASURES = ("b", "over", "b_c", "m", "explicit", "seconds")
#: Skews of LQL, measured at every N.
SKEWS, COUNTS = (0.25, 0.4, 0.5, 0.75, 1.0), tuple(range(2, 11))
#: b beyond this means that a channel is empty.
EMPTY = 1e9


def measured(job: Job) -> list[list[float]]:
    """Measure one run at each number of channels shown."""
    name, setting, seed, shown = job
    steps = {step["channels"]: step for step in grow(name, setting, seed)}
    return [[min(float(steps[count][key]), EMPTY) for key in MEASURES] for count in shown]


def tables(quick: bool) -> Iterator[Table]:
    few, many = (10**4, 10**5) if quick else (10**5, 10**6)
    yield (
        "sigma under LQL, z = 0.5 (Fig. 5): alike, little gained by less, a jump from 0.25 to 0.5",
        [
            (
                f"{sigma:g}",
                Setting(few if quick else many, 0.5, 10, "LQL", sigma),
                TRACKING,
                1,
                (10,),
            )
            for sigma in ((0.1, 1.0) if quick else (0.02, 0.1, 0.25, 0.5, 1.0))
        ],
    )
    yield (
        "|D| at LCL, means of 5 runs (Fig. 8): m 6.5 to 7.5, below 1, and 2.2 falling to 1.25",
        [
            (f"{keys:,}", Setting(keys, resources="LCL"), NAMES[:-1], 5, (10,))
            for keys in ((10**4,) if quick else (10**4, 10**5))
        ],
    )
    largest = few if quick else 10**7
    yield (
        f"|D| = {largest:,} at LLL",
        [(f"{largest:,}", Setting(largest, resources="LLL"), NAMES, 1, (10,))],
    )
    yield (
        f"N up to {20 if quick else 100} at LLL, {few:,} keys",
        [("", Setting(few, channels=20 if quick else 100), NAMES, 1,
          (10, 20) if quick else (32, 64, 100))],
    )  # fmt: skip
    yield (
        f"alpha at LLL, {few:,} keys, means of 3 runs",
        [
            (f"{alpha:g}", Setting(few, alpha=alpha), (*TRACKING, "frontier"), 3, (10,))
            for alpha in ((1.05, 4.0) if quick else (1.05, 1.2, 1.5, 2.0, 4.0))
        ],
    )


def over_skew(pool: ProcessPoolExecutor, quick: bool) -> None:
    """Print b at LQL, and the settings in which another than frontier has the least."""
    keys, skews, counts = (20_000, (0.25, 0.5), (2, 3)) if quick else (200_000, SKEWS, COUNTS)
    jobs = [(name, Setting(keys, z, counts[-1], "LQL"), 0, counts) for name in NAMES for z in skews]
    b = np.array(list(pool.map(measured, jobs)))[:, :, 0].reshape(len(NAMES), len(skews), -1)
    print(f"\nb at LQL over z, N = {counts[-1]}, {keys:,} keys")
    print(f"{'':12}" + "".join(f"{f'z = {z:g}':>10}" for z in skews))
    for name, values in zip(NAMES, b, strict=True):
        print(f"{name:12}" + "".join(f"{value:>10.3f}" for value in values[:, -1]))
    ours = NAMES.index("frontier")
    for z, values in zip(skews, b.transpose(1, 2, 0), strict=True):
        best = values.argmin(axis=1)
        behind = [f"{count} ({values[i, ours]:.3f}, {NAMES[best[i]]} {values[i, best[i]]:.3f})"
                  for i, count in enumerate(counts) if best[i] != ours]  # fmt: skip
        print(f"z = {z:g}: frontier is the least, except for N = {', '.join(behind) or 'none'}")


def row(means: Sequence[float]) -> str:
    b, over, b_c, m, explicit, seconds = means
    even = "".join(f"{x:>9.3f}" if x < EMPTY else f"{'inf':>9}" for x in (b, over, b_c))
    return f"{even}{m:>7.2f}{explicit:>7.0f}{seconds:>8.3f}"


def main(quick: bool = False) -> None:
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, (title, rows) in enumerate(tables(quick)):
            print(f"{chr(10) * bool(number)}{title}")
            print(
                f"{'':23}{'N':>5}{'b':>9}{'max/mean':>9}{'b_c':>9}{'m':>7}{'keys':>7}{'CPU s':>8}"
            )
            lines = [(x, setting, name, runs, shown)
                     for x, setting, names, runs, shown in rows for name in names]  # fmt: skip
            found = pool.map(measured, [(name, setting, seed, shown)
                             for _, setting, name, runs, shown in lines
                             for seed in range(runs)])  # fmt: skip
            for x, _, name, runs, shown in lines:
                means = np.mean([next(found) for _ in range(runs)], axis=0)
                for count, values in zip(shown, means, strict=True):
                    print(f"{x:12}{name:11}{count:>5}{row(values)}", flush=True)
        over_skew(pool, quick)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
