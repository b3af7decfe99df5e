"""Simulate the queues of a skewed worker and its helper, for Reshape's experiments.

A worker has a queue and a speed; input comes faster than it is processed. Time goes in steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Limits, MicroBatch
from partitioning.workload.profile import Floats

#: Thousands of tuples a second that a worker processes, and seconds that the tweets take to come.
SPEED, TWEETS = 26_600 / 416, 26.0
#: Thousands of tuples: California and West Virginia on the skewed worker, and others' helpers.
CALIFORNIA, SMALL = 26_000, 600
BIG = 0
#: Metrics are read for ever, and a key may move as often as the paper's did.
ENDLESS = Limits(eta=100.0, moves=np.inf, memory=10**9)
#: What goes to the helper of the big key and of the other, where it is decided once.
ONCE = {"flux": (0.0, 1.0), "flowjoin": (0.5, 0.0)}
#: Messages on their way: when they arrive, and those two shares.
Sent = deque[tuple[float, float, float]]
#: Three streams: the skewed worker's big key, its other key, and the helper's own.
Rates = Callable[[float], Floats]


@dataclass
class Pair:
    """A skewed worker (0) and its helper (1), and the owner of each part of three streams."""

    big: float = 0.0  # share of the big key that goes to the helper
    small: float = 0.0  # of the other key
    queues: tuple[deque[Floats], deque[Floats]] = field(default_factory=lambda: (deque(), deque()))
    waiting: Floats = field(default_factory=lambda: np.zeros(2))
    allotted: Floats = field(default_factory=lambda: np.zeros(2))
    processed: Floats = field(default_factory=lambda: np.zeros(3))
    worked: deque[list[float]] = field(default_factory=lambda: deque(maxlen=10))

    @property
    def busy(self) -> Floats:
        """Return the busy milliseconds a second of each worker, over the last ten steps."""
        return 1000 * np.mean(self.worked, axis=0)

    def step(self, came: Floats, able: float) -> None:
        """Receive so much of each stream; each worker processes what it can, in order."""
        gone = came * [self.big, self.small, 1.0]
        idle = []
        for worker, part in enumerate((came - gone, gone)):
            self.queues[worker].append(part)
            self.waiting[worker] += part.sum()
            self.allotted[worker] += part.sum()
            left = able
            while self.queues[worker] and left > 1e-9:
                first = self.queues[worker][0]
                done = min(1.0, left / first.sum()) if first.any() else 1.0
                self.processed += first * done
                self.waiting[worker] -= first.sum() * done
                left -= first.sum() * done
                if done == 1.0:
                    self.queues[worker].popleft()
                else:
                    self.queues[worker][0] = first * (1 - done)
            idle.append(left / able)
        self.worked.append([1 - part for part in idle])


@dataclass
class Run:
    """How to mitigate, and the results."""

    method: str  # none, flux, flowjoin or reshape
    wait: float = 2.0
    tau: Threshold = field(default_factory=lambda: Threshold(100, 0, np.inf, left=0))
    limits: Limits = field(default_factory=lambda: ENDLESS)
    latency: float = 0.0
    slow: float = 0.0  # seconds that catching up takes; 0: the helper gets all meanwhile
    by_busy: bool = False  # workers are compared by how busy they are, not by their queues
    iterations: int = 0
    balance: list[float] = field(default_factory=list)  # smaller over larger allotment
    shares: list[float] = field(default_factory=list)  # helper's over skewed worker's
    observed: list[float] = field(default_factory=list)  # big key's processed over helper's own
    taus: list[float] = field(default_factory=list)
    watch: Controller = field(init=False)
    ended: float = 0.0
    allotted: Floats = field(default_factory=lambda: np.zeros(2))

    def __post_init__(self) -> None:
        self.watch = Controller(self.tau)

    def go(self, rates: Rates, lasts: float, speed: float = SPEED, dt: float = 0.1) -> Run:
        """Run until everything is processed."""
        pair, sent = Pair(), deque()
        now = 0.0
        while now < lasts or pair.waiting.max() > 1e-6:
            came = rates(now) * dt if now < lasts else np.zeros(3)
            pair.step(came, speed * dt)
            now += dt
            while sent and sent[0][0] <= now:
                _, pair.big, pair.small = sent.popleft()
            if self.method == "reshape" and now < lasts:
                self._watch(now, dt, came, pair, sent)
            elif self.method in ONCE and self.wait <= now < lasts:
                self._once(now, pair, sent)
            self.balance.append(float(pair.allotted.min() / max(pair.allotted.max(), 1e-9)))
            self.shares.append(float(pair.allotted[1] / max(pair.allotted[0], 1e-9)))
            self.observed.append(float(pair.processed[0] / max(pair.processed[2], 1e-9)))
        self.ended, self.allotted = now, pair.allotted
        return self

    def _once(self, now: float, pair: Pair, sent: Sent) -> None:
        """Move once: Flux moves what is not the big key, Flow-Join half of the big key."""
        gap = float(pair.waiting[0] - pair.waiting[1])
        if not self.iterations and pair.waiting[0] >= self.limits.eta and gap >= self.tau.tau:
            self.iterations = 1
            sent.append((now + self.latency, *ONCE[self.method]))

    def _watch(self, now: float, dt: float, came: Floats, pair: Pair, sent: Sent) -> None:
        """Mitigate with the controller that watches tables."""
        natural = np.array([came[0] + came[1], came[2]])
        weights = self.watch.spread[BIG].weights if self.watch.spread else {0: 1.0}
        gone = came[0] * weights.get(1, 0.0) / sum(weights.values())
        came_to = natural + np.array([-gone, gone])
        waiting = pair.busy if self.by_busy else pair.waiting
        batch = MicroBatch(self.watch.last + 1, 0, came_to, waiting, {BIG: came[0]})
        late = now < self.wait or bool(sent)
        self.watch, decided = self.watch.fold(batch, 0, self.limits, {BIG: 0}, late)
        for chosen in decided.values():
            share = chosen.get(1, 0.0) / sum(chosen.values())
            if self.slow and self.watch.spread[BIG].catching > 0:
                closing = (pair.waiting[0] - pair.waiting[1]) * dt / self.slow
                share = min((natural[0] - natural[1] + closing) / (2 * came[0]), 1.0)
            sent.append((now + self.latency, share, 0.0))
        self.iterations = self.watch.iterations
        self.taus.append(self.watch.threshold.tau)


def tweets(own: float, big: float = CALIFORNIA, small: float = SMALL) -> Rates:
    """Return the tuples of each stream in thousands, evenly while the tweets come."""
    return lambda now: np.array([big, small, own]) / TWEETS
