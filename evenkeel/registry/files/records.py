"""Models of the JSON files of a run, an epoch and the registry.

Fields that an earlier release did not write are optional. A plan, a profile and a decision are
values of `partitioning`, and are stored as they are.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PlainSerializer, field_validator

from evenkeel.registry.files.stored_file import FileModel
from partitioning.errors import InputError
from partitioning.function.hashing import KeyColumn

#: A time with its zone, written as Python's `isoformat` writes it.
Moment = Annotated[datetime, PlainSerializer(datetime.isoformat)]


class SplitColumn(FileModel):
    """Column that tells the rows of a split key apart.

    Parameters
    ----------
    name : of the column
    type : its type, one that a key may have
    """

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
    """The plan that a person was asked about. Airflow shows the first one in a run for ever.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex
    """

    digest: str


class Approval(FileModel):
    """Answer of a person to a plan.

    Parameters
    ----------
    approved : no: the plan was refused
    by : name of the user in Airflow
    when : time of the answer, ISO 8601
    digest : of the plan; None: of the run's plan, as version 0.1.0 wrote it
    """

    approved: bool
    by: str
    when: str
    digest: str | None = None

    def refuses(self, digest: str) -> bool:
        """Return whether it is a no to the plan of that digest."""
        return not self.approved and self.digest in (None, digest)


class TableVersionRecord(FileModel):
    """A state table at an epoch.

    Parameters
    ----------
    path : its folder or URL, or its name in an Iceberg catalog
    version : of the table that goes with the epoch: Delta's version, or Iceberg's snapshot
    """

    path: str
    version: int


class EpochRecord(FileModel):
    """An epoch: its function as plain values, and a digest over all else, which shows a torn file.

    Every field counts in the digest, even one of a later release.

    Parameters
    ----------
    format : of this file
    number : of the epoch; epoch 0 is the one of bootstrap or adoption
    function : the partitioning function as plain values: see "The partitioning function"
    plan_digest : sha256 of the plan that it carried out, in hex; None: it had no plan
    tables : name of each state table, and its version
    published : when, ISO 8601, UTC
    digest : sha256 in hex over all other fields, as canonical JSON
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
    """Digests of the files that an epoch keeps, which show a torn or edited one.

    Parameters
    ----------
    sha256 : name of each file, and its sha256 in hex
    """

    sha256: dict[str, str]


class ParamsRecord(FileModel):
    """Parameters of a run, of which these matter after the plan; the others are kept for people.

    Parameters
    ----------
    to_epoch : the run goes back to this epoch
    watch : number of the micro-batch, in a run of the watch
    dry_run : nothing is to move
    batch : bytes that one commit may move; None: the spec's limit
    batch_files : files that one commit may write; None: the spec's limit
    rate : bytes a second that may move; None: the spec's limit
    rate_rows : rows a second that may move; None: the spec's limit
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
    """Mark of a run that learns.

    Parameters
    ----------
    epoch : number of the epoch that was current then
    at : when it began, with its zone
    attempt : a random name; files of earlier releases have none
    """

    epoch: int
    at: Moment
    attempt: str = ""


class MovingMark(FileModel):
    """Mark of a run that began to move rows. It goes once another run begins after its end.

    Parameters
    ----------
    run : name of the run's folder
    """

    run: str


class WatchDecision(FileModel):
    """Decision of the watch for a run to carry out.

    Parameters
    ----------
    number : of the micro-batch
    weights : hash of each key that changes, and what part of it each channel gets, by number
    reason : in words
    """

    number: int
    weights: dict[int, dict[int, float]]
    reason: str


class BootstrapRecord(FileModel):
    """The folders of the state tables that a bootstrap writes, from before its first write.

    It writes this again each minute, with the `time`, until the tables are made.

    Parameters
    ----------
    state : the folders
    time : when it was last written, ISO 8601, UTC; None: not since the first write
    """

    state: list[str]
    time: str | None = None


class ReleaseRecord(FileModel):
    """Mark of a release of the last adopted table. It goes when they are adopted again.

    Parameters
    ----------
    time : of the release, ISO 8601, UTC
    """

    time: str


class Membership(FileModel):
    """A state table that joined or left since the current epoch was published.

    Parameters
    ----------
    epoch : number of the epoch that was current then
    function : digest of its partitioning function
    path : the table's folder or URL, or its name in an Iceberg catalog
    left : no: it joined
    guarded : it left, and Evenkeel's constraint on it is still to go
    """

    epoch: int
    function: str
    path: str
    left: bool
    guarded: bool = False


class ChannelRecord(FileModel):
    """A channel as the spec lists it.

    Parameters
    ----------
    name : of the channel
    capacity : its share of the load, in proportion to those of the others; 0: it is drained
    """

    name: str
    capacity: float


SpecChannels = Annotated[list[ChannelRecord], Field(min_length=1)]
