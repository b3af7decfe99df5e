"""Models of a migration's JSON files: what is predicted, what is done, and how it ends.

Fields that an earlier release did not write are optional.
"""

from __future__ import annotations

from math import inf
from typing import Literal

from evenkeel.registry.files.stored_file import FileModel


class MoveSummary(FileModel):
    """A move of a plan, as in `Move`, without what it was weighed by.

    Parameters
    ----------
    kind : `slot`, `key`, or `share` of a split key
    item : number of the slot, or hash of the key
    rows : of state that move with it
    reason : why it moves, in words
    """

    kind: str
    item: int
    rows: float
    reason: str


class PlannedEpoch(FileModel):
    """The part of a plan's function that its summary keeps.

    Parameters
    ----------
    epoch : number of the epoch to which the plan leads
    """

    epoch: int


class PlanSummary(FileModel):
    """Summary of an epoch's plan for pages. Parsing it takes 1 ms; a whole plan takes 40 ms.

    Parameters
    ----------
    format : of the plan's file
    function : of the plan, its epoch alone
    imbalance_hashing : if each key went where plain hashing puts it; 1 is perfect
    imbalance_before : by the function until then
    imbalance_after : by the plan's function
    floor : least imbalance that any function can reach
    bytes : of state that move
    moves : of the plan, in the order in which they are made
    """

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
    rows : of state, in all tables
    bytes : of these rows
    files : that it writes
    """

    rows: float
    bytes: float
    files: int


class Prediction(FileModel):
    """Expected cost and saving of carrying out a plan; None: not measured yet.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex
    rows : of state that move
    bytes : of these rows
    written : bytes of the files that this writes, with their footers
    tables : number of state tables
    batches : of the migration, in order
    seconds : expected from the first commit to the last
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
    before : its version before
    after : its version after; as before if nothing had to move
    commits : version of each commit
    rows : written
    bytes : of the files that were written
    files : number of files that were written
    seconds : that the commits took
    elapsed : seconds from the first commit to the last, with the waits between them; None: release
        0.1.0 did not record it
    bytes_per_row : mean size of a row in its files before, in bytes
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
    """State tables whose rows were moved for a plan.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex
    epoch : number of the epoch to which the plan leads
    attempt : number of the attempt at the plan that moved them
    tables : name of each table, and the work in it; empty: the migration has begun
    """

    digest: str
    epoch: int
    attempt: int = 1
    tables: dict[str, TableMigrated]


class Progress(FileModel):
    """Progress of a throttled migration.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex
    rows : moved so far
    planned : rows to move; on a way back, those that had moved
    bytes : written so far
    left : seconds that it will still take, by what the commits have taken
    back : rows move back
    moves : moves of the plan that every state table has made; None: not known, as on a way back
    moves_planned : all moves of the plan; None: not known
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
    """State tables that were sealed for a plan: their constraint admits its function alone.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex
    epoch : number of the epoch to which the plan leads; None: by a release that did not note it
    attempt : number of the attempt at the plan that was verified
    tables : name of each table, and the version at which it was sealed
    """

    digest: str
    epoch: int | None = None
    attempt: int = 1
    tables: dict[str, int]


class AttemptNumber(FileModel):
    """Attempt at a plan that has begun. The first has no such file.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex; None: by a release that did not note it
    attempt : its number, from 2 on
    """

    digest: str | None = None
    attempt: int


class Verdict(FileModel):
    """Decision on an attempt at a plan. The first one that is written counts.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex; None: by a release that did not note it
    attempt : number of the attempt; None: by a release that did not note it, too
    verdict : `publish`: it becomes an epoch; `roll_back`: its rows go back
    """

    digest: str | None = None
    attempt: int | None = None
    verdict: str


class PlanMark(FileModel):
    """Mark of a plan: no attempt may carry it out any more, or it alone may publish an epoch.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex
    """

    digest: str


class RolledBack(FileModel):
    """Progress of a rollback.

    Parameters
    ----------
    digest : of the plan: its sha256 in hex
    attempt : number of the attempt that is rolled back; files of release 0.1.0 have none, and are
        of the first
    done : the rollback has ended
    """

    digest: str
    attempt: int = 1
    done: bool
