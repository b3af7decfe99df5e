"""Measure FlexD's load imbalance and replication factor against skew (its Figs. 7, 9 and 14).

The paper prints curves, no values, and neither its number of workers nor its f. Here 10,000 keys
are on 10 and on 100 channels. A key is hot from a fifth of a channel's fair load, for every
strategy that has such a bound. A second, unseen half of the stream is measured. The orderings must
show; they stand below the tables.

A key with share p of the load gets 1 + log_delta(p / f) channels. At delta = 1.5 that is about 15
for the hottest at z = 2 and 3. This is enough for 10 channels and far too few for 100. There the
paper's order in lambda needs a smaller delta; its order in gamma stands.

frontier is shown with whole keys, and with split ones. On an unseen window, the lambda that a
function leaves is mostly chance. Rows of a split key, and keys of a slot, arrive unevenly (a
channel gets 5,000 rows, give or take 1.4%). Only routing tuple by tuple can correct that. So the
last tables compare the strategies as functions, on the shares that the rows are drawn from.

    python -m benchmarks.papers.flexd.flexd [rows] [channels ...]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from evenkeel.backtest.scoring import backtest
from evenkeel.backtest.windows import Series, Window
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.strategies import STRATEGIES
from partitioning.strategies.frontier.strategy import frontier
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf, zipf_profile
from partitioning.workload.bounds import least_copies
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import HEAVY_SHARE, Profile, profile_of_keys

KEYS, SKEWS, CHANNELS = 10_000, (1.0, 1.5, 2.0, 2.5, 3.0), (10, 100)
DELTAS = (1.05, 1.2, 1.5, 2.0)
NAMES = ("uniform", "dkg", "frontier", "pkg", "dchoices", "wchoices", "pstream", "dalton", "flexd")
#: Those that frontier is to be compared with where keys are split.
RIVALS = ("pkg", "dchoices", "wchoices", "pstream", "dalton", "flexd")
OURS = "frontier, splitting"
#: Other readings: Dalton as its paper's text has it, FlexD with counts that run.
VARIANTS: list[tuple[str, str, dict[str, Any]]] = [
    ("dalton, no cap", "dalton", {"capped": False}),
    ("flexd, running", "flexd", {"running": True}),
]
#: Rows learned and rows measured, so that chance is small.
MANY = 100_000_000
#: label -> {z: (lambda, replication factor)}
Rows = dict[str, dict[float, tuple[float, float]]]


def series(z: float, rows: int, seed: int = 0, keys: int = KEYS, count: int = 2) -> Series:
    """Return windows of a Zipf stream."""
    hashes = np.sort(hashed_keys(keys, seed))
    windows = []
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        drawn = rng.choice(keys, rows, p=zipf(keys, z))
        present, stream, load = np.unique(drawn, return_inverse=True, return_counts=True)
        windows.append(Window(str(number), hashes[present], load.astype(float), rows, stream, None))
    return Series(KEY, hashes, tuple(windows), ())


def measure(count: int, rows: int) -> Rows:
    found: Rows = {}
    for z in SKEWS:
        data = series(z, rows)
        runs: list[tuple[str, str, dict[str, Any]]] = [(name, name, {}) for name in NAMES]
        runs.append((OURS, "frontier", {"splitting": True}))
        runs += VARIANTS
        runs += [(f"flexd, delta {d:g}", "flexd", {"delta": d}) for d in DELTAS if d != 1.5]
        for label, name, options in runs:
            (score,) = backtest(data, [name], [count], {name: options})
            found.setdefault(label, {})[z] = (score.imbalance - 1, score.copies)
    return found


def table(found: Rows) -> None:
    print(f"{'':20}" + "".join(f"{f'z = {z:g}':>18}" for z in SKEWS))
    print(f"{'':20}" + f"{'lambda':>10}{'gamma':>8}" * len(SKEWS))
    for label, values in found.items():
        cells = "".join(f"{values[z][0]:>10.1%}{values[z][1]:>8.3f}" for z in SKEWS)
        print(f"{label:20}{cells}")


def orderings(found: Rows) -> None:
    """Print the paper's claims about its figures, and the skews at which each holds here."""

    def holds(what: str, true: list[bool]) -> None:
        where = ", ".join(f"{z:g}" for z, ok in zip(SKEWS, true, strict=True) if ok)
        print(f"  {what}: z = {where}" if where else f"  {what}: nowhere")

    flexd = found["flexd"]
    for other in ("pstream", "dalton"):
        for i, name in enumerate(("lambda", "gamma")):
            below = [flexd[z][i] < found[other][z][i] for z in SKEWS]
            holds(f"{name} of flexd below {other}'s", below)
    steps = [found[f"flexd, delta {d:g}"] if d != 1.5 else flexd for d in DELTAS]
    for i, (name, sign) in enumerate((("lambda grows", 1), ("gamma falls", -1))):
        holds(
            f"{name} with delta",
            [bool((np.diff([sign * s[z][i] for s in steps]) >= -1e-3).all()) for z in SKEWS],
        )


