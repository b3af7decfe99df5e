"""What the watch keeps between two micro-batches, in one file of the registry: `watch.json`.

A decision is kept beside the watch that made it, and becomes part of it once the epoch in force is
the one that it led to: a run that fails, or is refused, leaves the watch as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evenkeel.epochs import Epoch, Registry
from evenkeel.spec import Watching
from evenkeel.store import parsed_json
from partitioning.errors import DamagedError
from partitioning.function import PartitioningFunction, canonical_json, digest
from partitioning.mitigation import Batch, Limits, Mitigation, Sample, Weights
from partitioning.profile import Floats
from partitioning.strategies.skew import Threshold
from partitioning.watch import Watch

FORMAT = 1
FILE = "watch.json"
#: What a look leaves in a run that is to carry out its decision.
WATCHED = "watched.json"
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
        anew, and only knows which batches it has seen.
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
        return begun(self.source, epoch, asked, self.watch.last)

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
        capacities = function.capacities
        open_ = capacities > 0
        speeds = np.where(open_, capacities / capacities[open_].mean(), 1.0)
        totals = [float(loads.sum()) for loads, _ in self.watch.sample.batches]
        usual = float(np.mean([*totals, batch.loads.sum()])) / int(open_.sum()) or 1.0
        waiting = self.backlog + batch.loads / speeds
        batch = replace(batch, waiting=np.where(open_, waiting, np.inf))
        left = limits.left * usual * int(open_.sum())
        limits = replace(limits, eta=limits.eta * usual, left=left, speeds=speeds)
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

        backlog = self.backlog
        if batch.epoch == self.epoch:
            backlog = np.where(open_, np.maximum(waiting - speed * usual, 0.0), 0.0)
        after, decided = fold(under_way)
        return fold(True)[0] if decided else after, after, decided

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the digest over them."""
        done = self.decided
        return {
            "format": FORMAT,
            "source": self.source,
            "epoch": self.epoch,
            "watch": _watch_dict(self.watch),
            "backlog": self.backlog.tolist(),
            "decided": done
            and {
                "run": done.run,
                "number": done.number,
                "weights": weights_dict(done.weights),
                "after": _watch_dict(done.after),
            },
            "told": self.told,
        }


def begun(source: str, epoch: Epoch, asked: Watching, last: int = -1) -> Watched:
    """A watch that has seen nothing under this epoch."""
    tau = asked.tau
    threshold = Threshold(tau, LOWER * tau, UPPER * tau, STEP * tau)
    return Watched(
        source, epoch.number, Watch(threshold, last), np.zeros(len(epoch.function.channels))
    )


def read(registry: Registry) -> Watched | None:
    """What the watch knows; None: it has never looked.

    Raises
    ------
    DamagedError : the file is torn or edited
    """
    if not registry.store.exists(FILE):
        return None
    where = registry.store.path(FILE)
    values = parsed_json(registry.store.read(FILE), where)
    try:
        claimed = values.pop("digest")
        if digest(values) != claimed or values["format"] != FORMAT:
            raise ValueError("its digest does not fit its content")
        done = values["decided"]
        return Watched(
            source=values["source"],
            epoch=int(values["epoch"]),
            watch=_watch(values["watch"]),
            backlog=np.array(values["backlog"], dtype=np.float64),
            decided=done
            and Decided(
                done["run"], done["number"], weights_of(done["weights"]), _watch(done["after"])
            ),
            told=values["told"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(
            f"torn or edited: {error}", where, "Delete it: the watch starts anew"
        ) from error


def write(registry: Registry, watched: Watched) -> None:
    """Replace the file, as a whole."""
    data = watched.to_dict()
    registry.store.write(FILE, canonical_json({**data, "digest": digest(data)}))


def weights_dict(weights: Mapping[int, Weights]) -> dict[str, dict[str, float]]:
    """Weights of keys as plain JSON values."""
    return {str(k): {str(c): w for c, w in owners.items()} for k, owners in weights.items()}


def weights_of(data: Mapping[str, Mapping[str, float]]) -> dict[int, Weights]:
    """Inverse of `weights_dict`; raises AttributeError, TypeError or ValueError."""
    return {int(k): {int(c): float(w) for c, w in own.items()} for k, own in data.items()}


def _scaled(watch: Watch, unit: float) -> Watch:
    """With its threshold in another unit."""
    t = watch.threshold
    sizes = {name: getattr(t, name) * unit for name in ("tau", "lower", "upper", "step")}
    return replace(watch, threshold=replace(t, **sizes))


def _watch_dict(watch: Watch) -> dict[str, Any]:
    return {
        "threshold": asdict(watch.threshold),
        "last": watch.last,
        "sample": [
            [loads.tolist(), {str(k): v for k, v in keys.items()}]
            for loads, keys in watch.sample.batches
        ],
        "spread": {
            str(key): {
                "home": m.home,
                "helpers": list(m.helpers),
                "weights": {str(c): w for c, w in m.weights.items()},
                "catching": m.catching,
            }
            for key, m in watch.spread.items()
        },
        "moved": {str(key): list(at) for key, at in watch.moved.items()},
        "iterations": watch.iterations,
    }


def _watch(data: Mapping[str, Any]) -> Watch:
    return Watch(
        threshold=Threshold(**data["threshold"]),
        last=data["last"],
        sample=Sample(
            tuple(
                (np.array(loads, dtype=np.float64), {int(k): v for k, v in keys.items()})
                for loads, keys in data["sample"]
            )
        ),
        spread={
            int(key): Mitigation(
                m["home"],
                tuple(m["helpers"]),
                {int(c): w for c, w in m["weights"].items()},
                m["catching"],
            )
            for key, m in data["spread"].items()
        },
        moved={int(key): tuple(at) for key, at in data["moved"].items()},
        iterations=data["iterations"],
    )
