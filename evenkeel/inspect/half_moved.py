"""The migration that has begun and not ended, found from the registry's files alone.

A table may have thousands of runs that moved nothing. So each run that begins to move rows leaves a
mark, and marks say which runs to look at. A run's own files say whether it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.migration_records import Progress
from evenkeel.registry.files.records import MovingMark
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.pruning import readable_plan
from evenkeel.registry.verdict import (
    ROLL_BACK,
    forbid,
    mark,
    newest_attempt,
    read_rolled_back,
    settle,
    withdraw,
)
from partitioning.errors import DamagedError, EvenkeelError, FenceError

#: Newest runs to look at where no run has a mark: earlier versions of Evenkeel left none. More of
#: them cost more reads.
SEARCHED_RUNS = 100


@dataclass(frozen=True)
class HalfMoved:
    """A migration that has begun and not ended. Writers of both epochs are admitted.

    Parameters
    ----------
    run : name of the run's folder
    digest : of its plan
    epoch : number of the epoch that it was to publish
    progress : as the run has reported it, perhaps in an attempt before; None: it has reported none
    undoing : a rollback has begun and has not ended
    damaged : the file that is torn, so that nobody knows how far a rollback is; None: none is
    """

    run: str
    digest: str
    epoch: int
    progress: Progress | None = None
    undoing: bool = False
    damaged: str | None = None

    @property
    def done(self) -> str:
        """Progress in words."""
        if (told := self.progress and self.progress.text(self._undoing)) is not None:
            return told
        if self._undoing:
            return "rolling back has begun; no row was reported as moved"
        return "no row was reported as moved yet"

    @property
    def moved_back(self) -> bool:
        """Whether the progress counts rows that moved back."""
        return self._undoing and self.progress is not None and self.progress.back

    @property
    def _undoing(self) -> bool:
        # If nobody knows whether a rollback has begun, rows that moved back tell it.
        if self.damaged is not None and self.progress is not None:
            return self.progress.back
        return self.undoing


def mark_moving(registry: Registry, run: RunFiles) -> None:
    """Mark a run that is about to move rows, and remove the marks of runs that have ended.

    The run's `migration` must exist before. Otherwise another run could take it for ended.
    """
    registry.files.moving(run.name).write(MovingMark(run=run.name))
    for name in registry.files.moving_runs():
        # Nobody knows whether a run with a torn record has ended: its mark stays.
        with suppress(DamagedError):
            if name != run.name and find_half_moved(registry, registry.run(name)) is None:
                registry.files.moving(name).remove()


def moving_plans(registry: Registry) -> Iterator[tuple[str, str]]:
    """Yield run and digest of each plan with a mark, whose record of the migration can be read."""
    for name in registry.files.moving_runs():
        with suppress(DamagedError):
            if (record := registry.run(name).migration.find()) is not None:
                yield name, record.digest


def end_damaged_runs(registry: Registry, dry_run: bool = False) -> list[str]:
    """End each run that has begun to move rows and cannot end itself.

    It has lost the plan or the record of it, or a repair has given it up.

    Call it once every table is at rest: such a run has then ended, whatever its files said. It is
    marked as rolled back and withdrawn, so that nothing carries its plan out again.

    Parameters
    ----------
    registry : of the table
    dry_run : only say which; change nothing

    Returns
    -------
    Names of the runs.
    """
    ended = []
    for name in registry.files.moving_runs():
        run, half, torn = registry.run(name), None, False
        try:
            half = find_half_moved(registry, run)
        except DamagedError:
            torn = True
        plan = readable_plan(run)
        whole = half is None or (
            plan is not None
            and plan.digest == half.digest
            and not run.withdrawn(half.digest).exists()
        )
        if whole and not torn:
            continue
        ended.append(name)
        if dry_run:
            continue
        # A mark of a rollback that is torn, too, stops every job of the run.
        with suppress(DamagedError):
            if (digest := half.digest if half else plan and plan.digest) is not None:
                _end_back(run, digest)
        if torn:
            run.migration.remove()
    return ended


def _end_back(run: RunFiles, digest: str) -> None:
    """Mark the newest attempt as rolled back, unless it is decided to publish, and withdraw it."""
    number = newest_attempt(run, digest).number
    if settle(run, digest, number, ROLL_BACK) == ROLL_BACK:
        mark(run, digest, number, done=True)
        withdraw(run, digest)
    else:
        # No row of it has moved any more. Its plan may be there yet, and a cleared job publish it.
        forbid(run, digest)
        run.migration.remove()


def half_moved(registry: Registry, names: list[str]) -> HalfMoved | None:
    """Find the run that has begun to move rows and has not ended, among the runs with marks.

    A table moves in one run at a time. Without any mark, it is the newest run that has begun.

    Parameters
    ----------
    registry : of the table
    names : of the table's runs, newest first

    Raises
    ------
    DamagedError : the record of a run is torn, and no other run has left the table half moved
    """
    torn = None
    marked = registry.files.moving_runs()
    for name in marked:
        try:
            half = find_half_moved(registry, registry.run(name))
        except DamagedError as error:
            torn = error
            continue
        if half is not None:
            return half
    if torn is not None:
        raise torn
    for name in () if marked else names[:SEARCHED_RUNS]:
        run = registry.run(name)
        if run.migration.exists():
            return find_half_moved(registry, run)
    return None


def find_half_moved(registry: Registry, run: RunFiles) -> HalfMoved | None:
    """Return this run's migration if it has begun and not ended.

    Raises
    ------
    DamagedError : its record of the migration is torn
    """
    record = run.migration.find()
    if record is None:
        return None
    if (known := registry.numbers()) and record.epoch <= known[-1]:
        # The epoch was published, by this plan or by another one. The tables have reached it since.
        return None
    half = HalfMoved(run.name, record.digest, record.epoch)
    try:
        back = read_rolled_back(run, record.digest)
    except DamagedError as error:
        # Nobody knows whether it was rolled back. To say that it was would hide rows.
        half = replace(half, damaged=str(error))
    else:
        if _replaced(run, record.digest) if back is None else back.done:
            return None
        half = replace(half, undoing=back is not None)
    # Progress is only a help: an unfinished migration must be reported without it, too.
    with suppress(EvenkeelError):
        progress = run.progress.find()
        if progress is not None and progress.digest == record.digest:
            half = replace(half, progress=progress)
    return half


def check_rests(registry: Registry, run: RunFiles) -> None:
    """Refuse to end a run, or to ask a person about its plan, while its rows are half moved.

    Raises
    ------
    FenceError : they are
    DamagedError : its record of the migration is torn
    """
    half = find_half_moved(registry, run)
    if half is not None:
        raise FenceError(
            f"rows of this run are half moved: {half.done}",
            run.url,
            "Leave it to roll_back, or clear migrate, which goes on",
        )


def _replaced(run: RunFiles, digest: str) -> bool:
    """Return whether a plan was rolled back, and another one of the run has its mark by now."""
    back = run.rolled_back.find()
    return back is not None and back.digest != digest and run.withdrawn(digest).exists()
