"""Put the words of Gedik's paper on its figures beside the rows of our tables.

Its curves are not printed as numbers. A statement on one row stands in that row; a statement on
several rows stands below the tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from partitioning.strategies.published.gedik.resources import delta
from partitioning.streams.zipf_stream import zipf
from partitioning.workload.profile import Floats

#: A row by (figure, x, strategy); without the strategy by (figure, x).
Row = tuple[str, str]


def error(values: Floats) -> float:
    """Return the standard error of the mean; NaN for one run."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def ratio(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """Return by how much one mean is over another, and the standard error, run by run paired."""
    runs = min(len(ours), len(theirs))
    ours, theirs = ours[:runs], theirs[:runs]
    mean = float(ours.mean() / theirs.mean())
    return mean - 1, error(ours - mean * theirs) / float(theirs.mean())


class Rows(dict[tuple[str, str, str], dict[str, Floats]]):
    """A table's rows: each measure of each run; their ratios, and means along an axis."""

    def over(self, name: str, other: str, *rows: Row, measure: str = "b") -> str:
        """Return by how much one strategy's mean is over that of the other."""
        pairs = ((self[*row, name][measure], self[*row, other][measure]) for row in rows)
        return ", ".join(_signed(*ratio(ours, theirs)) for ours, theirs in pairs)

    def beside(self, name: str, row: Row, *others: Row, measure: str = "m") -> str:
        """Return by how much a row's mean is over that of other rows, of one strategy."""
        ours = self[*row, name][measure]
        return ", ".join(_signed(*ratio(ours, self[*each, name][measure])) for each in others)

    def along(self, name: str, measure: str, *rows: Row) -> str:
        form = ",.0f" if measure == "explicit" else ".2f"
        return f"{name:7}" + ", ".join(f"{self[*row, name][measure].mean():{form}}" for row in rows)

    def growth(self, name: str, *rows: Row) -> str:
        """Return the ratio of CPU seconds of each row over the row before."""
        seconds = [self[*row, name]["seconds"].mean() for row in rows]
        each = (f"x {b / a:.1f}" for a, b in itertools.pairwise(seconds))
        return f"{name:7}" + ", ".join(each)


def _signed(value: float, error: float) -> str:
    return f"{value:+.1%} ± {error:.1%}"


#: What the paper says in words (its curves are not printed as numbers), by (figure, x, strategy).
PUBLISHED = {
    ("resources", "LLL", "uniform"): "b 1.55, m over 8",
    ("resources", "LLL", "consistent"): "b 1.75, m below 1",
    ("resources", "LLL", "scan"): "b 1.32, m 1.23",
    ("resources", "LLL", "redist"): "b 1.32, m 1.23",
    ("resources", "LLL", "readj"): "b 1.2, m 1.34",
    ("resources", "LCL", "scan"): "about 50 keys, under 0.05 s",
    ("resources", "LCL", "redist"): "about 50 keys, under 0.05 s",
    ("resources", "LCL", "readj"): "about 50 keys, under 0.05 s",
    ("resources", "LQL", "consistent"): "b_c worst of all",
    **{("resources", "LQL", n): "b_c in 30s" for n in ("uniform", "scan", "redist", "readj")},
    ("utility", "LCL A", "readj"): "m worst of five; b alike",
    ("utility", "LLL A", "readj"): "m worst of five; b alike",
    ("utility", "LQL A", "readj"): "m worst of five",
    ("utility", "LCL APLM", "readj"): "m least of five",
    ("utility", "LLL APM", "readj"): "m least of five",
    ("utility", "LQL APM", "readj"): "m and b least of five",
    ("utility", "LQL APM", "redist"): "b to 3 times lower than A, ATM, ATLM",
    **{("utility", f"{r} APLM", "redist"): "m 30-35% over APM" for r in ("LCL", "LLL", "LQL")},
    **{
        ("utility", f"{r} {u}", "redist"): "m 35-40% under APM"
        for r in ("LCL", "LLL", "LQL")
        for u in ("ATM", "ATLM")
    },
    ("channels", "32", "uniform"): "m about 22",
    ("channels", "32", "consistent"): "b over 2",
    ("channels", "32", "scan"): "m over 3",
    ("channels", "32", "redist"): "m about 1.15",
    ("threshold", "0.008", "readj"): "about 10 s",
    ("threshold", "0.008", "redist"): "over 0.5 s",
    ("domain", "10,000", "uniform"): "m 6.5 to 7.5 over all |D|",
    ("domain", "10,000", "consistent"): "m below 1",
    ("domain", "10,000", "scan"): "m 1.25 to 2.2 over all |D|",
}
LLL, LCL, LQL, CCL = (("resources", r) for r in ("LLL", "LCL", "LQL", "CCL"))
LESS = ("skew", "LLL 0.8")
SQUARES = (("skew", "LQL 0.25"), ("skew", "LQL 0.4"), ("resources", "LQL, z = 0.5"))
SKEWS = (("skew", "LCL 0.4"), ("skew", "LCL 0.8"), LCL)
COUNTS = (("channels", "5"), LCL, ("channels", "20"), ("channels", "32"))
DOMAINS = (("domain", "10,000"), ("domain", "100,000"), LCL)
SIGMAS = (*(("threshold", x) for x in ("1", "0.3")), LCL,
          *(("threshold", x) for x in ("0.03", "0.008")))  # fmt: skip


def tracked(sigma: float = 0.1, z: float = 1.0, part: float = 1.0) -> int:
    """Count keys of the default stream whose share is at least this part of delta (Eq. 17)."""
    return int(np.count_nonzero(zipf(10**6, z) >= part * delta(1.2, sigma, 10, "LLL", 10**6)))