def reached(function: PartitioningFunction, profile: Profile) -> tuple[float, int]:
    """Return lambda, and the number of channels that keys have beyond one each."""
    even = imbalance(channel_loads(function, profile), function.capacities)
    return even - 1, len(function.split.channels) - len(function.split)


def within(profile: Profile, count: int, most: int) -> tuple[float, int]:
    """Return what frontier reaches with at most `most` channels beyond one a key.

    It halves the limit of one key, from where frontier needs no limit.
    """
    channels, low, high = numbered_channels(count), 1, count
    best = reached(frontier(profile, None, channels), profile)
    while high - low > 1:
        limit = (low + high) // 2
        function = frontier(profile, None, channels, splitting=True, copies=limit)
        found = reached(function, profile)
        low, high = (limit, high) if found[1] <= most else (low, limit)
        best = found if found[1] <= most else best
    return best


def chance(z: float, count: int, rows: int, name: str = OURS, seed: int = 0) -> float:
    """Draw lambda of a window of so many rows for a function learned from another window.

    A row goes to a channel with that channel's share of the load, so that rows by channel are
    drawn as one.
    """
    rng, shares, hashes = np.random.default_rng(seed), zipf(KEYS, z), hashed_keys(KEYS)
    came = rng.multinomial(rows, shares).astype(float)
    least = HEAVY_SHARE / count * rows
    learned = profile_of_keys(KEY, hashes, came, 4096, threshold=least)
    channels = numbered_channels(count)
    if name == OURS:
        function = frontier(learned, None, channels, splitting=True)
    else:
        function = STRATEGIES[name](learned, None, channels)
    every = profile_of_keys(KEY, hashes, shares, 4096, threshold=0.0)
    loads = channel_loads(function, every)
    return float(rng.multinomial(rows, loads / loads.sum()).max() * count / rows - 1)


def even_rows(count: int, rows: int, draws: int = 100) -> float:
    """Return the mean lambda of rows that go to each channel with the same chance."""
    drawn = np.random.default_rng(0).multinomial(rows, np.full(count, 1 / count), size=draws)
    return float(drawn.max(axis=1).mean() * count / rows - 1)


def as_functions(count: int) -> Rows:
    """Return lambda and copies of each strategy on the shares themselves.

    Also return the rows of frontier with the copies of another strategy, if that has fewer than
    lambda under 0.5% needs, and the least copies.
    """
    found: Rows = {}
    for z in SKEWS:
        profile = zipf_profile(KEYS, z, threshold=HEAVY_SHARE / count)
        channels = numbered_channels(count)
        for name in RIVALS:
            found.setdefault(name, {})[z] = reached(
                STRATEGIES[name](profile, None, channels), profile
            )
        ours = reached(frontier(profile, None, channels, splitting=True), profile)
        found.setdefault(OURS, {})[z] = ours
        least = least_copies(profile, channels, 1.005)
        for name in RIVALS:
            most = int(found[name][z][1])
            fewer = within(profile, count, most) if most < least else (np.nan, 0)
            found.setdefault(f" with {name}'s", {})[z] = fewer
        found.setdefault("least for it", {})[z] = (
            np.nan,
            least_copies(profile, channels, 1 + ours[0]),
        )
    return {label: row for label, row in found.items() if any(copies for _, copies in row.values())}


def shares_table(found: Rows) -> None:
    """Print the table of shares; copies are whole numbers, and other entries are left out."""
    print(f"{'':20}" + "".join(f"{f'z = {z:g}':>18}" for z in SKEWS))
    print(f"{'':20}" + f"{'lambda':>10}{'copies':>8}" * len(SKEWS))
    for label, values in found.items():
        cells = "".join(
            f"{'' if np.isnan(lam) else f'{lam:.2%}':>10}{copies or '':>8}"
            for lam, copies in (values[z] for z in SKEWS)
        )
        print(f"{label:20}{cells}".rstrip())


def main(rows: int = 500_000, *given: int) -> None:
    counts = given or CHANNELS
    for count in counts:
        print(f"{KEYS:,} keys, {count} channels, {rows:,} rows learned, {rows:,} measured")
        found = measure(count, rows)
        table(found)
        orderings(found)
        even = f"{even_rows(count, rows):.1%}"
        print(f"  lambda of rows that go anywhere with the same chance: {even}")
        print()
    for count in counts:
        print(
            f"{KEYS:,} keys, {count} channels, by their shares; copies: channels beyond one a key"
        )
        shares_table(as_functions(count))
        print(f"learned from {MANY:,} rows, measured on as many more")
        for name in (*RIVALS, OURS):
            cells = "".join(f"{chance(z, count, MANY, name):>10.2%}{'':8}" for z in SKEWS)
            print(f"{name:20}{cells}".rstrip())
        print()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
