"""Tuple routers of FlexD, PStream and Dalton; `flexd` says where they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partitioning.function.channels import Channel
from partitioning.function.function import DEFAULT_SLOTS
from partitioning.function.hashing import Hashes, slot_of
from partitioning.strategies.hashing import in_turn
from partitioning.strategies.published.flexd import (
    DELTA,
    EXPLORE,
    HOT_SHARE,
    MAX_COPIES,
    check_thresholds,
)
from partitioning.strategies.water_filling import BATCH, Ints, Routed, Router
from partitioning.workload.profile import Floats, sums_by
from partitioning.workload.sketches import SpaceSaving

#: PStream's coins show heads this often, and a key is hot from this count.
HEADS, CERTAIN = 2.0**-5, 2
#: Dalton: weight of a new reward, value of what was never tried.
LEARN, UNTRIED = 0.1, -2.0
#: Dalton: copies that a key may have at first; the share of hot keys that must have as many before
#: one more is allowed. Both are its authors' (State.java).
FIRST_COPIES, CAPPED_SHARE = 2, 0.7
#: Tuples of a key for which Dalton's router asks its table once.
BLOCK = 10


class HashRouter(Router):
    """Light keys go where they hash to; what is hot, and where that goes, the algorithm says.

    Parameters as in `Router`; `hot` as in `flexd`.
    """

    def __init__(
        self,
        hashes: Hashes,
        channels: Sequence[Channel],
        *,
        hot: float = HOT_SHARE,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, batch=batch)
        check_thresholds(DELTA, hot)
        self.theta = hot / len(self.open)
        slots = in_turn(DEFAULT_SLOTS, self.capacities)
        self.home = slots[slot_of(hashes, DEFAULT_SLOTS)].astype(np.int64)

    def light(self, keys: Ints, rows: Ints, units: Floats) -> None:
        """Route to the channel that the key hashes to."""
        self.straight(keys, self.home[keys], rows, units)


class FlexdRouter(HashRouter):
    """Route by FlexD: Algorithm 1, as the text of section 4.4 has it.

    A window is a segment. Its tuples are collected and sketched first (section 4.2); then each is
    assigned, by counts of the whole segment. f is the share theta of the segment's load. A key
    that was not hot in a whole window is forgotten (the paper: one not used for long).

    With `running`, nothing is collected: each batch is routed by the counts so far, and a key grows
    at most once in a batch. The first f tuples of a hot key then go where it hashes to.
    """

    def __init__(
        self,
        hashes: Hashes,
        channels: Sequence[Channel],
        *,
        delta: float = DELTA,
        hot: float = HOT_SHARE,
        running: bool = False,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, hot=hot, batch=batch)
        check_thresholds(delta, hot)
        self.delta, self.running = delta, running
        self.owners: dict[int, list[int]] = {}
        self.grows: dict[int, float] = {}
        self.used: set[int] = set()

    def route(self, keys: Ints, load: Floats | None = None) -> Routed:
        """Collect the segment's counts, unless they run; then send each tuple."""
        self.seen = SpaceSaving(self.theta / 2)
        if not self.running:
            weights = np.ones(len(keys)) if load is None else load
            for start in range(0, len(keys), self.batch):
                part = slice(start, start + self.batch)
                distinct, inverse = np.unique(keys[part], return_inverse=True)
                self.seen.update(distinct, sums_by(inverse, weights[part], len(distinct)))
        return super().route(keys, load)

    def begin(self, load: float) -> None:
        """Begin a segment: f is a share of its load."""
        super().begin(load)
        self.least_count = self.theta * load
        self.owners = {k: c for k, c in self.owners.items() if k in self.used}
        self.used = set()

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Return those that have f of the segment's tuples, or, running, have them already."""
        if self.running:
            self.seen.update(keys, load)
        counts = self.seen.estimates(keys)
        self.counts = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        return counts >= self.least_count

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Send to the least loaded of the key's channels; each tuple first adds one if it may."""
        self.used.add(key)
        if key not in self.owners:
            self.owners[key], self.grows[key] = [], self.least_count
        owners = self.owners[key]
        while rows and self.counts[key] >= self.grows[key] and len(owners) < len(self.open):
            free = np.setdiff1d(self.open, owners)
            owners.append(int(free[np.argmin(self.levels[free])]))
            self.grows[key] *= self.delta
            if self.running:
                break
            self.least(key, np.array(sorted(owners)), 1, unit)
            rows -= 1
        if rows:
            self.least(key, np.array(sorted(owners)), rows, unit)


