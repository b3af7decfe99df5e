"""What the watch knows between two micro-batches, and what becomes of it at the next.

A decision is kept beside the watch that made it, and becomes part of it once the epoch in force is
the one that it led to: a run that fails, or is refused, leaves the watch as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evenkeel.registry.epochs import Epoch
from evenkeel.spec.parts import Watching
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Watch
from partitioning.watch.mitigation import Batch, Limits, Weights
from partitioning.workload.profile import Floats

#: What functions that the watch has made say of themselves.
STRATEGY = "watch"
#: Of tau: errors of forecasts between which it is right, and by how much it is raised, as Reshape
#: has them (98 and 110 tuples, and 50, for 100).
LOWER, UPPER, STEP = 0.98, 1.1, 0.5


@dataclass(frozen=True)
class Decided:
    """What is decided and not known to be published.

    Parameters
    ----------
    run : that is to carry it out; number : of the batch that it was decided at
    weights : owners of each key from then on, by hash
    after : the watch, once it is published
    """

    run: str
    number: int
    weights: Mapping[int, Weights]
    after: Watch


@dataclass(frozen=True, eq=False)
class Watched:
    """What the watch knows after a batch. Its threshold is in mean loads of a channel and batch.

    Parameters
    ----------
    source : who numbers the batches: another starts anew
    epoch : in force at the newest batch
    backlog : float64 (N,): what each channel has had beyond its speed, in the time of a mean one
    told : what came of the newest batch, in words
    """

    source: str
    epoch: int
    watch: Watch
    backlog: Floats
    decided: Decided | None = None
    told: str = ""

    def settled(self, epoch: Epoch, run: str, asked: Watching) -> Watched:
        """As it is now that `epoch` is in force, for a look by `run`.

        What was decided is made part of the watch if it was published, and forgotten if not,
        unless that very run looks again. The epoch of anybody else decides all: then it starts
        anew, and only knows which batches it has seen, and which keys it has moved of late.
        """
        done = self.decided
        if epoch.number == self.epoch:
            if done is None or done.run == run:
                return self
            # That it was tried counts as a move, lest it be tried at every batch.
            return replace(self, watch=replace(self.watch, moved=done.after.moved), decided=None)
        function = epoch.function
        if (
            done is not None
            and epoch.number == self.epoch + 1
            and (function.strategy, function.options) == (STRATEGY, {"batch": done.number})
        ):
            return replace(self, epoch=epoch.number, watch=done.after, decided=None)
        anew, known = begun(self.source, epoch, asked, self.watch.last), self.watch
        # What was decided was tried, and perhaps published before.
        moved = known.moved if done is None else done.after.moved
        return replace(anew, watch=replace(anew.watch, moved=moved))

    def folded(
        self,
        batch: Batch,
        function: PartitioningFunction,
        limits: Limits,
        speed: float,
        under_way: bool = False,
    ) -> tuple[Watched, Watched, dict[int, Weights]]:
        """With one batch more: as it is then, as it is once what is decided is published, and that:
        new weights of keys.

        Parameters
        ----------
        batch : what waits is not known yet: it is what was left before, and what has come
        limits : `eta` in mean loads of a channel, `left` in batches
        speed : mean loads that a channel works off in the time of a batch
        under_way : as for `Watch.fold`
        """
        if batch.number <= self.watch.last:
            return self, self, {}
        open_, speed_of = function.capacities > 0, speeds(function)
        totals = [float(loads.sum()) for loads, _ in self.watch.sample.batches]
        usual = float(np.mean([*totals, batch.loads.sum()])) / int(open_.sum()) or 1.0
        # Micro-batches without an event have no number of their own.
        idle = batch.number - self.watch.last - 1 if self.watch.last >= 0 else 0
        before = np.maximum(self.backlog - speed * usual * idle, 0.0)
        waiting = before + batch.loads / speed_of
        batch = replace(batch, waiting=np.where(open_, waiting, np.inf))
        left = limits.left * usual * int(open_.sum())
        limits = replace(limits, eta=limits.eta * usual, left=left, speeds=speed_of)
        keys = np.array(list(batch.keys), dtype=np.int64)
        whole = keys[function.split.find(keys) < 0]
        homes = dict(zip(whole.tolist(), function.lookup_hashes(whole).tolist(), strict=True))

        def fold(under_way: bool) -> tuple[Watched, dict[int, Weights]]:
            scaled = _scaled(self.watch, usual)
            watch, decided = scaled.fold(batch, self.epoch, limits, homes, under_way)
            if watch.threshold == scaled.threshold:
                watch = replace(watch, threshold=self.watch.threshold)
            else:
                watch = _scaled(watch, 1 / usual)
            return replace(self, watch=watch, backlog=backlog), decided

        backlog = before
        if batch.epoch == self.epoch:
            backlog = np.where(open_, np.maximum(waiting - speed * usual, 0.0), 0.0)
        after, decided = fold(under_way)
        return fold(True)[0] if decided else after, after, decided


def speeds(function: PartitioningFunction) -> Floats:
    """How fast each channel is, in those of the mean open one, float64 (N,); closed ones 1."""
    capacities = function.capacities
    return np.where(capacities > 0, capacities / capacities[capacities > 0].mean(), 1.0)


def begun(source: str, epoch: Epoch, asked: Watching, last: int = -1) -> Watched:
    """A watch that has seen nothing under this epoch."""
    tau = asked.tau
    threshold = Threshold(tau, LOWER * tau, UPPER * tau, STEP * tau)
    return Watched(
        source, epoch.number, Watch(threshold, last), np.zeros(len(epoch.function.channels))
    )


def _scaled(watch: Watch, unit: float) -> Watch:
    """With its threshold in another unit."""
    t = watch.threshold
    sizes = {name: getattr(t, name) * unit for name in ("tau", "lower", "upper", "step")}
    return replace(watch, threshold=replace(t, **sizes))
