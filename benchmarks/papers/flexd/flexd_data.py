"""Measure FlexD's load imbalance and replication factor on real data (its Figs. 11 and 13).

The paper's own data cannot be had, and its text gives neither their shares nor the number of
workers. The substitutes are similar in kind and in their order of time, so their shares may drift
as there. They are cut into windows, and all figures are means over the windows after the first:

- reviews of products (Amazon): purchases of products, UCI's Online Retail by StockCode;
- voters by postcode (North Carolina): flights of 2013 by destination. That is more skewed: the
  largest postcode has under 1% of the state, the largest destination 5%;
- words of Wikipedia (WikiText): words of two novels in reading order;
- words of tweets (T4SA), of which the paper says that they are evenly spread: an even stream of as
  many keys as the novels have words.

There are 8, 24 and 96 workers; the cluster had 8 nodes of 12 cores, and one slot each. Numbers of
workers that are over the number of keys are left out. The paper's orderings must show; they stand
below each table. `frontier` has 2 s for a plan.

Flights come with the demo's package. The other files are read from the folder EVENKEEL_DATA, by
default shared/data beside the project; docs/PAPERS.md says how to make them. If a file is missing,
the run says so, and the page keeps its figures.

    python -m benchmarks.papers.flexd.flexd_data [rows]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.data import LACKING, PURCHASES, WORDS, find
from benchmarks.papers.flexd.flexd import series
from evenkeel.backtest.scoring import backtest
from evenkeel.backtest.windows import Series, read_series
from evenkeel.demo.flights import write_flights

CHANNELS, KEYS = (8, 24, 96), 30_000
#: Rows read of each, and the windows that they make.
ROWS, WINDOWS = 250_000, 5
NAMES = ("uniform", "dkg", "frontier", "pkg", "dchoices", "wchoices", "pstream", "dalton", "flexd")
TIMED = {"seconds": 2.0}
RUNS: list[tuple[str, str, dict[str, Any]]] = [
    *((name, name, TIMED if name == "frontier" else {}) for name in NAMES),
    ("frontier, splitting", "frontier", TIMED | {"splitting": True}),
    ("dalton, no cap", "dalton", {"capped": False}),
    ("flexd, running", "flexd", {"running": True}),
]
#: label -> (lambda, replication factor) at each number of channels.
Rows = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Source:
    """A data set of the paper, and its substitute as (file, key column) pairs.

    The first existing file is read. Without any pair the stream is made.
    """

    paper: str
    stands: str
    files: tuple[tuple[str, str], ...]
    told: tuple[str, ...]


SOURCES = (
    Source("Amazon", "purchases by product", PURCHASES,
           ("flexd lowest", "pstream like dalton", "dalton fewer copies")),
    Source("Voters", "flights by destination", (("flights.parquet", "dest"),),
           ("flexd lowest", "flexd like pstream", "flexd fewer copies")),
    Source("WikiText", "words of novels", WORDS,
           ("flexd lowest", "hash over flexd", "dalton over flexd")),
    Source("T4SA", "an even stream", (), ("flexd lowest", "hash as good")),
)  # fmt: skip
#: What the paper says in words, of (lambda, copies) by strategy; alike is within 5 points.
TOLD: dict[str, tuple[str, Callable[[dict[str, tuple[float, float]]], bool]]] = {
    "flexd lowest": (
        "lambda of flexd the lowest of hash, dkg, pstream, dalton",
        lambda x: (
            x["flexd"][0] <= min(x[n][0] for n in ("uniform", "dkg", "pstream", "dalton")) + 5e-4
        ),
    ),
    "pstream like dalton": (
        "lambda of pstream and dalton alike",
        lambda x: abs(x["pstream"][0] - x["dalton"][0]) < 0.05,
    ),
    "flexd like pstream": (
        "lambda of flexd and pstream alike",
        lambda x: abs(x["flexd"][0] - x["pstream"][0]) < 0.05,
    ),
    "dalton fewer copies": (
        "gamma of dalton below pstream's",
        lambda x: x["dalton"][1] < x["pstream"][1],
    ),
    "flexd fewer copies": (
        "gamma of flexd below pstream's",
        lambda x: x["flexd"][1] < x["pstream"][1],
    ),
    "hash over flexd": ("lambda of hash over flexd's", lambda x: x["flexd"][0] < x["uniform"][0]),
    "dalton over flexd": (
        "lambda of dalton over flexd's",
        lambda x: x["flexd"][0] < x["dalton"][0],
    ),
    "hash as good": (
        "lambda of hash within 5 points of flexd's",
        lambda x: x["uniform"][0] - x["flexd"][0] < 0.05,
    ),
}


def read(source: Source, rows: int, folder: Path) -> Series | None:
    """Return so many rows in windows; None if no file exists."""
    if not source.files:
        return series(0.0, rows // WINDOWS, keys=KEYS, count=WINDOWS)
    at = find(source.files, (folder,))
    return at and read_series(str(at[0]), [at[1]], rows=rows // WINDOWS, limit=rows)


def measure(data: Series, counts: Sequence[int]) -> Rows:
    """Return lambda and copies of the windows after the first, at each number of channels."""
    found: Rows = {}
    for label, name, options in RUNS:
        found[label] = []
        for count in counts:
            scores = list(backtest(data, [name], [count], {name: options}))
            found[label].append(
                (
                    float(np.mean([s.imbalance for s in scores])) - 1,
                    float(np.mean([s.copies for s in scores])),
                )
            )
    return found


def orderings(found: Rows, told: tuple[str, ...], counts: Sequence[int]) -> Iterator[str]:
    """List the paper's claims, and the numbers of channels at which each holds here."""
    for name in told:
        what, holds = TOLD[name]
        where = [
            str(count)
            for i, count in enumerate(counts)
            if holds({label: values[i] for label, values in found.items()})
        ]
        yield f"  {what}: " + (f"N = {', '.join(where)}" if where else "nowhere")


def main(rows: int = ROWS) -> int:
    """Print a table for each; return the exit code, `LACKING` if data are missing."""
    lacking = 0
    with tempfile.TemporaryDirectory() as folder:
        write_flights(Path(folder) / "flights.parquet")
        for source in SOURCES:
            data = read(source, rows, Path(folder))
            if data is None:
                names = " or ".join(name for name, _ in source.files)
                print(f"{source.stands} for {source.paper}: EVENKEEL_DATA has no {names}\n")
                lacking = LACKING
                continue
            first = np.mean([w.load.max() / w.load.sum() for w in data.windows])
            cut = f"{len(data.windows)} windows of {data.windows[0].rows:,} rows"
            print(
                f"{source.stands} for {source.paper}: {data.keys:,} keys, "
                f"the first has {first:.1%}; {cut}"
            )
            counts = [count for count in CHANNELS if count <= data.keys]
            print(f"{'':20}" + "".join(f"{f'N = {count}':>18}" for count in counts))
            print(f"{'':20}" + f"{'lambda':>10}{'gamma':>8}" * len(counts))
            found = measure(data, counts)
            for label, values in found.items():
                cells = "".join(f"{a:>10.1%}{b:>8.3f}" for a, b in values)
                print(f"{label:20}{cells}", flush=True)
            print("\n".join(orderings(found, source.told, counts)), end="\n\n")
    return lacking


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
