"""The watch's file in the registry, `watch.json`, as the watch takes it."""

from __future__ import annotations

import numpy as np

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.watch_records import (
    ControllerRecord,
    PendingDecisionRecord,
    WatchStateRecord,
)
from evenkeel.watch.state import PendingDecision, WatchState


def read(registry: Registry) -> WatchState | None:
    """Read what the watch knows; None: it has never looked.

    Raises
    ------
    DamagedError : the file is torn or edited
    """
    found = registry.files.watch.find()
    if found is None:
        return None
    done = found.decided
    return WatchState(
        source=found.source,
        epoch=found.epoch,
        watch=found.watch.watch(),
        backlog=np.array(found.backlog, dtype=np.float64),
        decided=done and PendingDecision(done.run, done.number, done.weights, done.after.watch()),
        outcome=found.outcome,
    )


def write(registry: Registry, watched: WatchState) -> None:
    """Replace the whole file."""
    registry.files.watch.write(watch_record(watched))


def watch_record(watched: WatchState) -> WatchStateRecord:
    """Return what the watch knows as its file has it."""
    done = watched.decided
    return WatchStateRecord(
        format=1,
        source=watched.source,
        epoch=watched.epoch,
        watch=ControllerRecord.of(watched.watch),
        backlog=watched.backlog.tolist(),
        decided=done
        and PendingDecisionRecord(
            run=done.run,
            number=done.number,
            weights={key: dict(owners) for key, owners in done.weights.items()},
            after=ControllerRecord.of(done.after),
        ),
        outcome=watched.outcome,
    )
