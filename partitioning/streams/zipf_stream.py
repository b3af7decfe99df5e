"""Made-up streams: exact profiles and rows, without Spark.

`evenkeel_spark.jobs.generate` writes the same rows with Spark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function.function import DEFAULT_SLOTS
from partitioning.function.hashing import Hashes, KeyColumn, key_hash
from partitioning.streams.alias_table import HEAD_RANKS, Alias, Ints, alias, tail_ranks, zipf_head
from partitioning.workload.profile import Floats, Profile, profile_of_keys

KEY = (KeyColumn("key", "bigint"),)


def zipf(keys: int, z: float) -> Floats:
    """Return the share of each key, float64 (keys,), in order: the k-th has 1/k^z, sum 1."""
    weights: Floats = np.arange(1, keys + 1, dtype=np.float64) ** -z
    return weights / weights.sum()


def hashed_keys(keys: int, seed: int = 0) -> Hashes:
    """Return hashes of bigint keys, int64 (keys,); another seed gives other keys."""
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
    """Return the profile of a Zipf stream whose loads sum to 1.

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

#: The third column of a hash says what it decides: draws of one row are independent.
DRAW, TAIL, HOT, SWAP, CENTRE, SCATTER, WANDER = range(7)
MAX_STREAM_KEYS = 2**31  # rank times multiplier must fit int64
MAX_SHARES = 2**17  # keys times windows, each a number in Spark's plan


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
    wander : (sigma, phi): shares wander from window to window. The share of rank r in window w is
        in proportion to exp(d)/r^z. In the first window d is 0. In each later one it is phi times
        its last value plus sigma times a standard normal number, for each rank (AR(1)). At most
        1,024 keys
    hot : (window, share): from that window on (0 is the first), this share of all rows goes to
        `hot_key`, beside the rows it has anyway. All others keep their proportions
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
    wander: tuple[float, float] | None = None
    hot: tuple[int, float] | None = None
    vanish: int | None = None
    days: int = 7
    start: date = date(2024, 1, 1)

    def __post_init__(self) -> None:
        _check("rows", self.rows, 1, 10**12)
        _check("keys", self.keys, 1, MAX_STREAM_KEYS)
        _check("z", self.z, 0, 3)
        _check("windows", self.windows, 1, 1000)
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("churn", self.churn, 0, 1)
        _check("days", self.days, 1, 366)
        if self.wander is not None:
            _check("wander's sigma", self.wander[0], 0, 3)
            _check("wander's phi", self.wander[1], 0, 1)
            _check("keys, which wander,", self.keys, 1, HEAD_RANKS)
            _check("keys times windows", self.keys * self.windows, 1, MAX_SHARES)
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
        shares = (
            rank_shares(self)[before] if self.wander else zipf_head(self.keys, self.z)[:HEAD_RANKS]
        )
        heaviest = int(shares.argmax())
        first = int(key_of_rank(self, np.array([heaviest]), before)[0])
        if self.hot is None or before < self.hot[0]:
            return first
        # The hot key's own share is left out: it matters only in what is nearly a tie.
        share = self.hot[1]
        return self.hot_key if share > (1 - share) * shares[heaviest] else first


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # NaN fails too
        raise InputError(f"is {value:g}", name, f"It must be from {least:g} to {most:g}")


def _hash(values: npt.ArrayLike, seed: int, purpose: int) -> Hashes:
    """Hash as Spark's xxhash64(value, seed, purpose) does: int64 (n,)."""
    column = np.asarray(values, dtype=np.int64)
    rest = [np.full(len(column), x, dtype=np.int64) for x in (seed, purpose)]
    return key_hash([column, *rest], ["bigint"] * 3)


def key_of_rank(stream: Stream, ranks: Ints, window: int) -> Ints:
    """Return the key of each rank (from 0, the most frequent) in a window, int64 (n,).

    Between two windows each rank r has a partner, c - r mod keys, for a random c; a share `churn`
    of the pairs swap. No state is kept: a hash of (the lesser rank of the pair, c) decides.
    `evenkeel_spark.jobs.generate` has the same as a Spark expression.
    """
    if stream.churn:
        for v in range(window, 0, -1):
            centre = int(_hash([v], stream.seed, CENTRE)[0]) % stream.keys
            partner = (centre - ranks) % stream.keys
            pair = _hash(np.minimum(ranks, partner) + v * MAX_STREAM_KEYS, stream.seed, SWAP)
            ranks = np.where(unit(pair) < stream.churn, partner, ranks)
    a, b = stream.scatter
    return (ranks * a + b) % stream.keys


