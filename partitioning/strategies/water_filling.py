"""Least load first, for one key's tuples among its candidates: whole tuples and in the limit.

`Router` drives the algorithms that choose a channel for each tuple. `settled_loads` gives the
shares that such choices come to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function.channels import Channel, capacities_of, check_channels
from partitioning.function.hashing import Hashes, key_hash
from partitioning.workload.profile import Floats, sums_by

Ints = npt.NDArray[np.int64]
#: Tuples that a router takes at once. With 1 it is exact tuple by tuple; more is faster.
BATCH = 1000
#: Rounds in which keys give way to one another. More make no visible difference.
SETTLING_ROUNDS = 20


def fill(levels: Floats, steps: Floats, count: int) -> Ints:
    """Return how many of `count` tuples each candidate gets, int64 (m,).

    Each tuple in turn goes to the lowest candidate, of equal ones the first.

    Parameters
    ----------
    levels : float64 (m,): load over capacity before
    steps : float64 (m,), over 0: what one tuple adds to it
    """
    # A candidate's j-th tuple comes when it stands at level + j step; the `count` lowest come. So
    # do all that begin a largest step or more below the water's surface; the rest are few.
    least = surface(levels, 1 / steps, count) - (steps.max() - steps)
    got = np.floor((least - levels) / steps - 1e-9).clip(min=0).astype(np.int64)
    rest = count - int(got.sum())
    if (steps == steps[0]).all():
        got[np.argsort(levels + got * steps, kind="stable")[:rest]] += 1
        return got
    for _ in range(rest):
        got[np.argmin(levels + got * steps)] += 1
    return got


def pour(levels: Floats, capacities: Floats, load: float) -> Floats:
    """Return the load of each candidate, float64 (m,), if it is poured like water.

    It is `fill` for tuples without size. Levels are load over capacity.
    """
    return np.maximum(surface(levels, capacities, load) - levels, 0) * capacities


def surface(levels: Floats, widths: Floats, volume: float) -> float:
    """Return the height of the water that a volume comes to."""
    order = np.argsort(levels, kind="stable")
    low, wide = levels[order], widths[order]
    heights = (volume + np.cumsum(low * wide)) / np.cumsum(wide)
    covered = max(int(np.count_nonzero(heights > low)), 1)
    return float(heights[covered - 1])


def settled_loads(
    loads: Floats, choices: Sequence[Ints], resting: Floats, capacities: Floats
) -> list[Floats]:
    """Return the load of each key on each of its candidates, if every tuple goes to the lowest.

    It is the limit of many small tuples, in which no key has a lower candidate than those it uses.

    Parameters
    ----------
    loads : float64 (K,): load of each key
    choices : (K,) of int64: the candidates of each
    resting : float64 (N,): load that stays where it is
    capacities : float64 (N,), over 0 for candidates
    """
    width = np.where(capacities > 0, capacities, 1.0)
    levels = resting / width
    shares = [np.zeros(len(c)) for c in choices]
    for _ in range(SETTLING_ROUNDS):
        before = levels.copy()
        for k in np.argsort(-loads, kind="stable").tolist():
            mine = choices[k]
            levels[mine] -= shares[k] / width[mine]
            shares[k] = pour(levels[mine], width[mine], loads[k])
            levels[mine] += shares[k] / width[mine]
        if np.allclose(before, levels, rtol=1e-9):
            break
    return shares


def candidates(hashes: Hashes, count: int, open_: Ints) -> Ints:
    """Return the first `count` choices of each key among the open channels, int64 (K, count).

    Each choice has a hash function of its own, so that two may be the same channel.
    """
    numbers = np.repeat(np.arange(count), len(hashes))
    drawn = key_hash([np.tile(hashes, count), numbers], ["bigint", "bigint"])
    return open_[np.mod(drawn, len(open_))].reshape(count, len(hashes)).T


@dataclass(frozen=True, eq=False)
class Routed:
    """Hold where tuples went: rows and load of each key on each of its channels, all (m,)."""

    key: Ints
    channel: Ints
    rows: Ints
    load: Floats


class Router(ABC):
    """Sends each tuple to a channel, as a stream goes by.

    It takes tuples in batches: in each, the tuples of a key count as coming together, light keys
    before hot ones, keys in the order of their first. With `batch` 1 it is the algorithm tuple by
    tuple; else it is that on the batch so ordered, at the cost of its distinct keys, not its rows.
    Loads count from the beginning of each `route`: one window.

    Parameters
    ----------
    hashes : int64 (K,): the keys that can come, named by their number from 0
    channels : the N owners
    batch : tuples of a batch

    Raises
    ------
    InputError : unusable channels or options
    """

    def __init__(self, hashes: Hashes, channels: Sequence[Channel], *, batch: int = BATCH) -> None:
        check_channels(channels)
        if batch < 1:
            raise InputError(f"{batch} tuples a batch", "batch", "Give at least 1")
        self.hashes = hashes
        self.capacities = capacities_of(channels)
        self.open = np.flatnonzero(self.capacities)
        self.batch = batch
        self.levels: Floats = np.zeros(len(channels))
        self._parts: list[tuple[Ints, Ints, Ints, Floats]] = []

    def begin(self, load: float) -> None:
        """Begin a window with `load` in all: channels are empty."""
        self.levels = np.zeros(len(self.capacities))
        self._parts = []

    def route(self, keys: Ints, load: Floats | None = None) -> Routed:
        """Send tuples, in order: the number of each one's key, int64 (n,), and its load; None: 1.

        A key's tuples within a batch count as equally heavy.
        """
        weights = np.ones(len(keys)) if load is None else load
        self.begin(float(weights.sum()))
        for start in range(0, len(keys), self.batch):
            part = slice(start, start + self.batch)
            self._batch(keys[part], weights[part])
        if not self._parts:
            none = np.empty(0, dtype=np.int64)
            return Routed(none, none, none, np.empty(0))
        key, channel, rows, loads = (np.concatenate(a) for a in zip(*self._parts, strict=True))
        codes, inverse = np.unique(key * len(self.levels) + channel, return_inverse=True)
        key, channel = np.divmod(codes, len(self.levels))
        sums = sums_by(inverse, rows, len(codes)).astype(np.int64)
        return Routed(key, channel, sums, sums_by(inverse, loads, len(codes)))

    def _batch(self, keys: Ints, load: Floats) -> None:
        distinct, first, inverse, rows = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        loads = sums_by(inverse, load, len(distinct))
        hot = self.hot(distinct, loads)
        order = np.lexsort((first, hot))
        light = order[: len(order) - int(hot.sum())]
        self.light(distinct[light], rows[light], loads[light] / rows[light])
        for i in order[len(light) :].tolist():
            self.heavy(int(distinct[i]), int(rows[i]), float(loads[i] / rows[i]))

    def put(self, key: int, at: Ints, rows: Ints, unit: float) -> None:
        """Send `rows` (m,) tuples of a key, each of load `unit`, to channels `at` (m,)."""
        load = np.asarray(rows * unit, dtype=np.float64)
        self.levels[at] += load / self.capacities[at]
        self.note(np.full(len(at), key), at, rows, load)

    def note(self, keys: Ints, at: Ints, rows: Ints, load: Floats) -> None:
        """Write down where tuples went; their load is already in `levels`."""
        sent = rows > 0
        self._parts.append((keys[sent], at[sent], rows[sent], load[sent]))

    def least(self, key: int, at: Ints, rows: int, unit: float) -> None:
        """Send tuples of a key one by one to the least loaded of channels `at` (m,)."""
        self.put(key, at, fill(self.levels[at], unit / self.capacities[at], rows), unit)

    def straight(self, keys: Ints, at: Ints, rows: Ints, units: Floats) -> None:
        """Send the tuples of each key (m,) to its one channel."""
        load = np.asarray(rows * units, dtype=np.float64)
        self.levels += sums_by(at, load / self.capacities[at], len(self.levels))
        self.note(keys, at, rows, load)

    @abstractmethod
    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Take in the load (m,) of a batch's keys (m,), ascending; say which of them are hot."""

    @abstractmethod
    def light(self, keys: Ints, rows: Ints, units: Floats) -> None:
        """Send the light keys (m,), each `rows` tuples of load `units`."""

    @abstractmethod
    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Send `rows` tuples of one hot key, each of load `unit`."""
