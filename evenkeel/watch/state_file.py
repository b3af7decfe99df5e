"""The watch's file in the registry, `watch.json`, with a digest over its content."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from pydantic import Field

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.stored_file import FileModel, parse
from evenkeel.registry.store import parsed_json
from evenkeel.watch.state import Decided, Watched
from partitioning.errors import DamagedError
from partitioning.function.function import canonical_json, digest
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Mitigation, Sample

WATCH_FORMAT = 1
FILE = "watch.json"


class WatchRecord(FileModel):
    """A watch. For each batch, `sample` has the load of each channel, and of keys by hash."""

    threshold: Threshold
    last: int
    sample: list[tuple[list[float], dict[int, float]]]
    spread: dict[int, Mitigation]
    moved: dict[int, tuple[int, ...]]
    iterations: int

    @classmethod
    def of(cls, watch: Controller) -> Self:
        """Return a watch as the file has it."""
        sample = [(loads.tolist(), dict(keys)) for loads, keys in watch.sample.batches]
        return cls(**{**vars(watch), "sample": sample})

    def watch(self) -> Controller:
        """Return the watch."""
        batches = tuple((np.array(loads, dtype=np.float64), keys) for loads, keys in self.sample)
        return Controller(**{**dict(self), "sample": Sample(batches)})


class DecidedRecord(FileModel):
    """A decision that is not known to be published."""

    run: str
    number: int
    weights: dict[int, dict[int, float]]
    after: WatchRecord


class WatchedRecord(FileModel):
    """The content of the file. Files call the outcome `told`,."""

    format: Literal[1]
    source: str
    epoch: int
    watch: WatchRecord
    backlog: list[float]
    decided: DecidedRecord | None
    outcome: str = Field(alias="told")


def read(registry: Registry) -> Watched | None:
    """Read what the watch knows; None: it has never looked.

    Raises
    ------
    DamagedError : the file is torn or edited
    """
    data, where = registry.files.find(FILE), registry.files.path(FILE)
    if data is None:
        return None
    try:
        values = parsed_json(data, where)
        if values.pop("digest") != digest(values):
            raise ValueError("its digest does not fit its content")
        found = parse(WatchedRecord, data, where)
    except (AttributeError, DamagedError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(
            f"torn or edited: {error.what if isinstance(error, DamagedError) else error}",
            where,
            "Delete it: the watch then starts with an empty state",
        ) from error
    done = found.decided
    return Watched(
        source=found.source,
        epoch=found.epoch,
        watch=found.watch.watch(),
        backlog=np.array(found.backlog, dtype=np.float64),
        decided=done and Decided(done.run, done.number, done.weights, done.after.watch()),
        outcome=found.outcome,
    )


def write(registry: Registry, watched: Watched) -> None:
    """Replace the whole file."""
    data = to_dict(watched)
    registry.files.write(FILE, canonical_json({**data, "digest": digest(data)}))


def to_dict(watched: Watched) -> dict[str, Any]:
    """Convert to plain JSON values, without the digest over them."""
    done = watched.decided
    record = WatchedRecord(
        format=WATCH_FORMAT,
        source=watched.source,
        epoch=watched.epoch,
        watch=WatchRecord.of(watched.watch),
        backlog=watched.backlog.tolist(),
        decided=done
        and DecidedRecord(
            run=done.run,
            number=done.number,
            weights={key: dict(owners) for key, owners in done.weights.items()},
            after=WatchRecord.of(done.after),
        ),
        outcome=watched.outcome,
    )
    return record.model_dump(mode="json", by_alias=True)
