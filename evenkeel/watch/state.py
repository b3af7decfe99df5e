"""The state of the watch between two micro-batches, and how the next one changes it.

A decision is kept beside the watch that made it. It becomes part of the watch once its epoch is
the current one. So a run that fails, or is refused, leaves the watch as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evenkeel.registry.epochs import Epoch
from evenkeel.spec.parts import Watching
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Limits, MicroBatch, Sample, Weights
from partitioning.workload.profile import Floats

#: Strategy's name in functions that the watch has made.
STRATEGY = "watch"
#: Part of a channel's fair load from which on a key is watched. Lower: more keys are remembered.
WATCHED_SHARE = 0.1


@dataclass(frozen=True)
class PendingDecision:
    """A decision that is not known to be published.

    Parameters
    ----------
    run : that is to carry it out
    number : of the batch at which it was decided
    weights : owners of each key from then on, by hash
    after : the watch, once this is published
    """

    run: str
    number: int
    weights: Mapping[int, Weights]
    after: Controller


@dataclass(frozen=True, eq=False)
class WatchState:
    """Hold what the watch knows after a batch. Its threshold is in mean loads of a channel.

    Parameters
    ----------
    source : that numbers the batches; see `numbered_by`
    epoch : that was current at the newest batch
    watch : its sample, threshold and shared keys
    backlog : float64 (N,): load that each channel could not work off, over its speed
    decided : what is decided and not known to be published; None: nothing
    outcome : result of the newest batch, in words
    """

    source: str
    epoch: int
    watch: Controller
    backlog: Floats
    decided: PendingDecision | None = None
    outcome: str = ""

    def numbered_by(self, source: str) -> WatchState:
        """Return the watch once another source numbers the batches, such as a new checkpoint.

        Its sample and backlog begin again. Keys that it shares stay its own: a fresh watch would
        leave a key for good on helpers that only catch up. Each counts as moved just now.
        """

        def restarted(watch: Controller) -> Controller:
            moved = {key: (-1,) * len(at) for key, at in watch.moved.items()}
            return replace(watch, last=-1, sample=Sample(), moved=moved)

        done = self.decided
        return replace(
            self,
            source=source,
            watch=restarted(self.watch),
            backlog=np.zeros(len(self.backlog)),
            decided=None if done is None else replace(done, after=restarted(done.after)),
        )

    def settled(self, epoch: Epoch, run: str, spec: Watching) -> WatchState:
        """Return the watch as it is now that `epoch` is the current one, for a look by `run`.

        A decision becomes part of the watch if it was published. Otherwise it is forgotten, unless
        the same run looks again. If anybody else has published an epoch, the watch starts again.
        Then it only remembers which batches it has seen, and which keys it has moved lately.
        """
        done = self.decided
        if epoch.number == self.epoch:
            if done is None or done.run == run:
                return self
            # An attempt counts as a move. Otherwise it would be tried again at every batch.
            return replace(self, watch=replace(self.watch, moved=done.after.moved), decided=None)
        function = epoch.function
        if (
            done is not None
            and epoch.number == self.epoch + 1
            and (function.strategy, function.options) == (STRATEGY, {"batch": done.number})
        ):
            return replace(self, epoch=epoch.number, watch=done.after, decided=None)
        fresh, known = new_watch(self.source, epoch, spec, self.watch.last), self.watch
        # The decision was tried, and may have been published before that epoch.
        moved = known.moved if done is None else done.after.moved
        return replace(fresh, watch=replace(fresh.watch, moved=moved))

    def folded(
        self,
        batch: MicroBatch,
        function: PartitioningFunction,
        limits: Limits,
        speed: float,
        under_way: bool = False,
    ) -> tuple[WatchState, WatchState, dict[int, Weights]]:
        """Add one batch.

        Parameters
        ----------
        batch : its `waiting` is set here: what was left before, and what has come
        function : of the current epoch
        limits : `eta` in mean loads of a channel, `left` in batches
        speed : mean loads that a channel works off in the time of a batch
        under_way : as for `Controller.fold`

        Returns
        -------
        The watch if nothing is carried out; the watch once the decision is published; and the
        decision: new weights of keys, by hash.
        """
        if batch.number <= self.watch.last:
            return self, self, {}
        if len(batch.loads) != len(self.backlog):
            # Measured by an epoch of other channels: it tells nothing of these.
            passed = replace(self, watch=replace(self.watch, last=batch.number))
            return passed, passed, {}
        open_, speed_of = function.capacities > 0, speeds(function)
        totals = [float(loads.sum()) for loads, _ in self.watch.sample.batches]
        usual = float(np.mean([*totals, batch.loads.sum()])) / int(open_.sum()) or 1.0
        # Micro-batches without events do not appear: their numbers are missing.
        idle = batch.number - self.watch.last - 1 if self.watch.last >= 0 else 0
        before = np.maximum(self.backlog - speed * usual * idle, 0.0)
        waiting = before + batch.loads / speed_of
        batch = replace(batch, waiting=np.where(open_, waiting, np.inf))
        left = limits.left * usual * int(open_.sum())
        limits = replace(limits, eta=limits.eta * usual, left=left, speeds=speed_of)
        keys = np.array(list(batch.keys), dtype=np.int64)
        whole = keys[function.split.find(keys) < 0]
        homes = dict(zip(whole.tolist(), function.lookup_hashes(whole).tolist(), strict=True))

        def fold(under_way: bool) -> tuple[WatchState, dict[int, Weights]]:
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
    """Return each channel's speed over that of the mean open channel, float64 (N,); closed: 1."""
    capacities = function.capacities
    return np.where(capacities > 0, capacities / capacities[capacities > 0].mean(), 1.0)


def new_watch(source: str, epoch: Epoch, spec: Watching, last: int = -1) -> WatchState:
    """Return a watch that has seen nothing under this epoch."""
    watch = Controller(Threshold.of(spec.tau), last)
    return WatchState(source, epoch.number, watch, np.zeros(len(epoch.function.channels)))


def _scaled(watch: Controller, unit: float) -> Controller:
    """Convert the watch's threshold to another unit."""
    t = watch.threshold
    sizes = {name: getattr(t, name) * unit for name in ("tau", "lower", "upper", "step")}
    return replace(watch, threshold=replace(t, **sizes))
