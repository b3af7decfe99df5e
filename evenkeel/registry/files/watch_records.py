"""Models of watch.json, with a digest over its content."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from evenkeel.registry.files.stored_file import FileModel, parse_model
from evenkeel.registry.store import parsed_json
from partitioning.errors import DamagedError
from partitioning.function.canonical import canonical_json, digest
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Mitigation, Sample


class ControllerRecord(FileModel):
    """State of the controller of a watch.

    Parameters
    ----------
    threshold : difference of loads from which it acts
    last : number of the newest batch that was seen; -1: none
    sample : of each batch since channels were last made even: load of each channel, and of keys by
        hash
    spread : mitigations in force, by the hash of the key
    moved : hash of each key that moved recently, and the batches after which it did
    iterations : number of mitigations begun
    """

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


class PendingDecisionRecord(FileModel):
    """A decision that is not known to be published.

    Parameters
    ----------
    run : that carries it out
    number : of the micro-batch after which it was made
    weights : hash of each key that changes, and what part of it each channel gets, by number
    after : the controller, once it is published
    """

    run: str
    number: int
    weights: dict[int, dict[int, float]]
    after: ControllerRecord


class WatchStateRecord(FileModel):
    """The state of the watch after a micro-batch. The file has a `digest` over all else, too.

    Parameters
    ----------
    format : of this file
    source : that numbers the batches
    epoch : number of the epoch that was current at the newest batch
    watch : what it knows
    backlog : load that each channel could not work off, over its speed
    decided : decision that is under way; None: there is none
    outcome : of the newest batch, in words; in the file it is `told`
    """

    advice: ClassVar[str] = "Delete it: the watch then starts with an empty state"

    format: Literal[1]
    source: str
    epoch: int
    watch: ControllerRecord
    backlog: list[float]
    decided: PendingDecisionRecord | None
    outcome: str = Field(alias="told")

    @property
    def plain(self) -> dict[str, Any]:
        """Plain JSON values, without the digest over them."""
        return self.model_dump(mode="json", by_alias=True)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file, with the digest."""
        return canonical_json({**self.plain, "digest": digest(self.plain)})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        """Return what the bytes of the file `where` hold.

        Raises
        ------
        DamagedError : the file is torn or edited
        """
        try:
            values = parsed_json(data, where)
            if values.pop("digest") != digest(values):
                raise ValueError("its digest does not fit its content")
            return parse_model(cls, data, where)
        except (AttributeError, DamagedError, KeyError, TypeError, ValueError) as error:
            problem = error.what if isinstance(error, DamagedError) else error
            raise DamagedError(f"torn or edited: {problem}", where, cls.advice) from error
