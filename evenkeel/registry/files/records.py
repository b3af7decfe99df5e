"""Models of the JSON files of a run, an epoch and the registry.

Fields that an earlier release did not write are optional. A plan, a profile and a decision are
values of `partitioning`, and are stored as they are.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PlainSerializer, field_validator

from evenkeel.registry.files.stored_file import FileModel
from partitioning.errors import InputError
from partitioning.function.hashing import KeyColumn

#: A time with its zone, written as Python's `isoformat` writes it.
Moment = Annotated[datetime, PlainSerializer(datetime.isoformat)]


class SplitColumn(FileModel):
    """Column that tells the rows of a split key apart."""

    name: str
    type: str

    @classmethod
    def of(cls, column: KeyColumn | None) -> Self | None:
        """Return a column as the file has it."""
        return None if column is None else cls(name=column.name, type=column.type)

    @property
    def column(self) -> KeyColumn:
        """The column as the function takes it."""
        return KeyColumn(self.name, self.type)


class ProfileRecord(FileModel):
    """Source of a profile; `profile.npz` beside it has the loads.

    Parameters
    ----------
    epoch : number of the epoch that was current then
    tables : version of each state table that was weighed
    seconds : that learning took
    row : column by which keys may be split; None: keys stay whole
    footer : bytes that a file of state takes beside its rows; None: not known
    at : when it was learned, UTC; None: by a release that did not note it
    """

    epoch: int
    tables: dict[str, int]
    seconds: float | None = None
    row: SplitColumn | None = None
    footer: float | None = None
    at: str | None = None

    @field_validator("row")
    @classmethod
    def _is_a_column(cls, row: SplitColumn | None) -> SplitColumn | None:
        try:
            _ = row and row.column
        except InputError as error:
            raise ValueError(f"a column ({error.what})") from error
        return row

    @property
    def column(self) -> KeyColumn | None:
        """Column by which keys may be split; None: keys stay whole."""
        return self.row and self.row.column


class Question(FileModel):
    """The plan that a person was asked about. Airflow shows the first one in a run for ever."""

    digest: str


class Approval(FileModel):
    """Who approved or refused the plan of that digest, and when (ISO 8601)."""

    approved: bool
    by: str
    when: str
    #: None: of the run's plan, as version 0.1.0 wrote it.
    digest: str | None = None

    def refuses(self, digest: str) -> bool:
        """Return whether it is a no to the plan of that digest."""
        return not self.approved and self.digest in (None, digest)


class TableVersionRecord(FileModel):
    """A state table's folder and the Delta version that goes with an epoch."""

    path: str
    version: int


class EpochRecord(FileModel):
    """An epoch: its function as plain values, and a digest over all else, which shows a torn file.

    Every field counts in the digest, even one of a later release.
    """

    model_config = ConfigDict(extra="allow")

    format: Literal[1]
    number: int
    function: dict[str, Any]
    plan_digest: str | None
    tables: dict[str, TableVersionRecord]
    published: str
    digest: str


class Manifest(FileModel):
    """The sha256 of each file that an epoch keeps, which shows a torn or edited one."""

    sha256: dict[str, str]


class ParamsRecord(FileModel):
    """Parameters of a run, of which these matter after the plan; the others are kept for people.

    Parameters
    ----------
    to_epoch : the run goes back to this epoch
    watch : number of the micro-batch, in a run of the watch
    dry_run : nothing is to move
    batch, batch_files, rate, rate_rows : as in `Throttling`
    """

    model_config = ConfigDict(extra="allow")

    to_epoch: int | None = None
    watch: int | None = None
    dry_run: bool = False
    batch: int | None = None
    batch_files: int | None = None
    rate: int | None = None
    rate_rows: int | None = None


class LearningMark(FileModel):
    """Mark of a run that learns: number of the current epoch, when it began, and which attempt."""

    epoch: int
    at: Moment
    #: A random name. Files of earlier releases have none.
    attempt: str = ""


class MovingMark(FileModel):
    """Mark of a run that began to move rows. It goes once another run begins after its end."""

    run: str


class WatchDecision(FileModel):
    """Decision of the watch for a run to carry out.

    Parameters
    ----------
    number : of the micro-batch
    weights : of each key's owners, by hash
    reason : in words
    """

    number: int
    weights: dict[int, dict[int, float]]
    reason: str


class ExpectationRecord(FileModel):
    """One expectation of a gate, as in `ExpectationResult`."""

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


class BootstrapRecord(FileModel):
    """The folders of the state tables that a bootstrap writes, from before its first write.

    It writes this again each minute, with the `time`, until the tables are made.
    """

    state: list[str]
    time: str | None = None


class ReleaseRecord(FileModel):
    """Time at which the last adopted table was released, until they are adopted again."""

    time: str


class Membership(FileModel):
    """A state table that joined or left under that function; guarded: its constraint is to go."""

    epoch: int
    function: str
    path: str
    left: bool
    guarded: bool = False


class ChannelRecord(FileModel):
    """A channel as the spec lists it."""

    name: str
    capacity: float


SpecChannels = Annotated[list[ChannelRecord], Field(min_length=1)]


class ChannelWork(FileModel):
    """Work of one channel: events, and seconds of its task (0 if Spark did not report them)."""

    channel: int | None = None
    rows: int
    seconds: float


class WindowRecord(FileModel):
    """A window that was applied.

    Parameters
    ----------
    start, end : its first day, and the day after the last
    epoch : number of the epoch whose function routed it
    rows : events
    channels : work of each channel
    merge_seconds : time of each state table's MERGE
    seconds : of the whole
    """

    start: date | None = None
    end: date | None = None
    epoch: int | None = None
    rows: int | None = None
    channels: list[ChannelWork]
    merge_seconds: dict[str, float] | None = None
    seconds: float | None = None
