"""Tuple routers of FlexD, PStream and Dalton; `flexd` says where they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partitioning.function.function import DEFAULT_SLOTS, Channel
from partitioning.function.hashing import Hashes, slot_of
from partitioning.strategies.hashing import in_turn
from partitioning.strategies.published.flexd import DELTA, EXPLORE, HOT, check_options
from partitioning.strategies.water_filling import BATCH, Ints, Router
from partitioning.workload.profile import Floats
from partitioning.workload.sketches import SpaceSaving

#: PStream's coins show heads this often, and a key is hot from this count.
HEADS, CERTAIN = 2.0**-5, 2
#: Dalton: weight of a new reward, value of what was never tried.
LEARN, UNTRIED = 0.1, -2.0
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
        hot: float = HOT,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, batch=batch)
        check_options(DELTA, hot)
        self.theta = hot / len(self.open)
        slots = in_turn(DEFAULT_SLOTS, self.capacities)
        self.home = slots[slot_of(hashes, DEFAULT_SLOTS)].astype(np.int64)

    def light(self, keys: Ints, rows: Ints, units: Floats) -> None:
        """To the channel that the key hashes to."""
        self.straight(keys, self.home[keys], rows, units)


class FlexdRouter(HashRouter):
    """FlexD: Algorithm 1, as the text of section 4.4 has it.

    A window is a segment of Space Saving, f the share theta of its load. A batch is the paper's
    micro-batch of m tuples, routed by a sketch that has seen it; a key grows at most once in one.
    A key that was not hot in a whole window is forgotten (the paper: what was not used for long).
    """

    def __init__(
        self,
        hashes: Hashes,
        channels: Sequence[Channel],
        *,
        delta: float = DELTA,
        hot: float = HOT,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, hot=hot, batch=batch)
        check_options(delta, hot)
        self.delta = delta
        self.owners: dict[int, list[int]] = {}
        self.grows: dict[int, float] = {}
        self.used: set[int] = set()

    def begin(self, load: float) -> None:
        """A new segment."""
        super().begin(load)
        self.seen, self.least_count = SpaceSaving(self.theta / 2), self.theta * load
        self.owners = {k: c for k, c in self.owners.items() if k in self.used}
        self.used = set()

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Those that have f of the segment's tuples already."""
        self.seen.update(keys, load)
        counts = self.seen.estimates(keys)
        self.counts = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        return counts >= self.least_count

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """To the least loaded of the key's channels, after one more where it has grown enough."""
        self.used.add(key)
        if key not in self.owners:
            self.owners[key], self.grows[key] = [], self.least_count
        owners = self.owners[key]
        if self.counts[key] >= self.grows[key] and len(owners) < len(self.open):
            free = np.setdiff1d(self.open, owners)
            owners.append(int(free[np.argmin(self.levels[free])]))
            self.grows[key] *= self.delta
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
        hot: float = HOT,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, hot=hot, batch=batch)
        self.counters: Floats = np.zeros(len(hashes))
        self.coins = np.random.default_rng(0)
        self.turn, self.falls = 0, 0.0

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Those whose counter is high enough."""
        self.counters[keys] += self.coins.binomial(np.ceil(load).astype(np.int64), HEADS)
        before = math.floor(self.falls)
        self.falls += float(load.sum()) * HEADS * self.theta
        if math.floor(self.falls) > before:
            self.counters = np.maximum(self.counters - (math.floor(self.falls) - before), 0)
        return self.counters[keys] >= CERTAIN

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """In turn to all channels."""
        times, rest = divmod(rows, len(self.open))
        sent = np.full(len(self.open), times)
        sent[(self.turn + np.arange(rest)) % len(self.open)] += 1
        self.turn = (self.turn + rest) % len(self.open)
        self.put(key, self.open, sent, unit)


class DaltonRouter(HashRouter):
    """Dalton: a table of what each channel is worth to each hot key, learned from rewards.

    A tuple's reward is minus the mean of (L - mean L) / max(L, mean L), for the load L of its
    channel, and the share of channels that hold its key. One of ten tuples goes anywhere, others
    to the best, at first where the key hashes to. Here `BLOCK` tuples of a key at a time ask the
    table; those that go to one channel teach it together, by the reward after the last.
    """

    def __init__(
        self,
        hashes: Hashes,
        channels: Sequence[Channel],
        *,
        hot: float = HOT,
        batch: int = BATCH,
    ) -> None:
        super().__init__(hashes, channels, hot=hot, batch=batch)
        self.seen = SpaceSaving(self.theta / 2)
        self.values: dict[int, Floats] = {}
        self.random = np.random.default_rng(0)

    def begin(self, load: float) -> None:
        """Copies of keys count anew."""
        super().begin(load)
        self.held: dict[int, set[int]] = {}

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Those with a share of theta so far."""
        self.seen.update(keys, load)
        return self.seen.estimates(keys) >= self.theta * self.seen.total

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Explore or exploit."""
        value = self.values.setdefault(key, np.full(len(self.levels), UNTRIED))
        held = self.held.setdefault(key, set())
        home, sent = int(self.home[key]), np.zeros(len(self.levels), dtype=np.int64)
        for start in range(0, rows, BLOCK):
            block = min(BLOCK, rows - start)
            explored = int(self.random.binomial(block, EXPLORE))
            best = home if value[home] == value.max() else int(value.argmax())
            tried = [best] * (block - explored)
            tried += self.open[self.random.integers(len(self.open), size=explored)].tolist()
            for channel in sorted(set(tried)):
                times = tried.count(channel)
                sent[channel] += times
                self.levels[channel] += times * unit / self.capacities[channel]
                held.add(channel)
                level, mean = float(self.levels[channel]), float(self.levels.sum()) / len(self.open)
                reward = -0.5 * ((level - mean) / max(level, mean) + len(held) / len(self.open))
                value[channel] += (1 - (1 - LEARN) ** times) * (reward - value[channel])
        at = np.flatnonzero(sent)
        load = np.asarray(sent[at] * unit, dtype=np.float64)
        self.note(np.full(len(at), key), at, sent[at], load)