def told(at: Rows) -> Iterator[tuple[str, str, str]]:
    """Return (figure, what the paper says in words, the same of our rows)."""
    yield from _of_balance(at)
    yield from _of_migration(at)
    yield from _of_size(at)
    yield from _of_time(at)


def _of_balance(at: Rows) -> Iterator[tuple[str, str, str]]:
    yield "3", "b, LLL: readj under scan, 1.2 and 1.32", at.over("readj", "scan", LLL)
    yield "3", "b, CCL, LCL, LQL: readj the lowest", at.over("readj", "scan", CCL, LCL, LQL)
    yield "4", "b, LLL, z = 1: consistent up to 50% over readj", at.over("consistent", "readj", LLL)
    yield "4", "b, LLL, z = 0.8: readj up to 8% under scan", at.over("readj", "scan", LESS)
    yield (
        "4",
        "b, LQL, z = 0.25, 0.4, 0.5: readj 1-2% over scan,",
        at.over("readj", "scan", *SQUARES),
    )
    yield "5", "b, LCL, sigma = 1, 0.3, 0.1, 0.03, 0.008: alike;", at.over("readj", "scan", *SIGMAS)
    yield "", "  redist over scan", at.over("redist", "scan", *SIGMAS)
    yield (
        "6",
        "b, N = 5, 10, 20: readj best, uniform to 36% over it;",
        at.over("readj", "scan", *COUNTS[:3]),
    )
    yield "", "  uniform over readj", at.over("uniform", "readj", *COUNTS[:3])
    yield "", "  N = 32: readj over scan", at.over("readj", "scan", COUNTS[3])
    yield (
        "7a",
        "b, readj, LQL: APM least; over A, APLM, ATM, ATLM",
        at.beside("readj", *_utilities("LQL"), measure="b"),
    )
    yield (
        "7b",
        "b, redist, LQL: APM to 3 times lower than the same",
        at.beside("redist", *_utilities("LQL"), measure="b"),
    )
    yield (
        "8",
        "b, |D| = 10^4, 10^5, 10^6: redist 0-3% over readj",
        at.over("redist", "readj", *DOMAINS),
    )


def _of_migration(at: Rows) -> Iterator[tuple[str, str, str]]:
    yield "4", "m, LCL, z = 0.4, 0.8, 1: up after 0.8; scan worst,", at.along("scan", "m", *SKEWS)
    yield "", "  then readj,", at.along("readj", "m", *SKEWS)
    yield "", "  then redist", at.along("redist", "m", *SKEWS)
    yield (
        "",
        "  z = 1: scan over readj, scan over redist",
        ", ".join(at.over("scan", other, LCL, measure="m") for other in ("readj", "redist")),
    )
    yield (
        "5",
        "m, sigma as above: redist best, scan worst;",
        at.over("scan", "redist", *SIGMAS, measure="m"),
    )
    yield "", "  readj over redist", at.over("readj", "redist", *SIGMAS, measure="m")
    for resources in ("LCL", "LLL", "LQL"):
        yield (
            "7a",
            f"m, readj, {resources}: APM over A, APLM, ATM, ATLM",
            at.beside("readj", *_utilities(resources)),
        )
    for resources in ("LCL", "LLL", "LQL"):
        yield "7b", f"m, redist, {resources}: the same", at.beside("redist", *_utilities(resources))
    yield "8", "m, |D| = 10^4, 10^5, 10^6: redist best,", at.along("redist", "m", *DOMAINS)
    yield "", "  scan worst", at.along("scan", "m", *DOMAINS)
    yield "", "", at.along("readj", "m", *DOMAINS)


def _utilities(resources: str) -> tuple[Row, ...]:
    """Return the rows of APM, and of the other utilities."""
    return tuple(("utility", f"{resources} {name}") for name in ("APM", "A", "APLM", "ATM", "ATLM"))


def _of_size(at: Rows) -> Iterator[tuple[str, str, str]]:
    yield (
        "9",
        "keys, sigma = 1, 0.3, 0.1, 0.03, 0.008: 1 to 500",
        at.along("scan", "explicit", *SIGMAS),
    )
    each = [tracked(sigma) for sigma in (1.0, 0.3, 0.1, 0.03, 0.008)]
    yield "", "  keys of at least delta (Eq. 17)", f"{'':7}" + ", ".join(map(str, each))
    yield "9", "keys, LCL, LLL, LQL: about 50, alike", at.along("scan", "explicit", LCL, LLL, LQL)
    most = tracked(part=0.9)
    yield "", "  keys of at least delta - epsilon (0.1 of it)", f"{'':7}{most}"
    yield (
        "10",
        "keys, LCL, z = 0.4, 0.8, 1: faster than linear",
        at.along("scan", "explicit", *SKEWS),
    )
    yield "11", "keys, N = 5, 10, 20, 32: linear", at.along("scan", "explicit", *COUNTS)


def _of_time(at: Rows) -> Iterator[tuple[str, str, str]]:
    yield "13", "CPU, the same: faster than linear; scan least,", at.growth("scan", *COUNTS)
    yield "", "  redist,", at.growth("redist", *COUNTS)
    yield "", "  readj faster", at.growth("readj", *COUNTS)
    parts = (
        at[*row, "consistent"]["seconds"].mean() / at[*row, "scan"]["seconds"].mean()
        for row in COUNTS
    )
    shares = ", ".join(f"{x:.0%}" for x in parts)
    yield "", "  the ring takes about half of scan's", f"{'':7}{shares}"
    yield "14", "CPU, LCL, z = 0.4, 0.8, 1: scan flat;", at.growth("scan", *SKEWS)
    yield "", "  redist flat to 0.8, then up,", at.growth("redist", *SKEWS)
    yield "", "  readj as well, and faster", at.growth("readj", *SKEWS)
