"""FlexD's load imbalance and replication factor against skew (its Figs. 7, 9 and 14).

The paper prints curves, no values, and neither its number of workers nor its f: here 10,000 keys
on 10 and on 100 channels, a key hot from a fifth of a channel's fair load for every strategy that
has such a bound, and a second, unseen half of the stream to measure on. What must show are the
orderings, which are told below the tables.

A key with a share p of the load gets 1 + log_delta(p / f) channels: at delta = 1.5 about 15 for
the hottest at z = 2 and 3, enough for 10 channels and far too few for 100. There the paper's order
in lambda needs a smaller delta; its order in gamma stands.

    python -m benchmarks.papers.flexd [rows]
"""

from __future__ import annotations

import sys

import numpy as np

from evenkeel.backtest import backtest
from evenkeel.windows import Series, Window
from partitioning.generator import KEY, hashed_keys, zipf

KEYS, SKEWS, CHANNELS = 10_000, (1.0, 1.5, 2.0, 2.5, 3.0), (10, 100)
DELTAS = (1.05, 1.2, 1.5, 2.0)
NAMES = ("uniform", "dkg", "frontier", "pkg", "dchoices", "wchoices", "pstream", "dalton", "flexd")
#: label -> {z: (lambda, replication factor)}
Rows = dict[str, dict[float, tuple[float, float]]]


def series(z: float, rows: int, seed: int = 0) -> Series:
    """Two windows of a Zipf stream."""
    hashes = np.sort(hashed_keys(KEYS, seed))
    windows = []
    for number in range(2):
        rng = np.random.default_rng((seed, number))
        keys = rng.choice(KEYS, rows, p=zipf(KEYS, z))
        present, stream, load = np.unique(keys, return_inverse=True, return_counts=True)
        windows.append(Window(str(number), hashes[present], load.astype(float), rows, stream, None))
    return Series(KEY, hashes, tuple(windows), ())


def measure(count: int, rows: int) -> Rows:
    found: Rows = {}
    for z in SKEWS:
        data = series(z, rows)
        runs = [(name, name, {}) for name in NAMES]
        runs += [(f"flexd, delta {d:g}", "flexd", {"delta": d}) for d in DELTAS if d != 1.5]
        for label, name, options in runs:
            (score,) = backtest(data, [name], [count], {name: options})
            found.setdefault(label, {})[z] = (score.imbalance - 1, score.copies)
    return found


def table(found: Rows) -> None:
    print(f"{'':18}" + "".join(f"{f'z = {z:g}':>18}" for z in SKEWS))
    print(f"{'':18}" + f"{'lambda':>10}{'gamma':>8}" * len(SKEWS))
    for label, values in found.items():
        cells = "".join(f"{values[z][0]:>10.1%}{values[z][1]:>8.3f}" for z in SKEWS)
        print(f"{label:18}{cells}")


def orderings(found: Rows) -> None:
    """What the paper says of its figures, and at which skews it holds here."""

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


def main(rows: int = 500_000) -> None:
    for count in CHANNELS:
        print(f"{KEYS:,} keys, {count} channels, {rows:,} rows learned, {rows:,} measured")
        found = measure(count, rows)
        table(found)
        orderings(found)
        print()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
