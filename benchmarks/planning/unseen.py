r"""Compare planners on windows that no plan has seen, on many streams and several hashes.

Each stream is played window by window. A plan is made from what was known then, and the next window
gives its imbalance (1 is perfect). "moved" is the share of the load that changes channel, a window.
"sum" is both together, and "ms" the CPU time of one plan with its forecast, in milliseconds.

"frontier" is the product's planner with `decay: auto` and no `max_imbalance`, planning in each
window. "last window" and the decays are the same with a fixed decay. "spec none", "spec 0.5" and
"spec auto" are specs that set `decay` alone: they rebalance only if `decide` says so. "reference"
knows each key's load.

A hash decides which keys share a slot, and one hash is not a measurement. So keys are salted
several times. "less" is the paired difference in the sum, frontier less the other, with its
standard error over the hashes. Under 0, frontier is better. The rule, for each rival: below
(frontier's mean is at most the rival's), level (it is higher, by one standard error at most), or
FAILS. `--ours` compares another player with all the others, by the same rule.

Choices, such as the set of decays, were made on half of the sets. The other half is only reported.

    python -m benchmarks.planning.unseen [--hashes 5] [--channels 5,10,20] [--sets flights,zipf]
    python -m benchmarks.planning.unseen --half report --jobs 2 --windows 365
    python -m benchmarks.planning.unseen --half choice --players "spec none,spec 0.5,spec auto" \
        --ours "spec auto"
    python -m benchmarks.planning.unseen --file events.parquet --key user --time at --every 1d
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import product, starmap
from typing import Any

import numpy as np

from benchmarks.planning.unseen_players import LAST, OURS, PLAYERS, REFERENCE, RIVALS, Result
from benchmarks.planning.unseen_sets import SETS, WINDOWS_PLAYED, DataSet
from evenkeel.backtest.arguments import parse_channels
from evenkeel.backtest.windows import Series, read_series, salted
from partitioning.workload.profile import Floats

#: Results of each player, float64 (hashes, 3): imbalance, moved, seconds.
Found = dict[str, Floats]
HALVES = {"choice": True, "report": False}


@lru_cache(maxsize=2)
def _series(data: DataSet, most: int) -> Series:
    return data.series(most)


def play(
    data: DataSet, most: int, players: Sequence[str], count: int, salt: int
) -> list[Result] | str:
    """Play a set with each player, for one number of channels and one salt of the keys.

    A set that cannot be played gives the reason instead.
    """
    try:
        own = salted(_series(data, most), salt)
    except FileNotFoundError:
        return f"{data.name}: left out, EVENKEEL_DATA lacks its file"
    if count > own.keys:
        return f"{data.name}: left out, {count} channels for {own.keys} keys"
    return [PLAYERS[name](own, count) for name in players]


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean over hashes and its standard error; the error of one hash is not known."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def sums(values: Floats) -> Floats:
    """Return imbalance + moved of each hash, (hashes,)."""
    return values[:, 0] + values[:, 1]


def verdict(less: float, error: float) -> str:
    """Return how the rule judges a paired difference in the sum, frontier less a rival."""
    if less <= 0:
        return "below"
    return "level" if less <= error else "FAILS"


def judged(ours: str) -> Sequence[str]:
    """Return the players that `ours` is held to the rule against."""
    return RIVALS if ours == OURS else [name for name in PLAYERS if name != ours]


def lines(name: str, found: Found, ours: str = OURS) -> Iterable[str]:
    """Yield a line for each planner of a set; `ours` is compared with the others."""
    for planner, values in found.items():
        even, even_error = mean_and_error(values[:, 0])
        text = (
            f"{name:30}{planner:13}{even:>8.4f} ±{even_error:<7.4f}{values[:, 1].mean():>7.2%}"
            f"{sums(values).mean():>9.4f}"
        )
        told = f"{'':27}"
        if planner != ours and ours in found:
            less, error = mean_and_error(sums(found[ours]) - sums(values))
            rule = verdict(less, error) if planner in judged(ours) else ""
            told = f"{less:>+10.4f} ±{error:<7.4f} {rule:7}"
        yield f"{text}{told}{1000 * values[:, 2].mean():>7.1f}"
        name = ""


HEADER = (
    f"{'set':30}{'planner':13}{'imbalance':>17}{'moved':>7}{'sum':>9}{'less':>19}"
    f" {'rule':7}{'ms':>7}"
)


def page_row(name: str, found: Found, ours: str = OURS) -> str:
    """Return the row of docs/benchmarks/unseen.md of one set and number of channels.

    It shows the decay that ours is least below. The last cell names each player that
    ours is higher than by more than one standard error.
    """
    own = found[ours]
    less = {
        rival: mean_and_error(sums(own) - sums(found[rival]))
        for rival in judged(ours)
        if rival in found
    }
    decays = [rival for rival in less if rival not in (REFERENCE, LAST)]
    cells = [name, f"{own[:, 0].mean():.4f}, {own[:, 1].mean():.2%}"]
    for rival in (REFERENCE, LAST, max(decays, key=lambda d: less[d][0], default="")):
        mean, error = less.get(rival, (np.nan, np.nan))
        cells.append(f"{mean:+.4f} ±{error:.4f}")
    cells[2] += f", {found[REFERENCE][:, 1].mean():.2%}" if REFERENCE in found else ""
    cells.append(", ".join(r for r, told in less.items() if verdict(*told) == "FAILS"))
    return f"| {' | '.join(cells)} |"


def summary(title: str, every: Sequence[Found], ours: str = OURS) -> Iterable[str]:
    """Yield a line a planner: means over the rows of a half, and how often the rule is kept.

    The error of the mean difference is that over rows, which are other sets.
    """
    yield f"{title}: means over {len(every)} rows"
    for planner in every[0] if every else ():
        rows = [f[planner] for f in every]
        even, moved, seconds = (float(np.mean([r[:, i].mean() for r in rows])) for i in range(3))
        text = (
            f"  {planner:13}{even:>8.4f}{moved:>8.2%}{even + moved:>9.4f}{1000 * seconds:>8.1f} ms"
        )
        if planner in judged(ours) and ours in every[0]:
            told = [mean_and_error(sums(f[ours]) - sums(f[planner])) for f in every]
            counts = dict.fromkeys(("below", "level", "FAILS"), 0)
            for less, error in told:
                counts[verdict(less, error)] += 1
            mean, error = mean_and_error(np.array([less for less, _ in told]))
            spread = f" ±{error:.4f}" if len(told) > 1 else ""
            text += f"  less {mean:+.4f}{spread}: " + ", ".join(
                f"{word} {count}" for word, count in counts.items()
            )
        yield text


def kept(every: Sequence[Found]) -> Iterable[str]:
    """Yield a line a player: on how many rows it would keep the rule, were it the planner.

    Each player is held to the rule against all the others.
    """
    if len(every) and len(every[0]) > 2:
        yield f"Rows of {len(every)} on which each player keeps the rule against all the others:"
        for one in every[0]:
            good = sum(
                all(
                    verdict(*mean_and_error(sums(found[one]) - sums(values))) != "FAILS"
                    for other, values in found.items()
                    if other != one
                )
                for found in every
            )
            yield f"  {one:13}{good:>4}"


def report(sets: Sequence[DataSet], given: argparse.Namespace) -> None:
    """Print a table of each half of the sets, and its summary."""
    both = list[Found]()
    players = given.players.split(",") if given.players else list(PLAYERS)
    channels, salts = parse_channels(given.channels), range(1, given.hashes + 1)
    for half in given.half.split(","):
        tasks = list(product([s for s in sets if s.choice is HALVES[half]], channels))
        runs = ((data, given.windows, players, n, salt) for data, n in tasks for salt in salts)
        results = _played(list(runs), given.jobs)
        title = f"Sets for {half}"
        print(f"\n{title}, {given.hashes} hashes\n{HEADER}")
        every, rows_of_page = [], []
        for data, count in tasks:
            rows = [next(results) for _ in salts]
            if isinstance(rows[0], str):
                print(rows[0])
                continue
            found = {p: np.array([r[i] for r in rows]) for i, p in enumerate(players)}
            every.append(found)
            name = f"{data.name}, N = {count}"
            rows_of_page.append(page_row(f"{name}, {half}", found, given.ours))
            print("\n".join(lines(name, found, given.ours)), flush=True)
        both += every
        print("\n".join([*rows_of_page, *summary(title, every, given.ours)]), flush=True)
    print("\n".join(["", *kept(both)]), flush=True)


def _played(runs: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[list[Result] | str]:
    """Yield the results of each run in order; with several jobs, each in a process of its own."""
    if jobs == 1:
        yield from starmap(play, runs)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(play, *zip(*runs, strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="unseen", description="Compare planners on unseen windows"
    )
    parser.add_argument("--hashes", type=int, default=5, help="how often keys are salted")
    parser.add_argument("--channels", default="5,10,20", help="numbers of channels, as 5,10,20")
    parser.add_argument("--sets", default="", help="parts of names of sets, as flights,zipf")
    parser.add_argument("--half", default="choice,report", help="choice, report, or both")
    parser.add_argument("--windows", type=int, default=WINDOWS_PLAYED, help="most windows of a set")
    parser.add_argument("--players", default="", help="names of planners; default: all")
    parser.add_argument("--ours", default=OURS, choices=PLAYERS, help="whose sums are compared")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
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
    report(sets, given)


if __name__ == "__main__":
    main()
