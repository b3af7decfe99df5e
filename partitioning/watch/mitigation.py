"""Values of the watch: batches, limits, the sample for forecasts, and mitigations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from partitioning.strategies.skew import standard_error
from partitioning.workload.profile import Floats

#: Placement of a key: the weight of each of its channels.
Weights = Mapping[int, float]


@dataclass(frozen=True)
class MicroBatch:
    """Hold the load of one micro-batch.

    Parameters
    ----------
    number : of the batch; each is folded once, in order
    epoch : of the function that routed it
    loads : float64 (N,): load that came to each channel
    waiting : float64 (N,): load that waits at each, this batch's included (queue; for batches that
        end together: what the channel has had beyond its speed). Infinite: takes no part
    keys : load of each key that may be heavy, by hash
    rows : events; infinite: not known, and chance explains nothing
    """

    number: int
    epoch: int
    loads: Floats
    waiting: Floats
    keys: Mapping[int, float]
    rows: float = math.inf

    def rows_of(self, load: float) -> float:
        """Return the events that bring so much load, if they are like this batch's."""
        came = float(self.loads.sum())
        return self.rows * load / came if came and load else math.inf


@dataclass(frozen=True)
class Limits:
    """How fast and how far the watch may act.

    Parameters
    ----------
    eta : load waiting from which a channel can be skewed
    moves, within : a key moves at most so often in so many batches
    memory : batches that a forecast is the mean of, at most
    migration : batches that moving a key to n helpers takes
    left : load that is still to come; infinite: the stream does not end
    splitting : state can be merged, so that a key may have several owners; else keys move whole
    catch_up : helpers first take all of a key until they have waited for as much as its home
    per : batches that a forecast is for
    calm : mean loads that a channel may have with a key back home, if others have less
    copies : most channels that share a key, its home included; None: as many as help
    only : keys that alone may move; None: all
    speeds : float64 (N,): how fast each channel is, in those of the mean one; None: all alike.
        Waiting load (`MicroBatch.waiting`) is in the time that the mean channel takes for it
    """

    eta: float
    moves: float = 2
    within: int = 20
    memory: int = 20
    migration: Callable[[int], float] = field(default=lambda n: 0.0)
    left: float = math.inf
    splitting: bool = True
    catch_up: bool = True
    per: float = 1.0
    calm: float = 1.0
    copies: int | None = None
    only: frozenset[int] | None = None
    speeds: Floats | None = None

    def speed(self, channels: int) -> Floats:
        """Return the speed of each channel, float64 (N,)."""
        return np.ones(channels) if self.speeds is None else self.speeds

    def affording(
        self, copy: float, partial: float, budget: float | None, moving: Callable[[float], float]
    ) -> Limits:
        """Return these limits with no more helpers than the budget pays for.

        Each helper gets a copy, in its time, and hands back a partial row. If the budget pays for
        no helper at all, their number is not limited, because any number exceeds it.

        Parameters
        ----------
        copy, partial, budget : bytes; a budget of None: no limit
        moving : batches that moving so many bytes takes
        """
        each, copies = max(copy, partial), self.copies
        if budget is not None and budget >= each > 0:
            most = 1 + int(budget / each)
            copies = min(copies or most, most)
        return replace(self, copies=copies, migration=lambda helpers: moving(helpers * copy))


@dataclass(frozen=True)
class Mitigation:
    """A key that the watch has spread, or moved whole.

    Parameters
    ----------
    home : the channel that had it, and gets it back
    helpers : channels that share it; none: it is whole, on another channel
    weights : what each of them gets now
    catching : 1: the helpers take all until they are even with the home, -1: the home does;
        0: they share for good
    """

    home: int
    helpers: tuple[int, ...]
    weights: Weights
    catching: int

    @property
    def channels(self) -> tuple[int, ...]:
        """All that share it."""
        return (self.home, *self.helpers)

    @property
    def placed(self) -> tuple[int, ...]:
        """All that have its state, or, of a whole key, home and the channel that has it."""
        return self.channels if self.helpers else (self.home, *self.weights)

    @property
    def at_home(self) -> bool:
        """Whether nothing is left to go back."""
        return not self.helpers and set(self.weights) == {self.home}

    def parts(self) -> list[tuple[int, float]]:
        """List each channel that gets any of the key, and its part, 0 to 1."""
        whole = sum(self.weights.values())
        return [(channel, weight / whole) for channel, weight in self.weights.items()]


@dataclass(frozen=True)
class Sample:
    """Hold the batches that forecasts average.

    Each batch is (load of each channel if every key were at home, float64 (N,); load of keys by
    hash).
    """

    batches: tuple[tuple[Floats, Mapping[int, float]], ...] = ()

    def __len__(self) -> int:
        return len(self.batches)

    def taking(self, batch: MicroBatch, spread: Mapping[int, Mitigation], memory: int) -> Sample:
        """Add a batch, which came while keys were spread as they are."""
        loads = batch.loads.astype(np.float64)
        for key, now in spread.items():
            load = batch.keys.get(key, 0.0)
            loads[now.home] += load
            for channel, part in now.parts():
                loads[channel] -= part * load
        return Sample((*self.batches, (loads, dict(batch.keys)))[-memory:])

    def loads(self) -> Floats:
        """Forecast a batch's loads with every key at home, float64 (N,)."""
        return np.asarray(np.mean([loads for loads, _ in self.batches], axis=0))

    def load_of(self, key: int) -> float:
        """Forecast a key's load."""
        return float(np.mean([keys.get(key, 0.0) for _, keys in self.batches]))

    def error(self, channels: Iterable[int], per: float) -> float:
        """Return the largest forecast error of these channels; see `standard_error`."""
        return max(standard_error([loads[c] for loads, _ in self.batches], per) for c in channels)

    def placed(self, spread: Mapping[int, Mitigation], without: int | None = None) -> Floats:
        """Forecast loads with these keys spread, float64 (N,); leave one of them out if named."""
        loads = self.loads()
        for key, now in spread.items():
            load = self.load_of(key)
            loads[now.home] -= load
            if key != without:
                for channel, part in now.parts():
                    loads[channel] += part * load
        return loads

    def since(self, keys: Iterable[int]) -> Sample:
        """Keep the batches that came since these keys were half as heavy as they are now.

        Earlier batches, before a key turned hot, forecast nothing of its load.
        """
        batches = self.batches
        for key in keys:
            half = batches[-1][1][key] / 2
            cold = [i for i, (_, loads) in enumerate(batches) if loads.get(key, 0.0) < half]
            batches = batches[max(cold, default=-1) + 1 :]
        return Sample(batches)
