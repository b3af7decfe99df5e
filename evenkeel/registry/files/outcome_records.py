"""Models of the JSON files that say how work ended: of gates, of jobs that failed, and of windows.

Fields that an earlier release did not write are optional.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from pydantic import ConfigDict, Field

from evenkeel.registry.files.stored_file import FileModel


class ExpectationRecord(FileModel):
    """One expectation of a gate, as in `ExpectationResult`.

    Parameters
    ----------
    what : the expectation in plain words
    success : it holds
    severity : `critical`: the gate fails with it; `warning`: it is only reported
    expected : its bound, in words
    detail : why the bound is what it is
    observed : the value that was found, or "n of m" rows that fail
    examples : the first rows that fail, by column
    """

    model_config = ConfigDict(extra="allow")

    what: str
    success: bool
    severity: str
    expected: str = ""
    detail: str = ""
    observed: Any = None
    examples: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def fails_gate(self) -> bool:
        """Whether the gate fails because of it."""
        return not self.success and self.severity == "critical"


class GateRecord(FileModel):
    """The result of a gate; the file also has Great Expectations' own results.

    Parameters
    ----------
    success : no critical expectation failed
    results : of each expectation, in order
    docs : name of its page in the registry's store; None: there is no page
    """

    model_config = ConfigDict(extra="allow")

    success: bool
    results: list[ExpectationRecord]
    docs: str | None = None


class JobError(FileModel):
    """The newest error of a run's jobs.

    Parameters
    ----------
    kind : class of the exception
    exit_code : of the job's process
    retry : trying again may help
    message : one line
    job : name of the job
    attempt : Airflow's id of the try; None: a person started the job
    time : ISO 8601, UTC
    """

    kind: str = Field(alias="class")
    exit_code: int
    retry: bool
    message: str
    job: str
    attempt: str | None = None
    time: str


class ChannelWork(FileModel):
    """Work of one channel in a window.

    Parameters
    ----------
    channel : its number; None: by a release that listed channels in their order
    rows : events that came to it
    seconds : that its task took; 0: Spark did not report them
    """

    channel: int | None = None
    rows: int
    seconds: float


class WindowRecord(FileModel):
    """A window that was applied.

    Parameters
    ----------
    start : its first day
    end : the day after its last
    epoch : number of the epoch whose function routed it
    rows : number of its events
    channels : work of each channel
    merge_seconds : name of each state table, and the seconds of its MERGE
    seconds : that the whole took
    """

    start: date | None = None
    end: date | None = None
    epoch: int | None = None
    rows: int | None = None
    channels: list[ChannelWork]
    merge_seconds: dict[str, float] | None = None
    seconds: float | None = None