def unit(hashes: Hashes) -> Floats:
    """Turn hashes into float64 in [0, 1), by their upper 53 bits."""
    return (hashes.view(np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def rank_shares(stream: Stream) -> Floats:
    """Return the share of each rank in each window, float64 (windows, keys), sum 1 a window.

    Before `hot` and `vanish`, and of ranks: `key_of_rank` has their keys. MemoryError where keys
    times windows do not fit.
    """
    shares = np.tile(zipf(stream.keys, stream.z), (stream.windows, 1))
    if stream.wander is None:
        return shares
    sigma, phi = stream.wander
    drift = np.zeros(stream.keys)
    for v in range(1, stream.windows):
        drift = phi * drift + sigma * _normal(
            np.arange(stream.keys) + v * MAX_STREAM_KEYS, stream.seed
        )
        shares[v] *= np.exp(drift - drift.max())  # a walk of many windows may go far
    return shares / shares.sum(axis=1, keepdims=True)


def _normal(values: Ints, seed: int) -> Floats:
    """Return a standard normal number, float64 (n,), for each of some numbers."""
    inverse = NormalDist().inv_cdf
    uniform = np.maximum(unit(_hash(values, seed, WANDER)), 2.0**-54)  # 0 has no inverse
    return np.fromiter(map(inverse, uniform.tolist()), dtype=np.float64, count=len(values))


@lru_cache(maxsize=4)  # windows are asked for one by one
def tables(stream: Stream) -> tuple[Alias, ...]:
    """Return the table to draw ranks from in each window; one for all if shares do not wander."""
    if stream.wander is None:
        return (alias(zipf_head(stream.keys, stream.z)),)
    return tuple(alias(shares) for shares in rank_shares(stream))


def keys_of_window(stream: Stream, window: int) -> Ints:
    """Return the keys of a window's rows in order, int64 (n,), as Spark generates them.

    n is `rows`, without the rows of a vanished key. Up to `HEAD_RANKS` keys the result equals
    that of `evenkeel_spark.jobs.generate` bit for bit. Beyond that, logarithm and exp may round the
    last bit differently, and a few rows may be one rank off.
    """
    ids = np.arange(stream.rows, dtype=np.int64) + window * stream.rows

    def uniform(purpose: int) -> Floats:
        return unit(_hash(ids, stream.seed, purpose))

    drawn = tables(stream)[window if stream.wander else 0].draw(uniform(DRAW))
    beyond = drawn >= HEAD_RANKS
    if beyond.any():
        drawn[beyond] = tail_ranks(stream.keys, stream.z, uniform(TAIL)[beyond])
    keys = key_of_rank(stream, drawn, window)
    if stream.hot is not None and window >= stream.hot[0]:
        keys = np.where(uniform(HOT) < stream.hot[1], stream.hot_key, keys)
    if stream.vanish is not None and window >= stream.vanish:
        keys = keys[keys != stream.vanished_key]
    return keys


#: Streams by name. gedik*: the defaults of Gedik 2014, section 5.1: a million keys, z = 1. dkg:
#: Rivetti et al. 2015, section 5.1, Zipf-2, 80,000 tuples to learn from, and as many more; -trace
#: stands in for its DEBS trace: the first of 8,504 cells has a fifth. flexd: as
#: `benchmarks.papers.flexd.flexd`, at the middle of its skews. guo-zhou:
#: `benchmarks.papers.guo_zhou` says which of its numbers are the paper's; a minute there is a day
#: here; -synthetic: its stream by a Zipf law, as `benchmarks.papers.rivetti.gauss_zipf`.
PRESETS: dict[str, Stream] = {
    "small": Stream(rows=100_000, keys=10_000, windows=2),
    "gedik": Stream(rows=10_000_000, keys=1_000_000),
    "gedik-low-skew": Stream(rows=10_000_000, keys=1_000_000, z=0.5),
    "dkg": Stream(rows=80_000, keys=10_000, z=2.0, windows=2),
    "dkg-trace": Stream(rows=400_000, keys=8_504, z=1.1838, windows=2),
    "flexd": Stream(rows=500_000, keys=10_000, z=2.0, windows=2),
    "guo-zhou": Stream(rows=6_100, keys=100, z=0.5, windows=120, wander=(0.85, 0.5), days=1),
    "guo-zhou-synthetic": Stream(rows=600_000, keys=100, z=0.5, windows=120, days=1),
    "drift": Stream(windows=4, churn=0.1),
    "hot": Stream(windows=4, hot=(2, 0.2)),
    "vanish": Stream(windows=4, vanish=2),
}
