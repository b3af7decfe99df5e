"""Measure Gedik's figures over ranges that `gedik` leaves out (his Table 1, Figs. 5 and 8).

- sigma under LQL (Fig. 5) at z = 0.5, the highest skew at which the paper plots LQL. It does not
  say which skew its Fig. 5 has. At its default, z = 1, b_c is in the 30s for any sigma.
- |D| = 10^7 and 10^8, the end of the paper's range, and N up to 100; the paper shows neither. They
  are at LLL, where `frontier` has one resource; with several it takes minutes a step beyond N = 32.
  N grows one by one from 1 on 10^5 keys.
- alpha over its range from 1 to 4, at LLL, on 10^5 keys; the paper shows only 1.2. At 1 every key
  would be tracked. `frontier` aims at no alpha; only the unit of b changes, and the list of keys.
- LQL over z at every N to 10, on 200,000 keys; the paper leaves out z beyond 0.5. One run.

Figures are means over the hashes of so many runs, and "se" is the standard error of b. 10^8 keys
take half a minute to sum for each hash, so they have few runs.

    python -m benchmarks.papers.gedik_2014.gedik_ranges [--quick]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from benchmarks.papers.gedik_2014.gedik import NAMES, RUNS, TRACKING, Setting, grow
from benchmarks.papers.gedik_2014.gedik_words import error
from partitioning.workload.profile import Floats

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
    few, many, runs = (10**4, 10**4, 2) if quick else (10**5, 10**6, RUNS)
    yield (
        "sigma under LQL, z = 0.5 (Fig. 5): alike, little gained by less, a jump from 0.25 to 0.5",
        [
            (f"{sigma:g}", Setting(many, 0.5, 10, "LQL", sigma), TRACKING, runs, (10,))
            for sigma in ((0.1, 1.0) if quick else (0.02, 0.1, 0.25, 0.5, 1.0))
        ],
    )
    yield (
        "|D| at LLL",
        [
            (f"{keys:,}", Setting(keys, resources="LLL"), NAMES, runs if keys < 10**8 else 3, (10,))
            for keys in ((few,) if quick else (10**7, 10**8))
        ],
    )
    yield (
        f"N up to {20 if quick else 100} at LLL, {few:,} keys",
        [("", Setting(few, channels=20 if quick else 100), NAMES, runs,
          (10, 20) if quick else (32, 64, 100))],
    )  # fmt: skip
    yield (
        f"alpha at LLL, {few:,} keys",
        [
            (f"{alpha:g}", Setting(few, alpha=alpha), (*TRACKING, "frontier"), runs, (10,))
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


def row(each: Floats) -> str:
    """Format the measures of some runs, float64 (runs, measures): means, and the error of b."""
    b, over, b_c, m, explicit, seconds = each.mean(axis=0)
    se = f"{error(each[:, 0]):>7.3f}" if b < EMPTY / RUNS else f"{'':7}"
    cells = [f"{x:>9.3f}" if x < EMPTY / RUNS else f"{'inf':>9}" for x in (b, over, b_c)]
    return (
        f"{len(each):>5}{cells[0]}{se}{cells[1]}{cells[2]}{m:>7.2f}{explicit:>7.0f}{seconds:>8.3f}"
    )


def main(quick: bool = False) -> None:
    with ProcessPoolExecutor(
        int(os.environ.get("PAPERS_PROCESSES") or len(os.sched_getaffinity(0)))
    ) as pool:
        for number, (title, rows) in enumerate(tables(quick)):
            print(f"{chr(10) * bool(number)}{title}")
            print(
                f"{'':23}{'N':>5}{'runs':>5}{'b':>9}{'se':>7}{'max/mean':>9}{'b_c':>9}{'m':>7}"
                f"{'keys':>7}{'CPU s':>8}"
            )
            lines = [(x, setting, name, runs, shown)
                     for x, setting, names, runs, shown in rows for name in names]  # fmt: skip
            found = pool.map(measured, [(name, setting, seed, shown)
                             for _, setting, name, runs, shown in lines
                             for seed in range(runs)])  # fmt: skip
            for x, _, name, runs, shown in lines:
                each = np.array([next(found) for _ in range(runs)])
                for i, count in enumerate(shown):
                    print(f"{x:12}{name:11}{count:>5}{row(each[:, i])}", flush=True)
        over_skew(pool, quick)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
