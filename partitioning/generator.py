"""Made-up streams: exact profiles without Spark, and the recipe of `spark_jobs/generate.py`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function import DEFAULT_SLOTS, KeyColumn
from partitioning.hashing import Hashes, key_hash
from partitioning.profile import Floats, Profile, profile_of_keys

KEY = (KeyColumn("key", "bigint"),)


def zipf(keys: int, z: float) -> Floats:
    """Share of each key, float64 (keys,), most frequent first: the k-th has 1/k^z, sum 1."""
    weights: Floats = np.arange(1, keys + 1, dtype=np.float64) ** -z
    return weights / weights.sum()


def hashed_keys(keys: int, seed: int = 0) -> Hashes:
    """Hashes, int64 (keys,), of as many bigint keys; another seed gives other keys."""
    return key_hash([np.arange(keys, dtype=np.int64) + seed * keys], ["bigint"])


def zipf_profile(
    keys: int,
    z: float,
    *,
    seed: int = 0,
    slots: int = DEFAULT_SLOTS,
    threshold: float = 0.0,
    row_bytes: float | None = None,
) -> Profile:
    """Profile of a Zipf stream whose loads sum to 1.

    Parameters
    ----------
    threshold : keys with at least this share are listed as heavy
    row_bytes : bytes of state of every key; None: as many as the key's load (Gedik's linear state)
    """
    load = zipf(keys, z)
    state = None if row_bytes is None else np.full(keys, row_bytes)
    return profile_of_keys(
        KEY, hashed_keys(keys, seed), load, slots, state=state, threshold=threshold
    )


# Streams of events: windows of days, whose keys' ranks may change from one window to the next.

Ints = npt.NDArray[np.int64]

#: Ranks that are drawn with their exact share; the others by `tail`.
HEAD = 1024
#: The third column of a hash says what it decides: draws of one row are independent.
DRAW, TAIL, HOT, SWAP, CENTRE, SCATTER = range(6)
MOST_KEYS = 2**31  # rank times multiplier must fit int64


@dataclass(frozen=True)
class Stream:
    """Keyed events in windows of days; every field's limits are checked.

    Parameters
    ----------
    rows : events of a window, spread evenly over its days
    keys : distinct keys that can occur: the bigints from 0 to keys - 1
    z : Zipf skew: the key of rank r has a share in proportion to 1/r^z; 0 is uniform
    windows, days : how many windows, and days in each; the first begins on `start`
    churn : share of ranks that swap with another, random one between two windows
    hot : (window, share): from that window (0 is the first) on, this share of all rows goes to
        `hot_key`, on top of the rows it has anyway; all others keep their proportions
    vanish : from this window on, the key that was the heaviest one in the window before has no
        rows; its rows are missing, nobody else gets them

    Raises
    ------
    InputError : a value out of its limits
    """

    rows: int = 1_000_000
    keys: int = 100_000
    z: float = 1.0
    windows: int = 1
    seed: int = 0
    churn: float = 0.0
    hot: tuple[int, float] | None = None
    vanish: int | None = None
    days: int = 7
    start: date = date(2024, 1, 1)

    def __post_init__(self) -> None:
        _check("rows", self.rows, 1, 10**12)
        _check("keys", self.keys, 1, MOST_KEYS)
        _check("z", self.z, 0, 3)
        _check("windows", self.windows, 1, 1000)
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("churn", self.churn, 0, 1)
        _check("days", self.days, 1, 366)
        if self.hot is not None:
            _check("hot window", self.hot[0], 0, self.windows - 1)
            _check("hot share", self.hot[1], 0, 1)
        if self.vanish is not None:
            if self.windows < 2:
                raise InputError("needs a window before it", "vanish", "Ask for more windows")
            _check("vanish", self.vanish, 1, self.windows - 1)

    @property
    def scatter(self) -> tuple[int, int]:
        """(a, b): rank r (from 0) first has the key (a r + b) mod keys; gcd(a, keys) = 1."""
        h = _hash(np.arange(2), self.seed, SCATTER)
        a = int(h[0]) % self.keys or 1
        while math.gcd(a, self.keys) > 1:
            a += 1
        return a, int(h[1]) % self.keys

    @property
    def hot_key(self) -> int:
        """The key that turns hot: the one that is last in the first window."""
        return int(key_of_rank(self, np.array([self.keys - 1]), 0)[0])

    @property
    def vanished_key(self) -> int | None:
        """The key that `vanish` takes away."""
        if self.vanish is None:
            return None
        before = self.vanish - 1
        first = int(key_of_rank(self, np.array([0]), before)[0])
        if self.hot is None or before < self.hot[0]:
            return first
        # The hot key's own share is left out: it matters only in what is nearly a tie.
        share = self.hot[1]
        return self.hot_key if share > (1 - share) * zipf_head(self.keys, self.z)[0] else first


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # NaN fails too
        raise InputError(f"is {value:g}", name, f"It must be from {least:g} to {most:g}")


def _hash(values: npt.ArrayLike, seed: int, purpose: int) -> Hashes:
    """Spark's xxhash64(value, seed, purpose), int64 of the values' shape (n,)."""
    column = np.asarray(values, dtype=np.int64)
    rest = [np.full(len(column), x, dtype=np.int64) for x in (seed, purpose)]
    return key_hash([column, *rest], ["bigint"] * 3)


def key_of_rank(stream: Stream, ranks: Ints, window: int) -> Ints:
    """Key, int64 (n,), that has each rank (from 0, the most frequent) in a window.

    Between two windows each rank r has a partner, c - r mod keys, for a random c; a share `churn`
    of the pairs swap. No state is kept: a hash of (the lesser rank of the pair, c) decides.
    `spark_jobs.generate` has the same as a Spark expression.
    """
    if stream.churn:
        for v in range(window, 0, -1):
            centre = int(_hash([v], stream.seed, CENTRE)[0]) % stream.keys
            partner = (centre - ranks) % stream.keys
            pair = _hash(np.minimum(ranks, partner) + v * MOST_KEYS, stream.seed, SWAP)
            ranks = np.where(unit(pair) < stream.churn, partner, ranks)
    a, b = stream.scatter
    return (ranks * a + b) % stream.keys


def unit(hashes: Hashes) -> Floats:
    """Hashes as float64 in [0, 1), by their upper 53 bits."""
    return (hashes.view(np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True, eq=False)
class Ranks:
    """How to draw a Zipf rank (from 0) from uniform numbers, without rejection.

    The alias method (Walker, 1977; Vose, 1991) draws a cell i of M and keeps it with `keep[i]`,
    else takes `other[i]`. The first `HEAD` cells are ranks, with their exact share; one more, if
    there are more keys, is all ranks beyond, which are drawn by inverting the integral of x^-z
    from r - 1/2 to r + 1/2: the relative error of a rank's share is z (z+1) / 24 r^2, at most
    5e-7.

    keep : float64 (M,); other : int64 (M,)
    """

    keep: Floats
    other: Ints


def tail(keys: int, z: float) -> tuple[float, float, float]:
    """(a, L, p): ranks beyond the head lie between a and a e^L, counting from 1; p = 1 - z, or 0
    where it is as good as 0."""
    a = HEAD + 0.5
    return a, math.log((keys + 0.5) / a), 0.0 if abs(1 - z) < 1e-9 else 1 - z


def zipf_head(keys: int, z: float) -> Floats:
    """Shares of the first `HEAD` ranks and, if there are more keys, of all others together."""
    weights: Floats = np.arange(1, min(keys, HEAD) + 1, dtype=np.float64) ** -z
    if keys > HEAD:
        a, length, p = tail(keys, z)
        rest = a**p * math.expm1(p * length) / p if p else length
        weights = np.append(weights, rest)
    return weights / weights.sum()


def zipf_ranks(keys: int, z: float) -> Ranks:
    """The tables to draw ranks with: at most `HEAD` + 1 cells, however many keys."""
    scaled = zipf_head(keys, z)
    cells = len(scaled)
    scaled = scaled * cells
    keep, other = np.ones(cells), np.arange(cells, dtype=np.int64)
    small = [i for i in range(cells) if scaled[i] < 1]
    large = [i for i in range(cells) if scaled[i] >= 1]
    while small and large:
        i, j = small.pop(), large[-1]
        keep[i], other[i] = scaled[i], j
        scaled[j] -= 1 - scaled[i]
        if scaled[j] < 1:
            small.append(large.pop())
    return Ranks(keep, other)


#: Streams by name. gedik*: the defaults of Gedik 2014, section 5.1: a million keys, z = 1. dkg:
#: Rivetti et al. 2015, section 5.1, Zipf-2, 80,000 tuples to learn from, and as many more. flexd:
#: as `benchmarks.papers.flexd`, at the middle of its skews. Guo and Zhou's shares wander,
#: their ranks do not swap: that stream is in `benchmarks.papers.guo_zhou` alone.
PRESETS: dict[str, Stream] = {
    "small": Stream(rows=100_000, keys=10_000, windows=2),
    "gedik": Stream(rows=10_000_000, keys=1_000_000),
    "gedik-low-skew": Stream(rows=10_000_000, keys=1_000_000, z=0.5),
    "dkg": Stream(rows=80_000, keys=10_000, z=2.0, windows=2),
    "flexd": Stream(rows=500_000, keys=10_000, z=2.0, windows=2),
    "drift": Stream(windows=4, churn=0.1),
    "hot": Stream(windows=4, hot=(2, 0.2)),
    "vanish": Stream(windows=4, vanish=2),
}
