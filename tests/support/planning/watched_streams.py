"""Streams of known load, and the watch that looks at them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Limits, MicroBatch, Weights
from partitioning.workload.profile import Floats

CHANNELS, KEYS, HOT = 8, 160, 3
#: Load of each key but the hot one, which has 0 to 4 channels' worth beside it.
LIGHT = 100.0 * CHANNELS / KEYS
MEAN = LIGHT * KEYS / CHANNELS
LIMITS = Limits(eta=MEAN)


@dataclass
class Stream:
    """Keys on channels that work off twice a mean load a batch, watched."""

    limits: Limits = LIMITS
    watch: Controller = field(
        default_factory=lambda: Controller(Threshold(MEAN, 0, math.inf, left=0))
    )
    weights: dict[int, Weights] = field(
        default_factory=lambda: {k: {k % CHANNELS: 1.0} for k in range(KEYS)}
    )
    waiting: Floats = field(default_factory=lambda: np.zeros(CHANNELS))
    changes: list[tuple[int, int]] = field(default_factory=list)  # batch, key
    even: list[float] = field(default_factory=list)  # imbalance of each batch

    def run(self, hot: Iterable[float], at: Iterable[int] = (HOT,), **more: Any) -> Stream:
        """Batches in which each key of `at` has so many channels' worth beside, or that many times
        what `at` says of it."""
        times = at if isinstance(at, Mapping) else dict.fromkeys(at, 1.0)
        for load in hot:
            keys = dict.fromkeys(range(KEYS), LIGHT)
            for key, share in times.items():
                keys[key] += load * share * MEAN
            loads = np.zeros(CHANNELS)
            for key, came in keys.items():
                whole = sum(self.weights[key].values())
                for channel, weight in self.weights[key].items():
                    loads[channel] += came * weight / whole
            self.even.append(float(loads.max() / loads.mean()))
            self.waiting = np.maximum(self.waiting + loads - 2 * MEAN, 0.0)
            number = self.watch.last + 1
            # What has come in this batch has waited, too.
            batch = MicroBatch(number, 0, loads, self.waiting + loads, keys)
            homes = {k: next(iter(w)) for k, w in self.weights.items() if len(w) == 1}
            shared = {k for k, now in self.watch.spread.items() if now.helpers}
            self.watch, decided = self.watch.fold(batch, 0, self.limits, homes, **more)
            whole = {k for k in decided if k not in shared and len(decided[k]) == 1}
            assert all(decided[k].keys() != self.weights[k].keys() for k in whole), "in vain"
            self.weights |= decided
            self.changes += [(number, key) for key in decided]
        return self
