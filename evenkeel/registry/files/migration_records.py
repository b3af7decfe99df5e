"""Models of a migration's JSON files: what is predicted, what is done, and how it ends.

Fields that an earlier release did not write are optional.
"""

from __future__ import annotations

from math import inf
from typing import Literal

from evenkeel.registry.files.stored_file import FileModel


class MoveSummary(FileModel):
    """A move of a plan, as in `Move`, without what it was weighed by."""

    kind: str
    item: int
    rows: float
    reason: str


class PlannedEpoch(FileModel):
    """Number of the epoch to which a plan leads."""

    epoch: int


class PlanSummary(FileModel):
    """Summary of an epoch's plan for pages. Parsing it takes 1 ms; a whole plan takes 40 ms."""

    format: Literal[1]
    function: PlannedEpoch
    imbalance_hashing: float
    imbalance_before: float
    imbalance_after: float
    floor: float
    bytes: float
    moves: list[MoveSummary]


class Batch(FileModel):
    """One batch of a migration: one commit in each state table.

    Parameters
    ----------
    rows, bytes : of state, in all tables
    files : that it writes
    """

    rows: float
    bytes: float
    files: int


class Prediction(FileModel):
    """Expected cost and saving of carrying out a plan; None: not measured yet.

    Parameters
    ----------
    digest : of the plan
    rows, bytes : of state that moves
    written : bytes of the files that this writes, with their footers
    tables : number of state tables
    batches : in order
    seconds : from the first commit to the last
    limit : seconds that the limits on bytes and rows a second make of it at least; 0: no limit
    rate : bytes of state that earlier migrations moved in a second
    saved_daily : seconds that the windows of a day wait less for the fullest channel
    """

    digest: str
    rows: float
    bytes: float
    written: float
    tables: int
    batches: tuple[Batch, ...]
    seconds: float | None = None
    limit: float = 0.0
    rate: float | None = None
    saved_daily: float | None = None

    @property
    def commits(self) -> int:
        """Commits of all state tables."""
        return len(self.batches) * self.tables

    @property
    def files(self) -> int:
        """Files of all commits."""
        return sum(b.files for b in self.batches)

    @property
    def days(self) -> float | None:
        """Days after which the move has paid for itself; infinite if it saves nothing."""
        if self.seconds is None or self.saved_daily is None:
            return None
        return self.seconds / self.saved_daily if self.saved_daily > 0 else inf


class TableMigrated(FileModel):
    """Work of our commits in a state table.

    Parameters
    ----------
    path : its folder
    before, after : its versions before and after; equal if nothing had to move
    commits : their versions
    rows, bytes, files : written
    seconds : that the commits took
    elapsed : seconds from the first commit to the last, with the waits between them; None: release
        0.1.0 did not record it
    bytes_per_row : before
    """

    path: str
    before: int
    after: int
    commits: list[int]
    rows: int
    bytes: int
    files: int
    seconds: float
    elapsed: float | None = None
    bytes_per_row: float


class MigrationRecord(FileModel):
    """Tables moved for the plan of that digest; none: it has begun.

    Parameters
    ----------
    attempt : at the plan, that moved them
    """

    digest: str
    epoch: int
    attempt: int = 1
    tables: dict[str, TableMigrated]


class Progress(FileModel):
    """Progress of a throttled migration.

    Parameters
    ----------
    digest : of the plan
    rows, planned : rows moved so far, and rows to move: on a way back, those that had moved
    bytes : written
    left : seconds, by what the commits have taken
    back : rows move back
    moves, moves_planned : moves of the plan that every state table has made, and all of them; None:
        not known, as on a way back
    """

    digest: str
    rows: int
    planned: float
    bytes: int
    left: float
    back: bool = False
    moves: int | None = None
    moves_planned: int | None = None

    def text(self, undoing: bool) -> str | None:
        """Say how far rows are on the way that they go now; None: this is of an attempt before.

        Parameters
        ----------
        undoing : a rollback has begun
        """
        if self.back and not undoing:
            return None
        rows = f"{self.rows:,} of {self.planned:,.0f} rows"
        if self.moves is None or self.moves_planned is None:
            now = f"{rows} moved{' back' if self.back else ''}"
        else:
            now = f"{self.moves:,} of {self.moves_planned:,} moves done ({rows})"
        return now if self.back == undoing else f"rolling back has begun; before that, {now}"


class VerifyRecord(FileModel):
    """The version of each state table at which it was sealed for the plan of that digest.

    Parameters
    ----------
    attempt : at the plan, that was verified
    """

    digest: str
    epoch: int | None = None
    attempt: int = 1
    tables: dict[str, int]


class AttemptNumber(FileModel):
    """Number of an attempt at a plan that has begun. The first has no such file."""

    digest: str | None = None
    attempt: int


class Verdict(FileModel):
    """Decision on an attempt."""

    digest: str | None = None
    attempt: int | None = None
    verdict: str


class PlanMark(FileModel):
    """Mark of a plan: no attempt may carry it out any more, or it alone may publish an epoch."""

    digest: str


class RolledBack(FileModel):
    """Progress of a rollback.

    Parameters
    ----------
    digest : of the plan
    attempt : its number; files of release 0.1.0 have none, and are of the first
    done : the rollback has ended
    """

    digest: str
    attempt: int = 1
    done: bool