class PStreamRouter(HashRouter):
    """PStream: coins tell hot keys, which go to all channels in turn.

    Left open, and chosen: each tuple throws a coin that shows heads with probability p = 1/32;
    heads raise its key's counter by one. After each 1 / (p theta) of load all counters fall by
    one: those of keys under a share of theta tend to 0, others grow. A key is hot from 2.
    """

    def __init__(
        self,
        hashes: Hashes,
        channels: Sequence[Channel],
        *,
        hot: float = HOT_SHARE,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, hot=hot, batch=batch)
        self.counters: Floats = np.zeros(len(hashes))
        self.coins = np.random.default_rng(0)
        self.turn, self.falls = 0, 0.0

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Return the keys whose counter is high enough."""
        self.counters[keys] += self.coins.binomial(np.ceil(load).astype(np.int64), HEADS)
        before = math.floor(self.falls)
        self.falls += float(load.sum()) * HEADS * self.theta
        if math.floor(self.falls) > before:
            self.counters = np.maximum(self.counters - (math.floor(self.falls) - before), 0)
        return self.counters[keys] >= CERTAIN

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Route in turn to all channels."""
        times, rest = divmod(rows, len(self.open))
        sent = np.full(len(self.open), times)
        sent[(self.turn + np.arange(rest)) % len(self.open)] += 1
        self.turn = (self.turn + rest) % len(self.open)
        self.put(key, self.open, sent, unit)


class DaltonRouter(HashRouter):
    """Route by Dalton: a table of what each channel is worth to each hot key, learned from rewards.

    A tuple's reward is minus the mean of two values. One is (L - mean L) / max(L, mean L), for the
    load L of its channel. The other is the share of channels that hold its key, now or in the
    window before. One of ten tuples explores: it goes anywhere. Others go to the best, at first
    where the key hashes to. A key with as many copies as the cap explores among these only. The cap
    rises by one, up to `MAX_COPIES`, when 70% of the hot keys have reached it. Keys not hot for a
    window are dropped.

    Here `BLOCK` tuples of a key at a time ask the table; those that go to one channel teach it
    together, by the reward after the last. `capped` false leaves out the cap.
    """

    def __init__(
        self,
        hashes: Hashes,
        channels: Sequence[Channel],
        *,
        hot: float = HOT_SHARE,
        capped: bool = True,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, hot=hot, batch=batch)
        self.seen = SpaceSaving(self.theta / 2)
        self.values: dict[int, Floats] = {}
        self.held: dict[int, set[int]] = {}
        self.earlier: dict[int, set[int]] = {}
        self.most = FIRST_COPIES if capped else len(self.levels) + 1
        self.full: set[int] = set()
        self.random = np.random.default_rng(0)

    def begin(self, load: float) -> None:
        """Count copies from those of the window before; older ones have expired."""
        super().begin(load)
        self.values = {k: v for k, v in self.values.items() if k in self.held}
        self.full &= set(self.held)
        self.earlier, self.held = self.held, {}

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Return those with a share of theta so far."""
        self.seen.update(keys, load)
        return self.seen.estimates(keys) >= self.theta * self.seen.total

    def _copies(self, key: int) -> set[int]:
        return self.held[key] | self.earlier.get(key, set())

    def _hold(self, key: int, channel: int) -> None:
        """Note a copy of the key; raise the cap if enough keys have reached it."""
        self.held[key].add(channel)
        if len(self._copies(key)) == self.most:
            self.full.add(key)
        if self.most < MAX_COPIES and len(self.full) >= CAPPED_SHARE * len(self.values):
            self.full, self.most = set(), self.most + 1

    def _explore(self, key: int) -> int:
        """Draw a channel: any, or one that holds a copy if the key has as many as the cap."""
        among = np.array(sorted(self._copies(key))) if key in self.full else self.open
        if not len(among):
            self.full.remove(key)
            among = self.open
        return int(among[self.random.integers(len(among))])

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Explore or exploit."""
        value = self.values.setdefault(key, np.full(len(self.levels), UNTRIED))
        self.held.setdefault(key, set())
        home, sent = int(self.home[key]), np.zeros(len(self.levels), dtype=np.int64)
        for start in range(0, rows, BLOCK):
            block = min(BLOCK, rows - start)
            explored = int(self.random.binomial(block, EXPLORE))
            best = home if value[home] == value.max() else int(value.argmax())
            tried = [best] * (block - explored)
            if tried:
                self._hold(key, best)
            for _ in range(explored):
                tried.append(self._explore(key))
                self._hold(key, tried[-1])
            copies = len(self._copies(key)) / len(self.open)
            for channel in sorted(set(tried)):
                times = tried.count(channel)
                sent[channel] += times
                self.levels[channel] += times * unit / self.capacities[channel]
                level, mean = float(self.levels[channel]), float(self.levels.sum()) / len(self.open)
                reward = -0.5 * ((level - mean) / max(level, mean) + copies)
                value[channel] += (1 - (1 - LEARN) ** times) * (reward - value[channel])
        at = np.flatnonzero(sent)
        load = np.asarray(sent[at] * unit, dtype=np.float64)
        self.note(np.full(len(at), key), at, sent[at], load)
