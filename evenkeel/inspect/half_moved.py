"""The migration that has begun and not ended, found from the registry's files alone.

A table may have thousands of runs that moved nothing. So each run that begins to move rows leaves a
mark, and marks say which runs to look at. A run's own files say whether it has ended.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.migration_records import Progress, RolledBack
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.files.stored_file import StoredFile
from partitioning.errors import EvenkeelError

T = TypeVar("T", Progress, RolledBack)

#: Newest runs to look at where no run has a mark: earlier versions of Evenkeel left none. More of
#: them cost more reads.
LOOKED_AT = 100
#: Folder of the marks.
MARKS = "moving"


@dataclass(frozen=True)
class HalfMoved:
    """A migration that has begun and not ended. Writers of both epochs are admitted.

    Parameters
    ----------
    run : name of the run's folder
    digest : of its plan
    epoch : number of the epoch that it was to publish
    rows, planned : rows moved so far, and rows to move; None: the run has reported none yet
    undoing : a rollback has begun and has not ended
    """

    run: str
    digest: str
    epoch: int
    rows: float | None = None
    planned: float | None = None
    undoing: bool = False

    @property
    def done(self) -> str:
        """Progress in words."""
        if self.rows is None or self.planned is None:
            return "no row was reported as moved yet"
        back = " moved back" if self.undoing else " moved"
        return f"{self.rows:,.0f} of {self.planned:,.0f} rows{back}"


def mark_moving(registry: Registry, run: RunFiles) -> None:
    """Mark a run that is about to move rows, and remove the marks of runs that have ended.

    The run's `migration` must exist before. Otherwise another run could take it for ended.
    """
    registry.store.write_json(f"{MARKS}/{run.name}.json", {"run": run.name})
    for name in marked_runs(registry):
        if name != run.name and find_half_moved(registry, registry.run(name)) is None:
            registry.store.remove(f"{MARKS}/{name}.json")


def marked_runs(registry: Registry) -> list[str]:
    """Return the names of the runs that have marks."""
    return [n.removesuffix(".json") for n in registry.store.names(MARKS) if n.endswith(".json")]


def half_moved(registry: Registry, names: list[str]) -> HalfMoved | None:
    """Find the run that has begun to move rows and has not ended, among the runs with marks.

    A table moves in one run at a time. Without any mark, it is the newest run that has begun.

    Parameters
    ----------
    registry : of the table
    names : of the table's runs, newest first

    Raises
    ------
    DamagedError : a file of the run is torn
    """
    marked = marked_runs(registry)
    if marked:
        found = (find_half_moved(registry, registry.run(name)) for name in marked)
        return next((half for half in found if half is not None), None)
    for name in names[:LOOKED_AT]:
        run = registry.run(name)
        if run.migration.exists():
            return find_half_moved(registry, run)
    return None


def find_half_moved(registry: Registry, run: RunFiles) -> HalfMoved | None:
    """Return this run's migration if it has begun and not ended. Errors as in `half_moved`."""
    record = run.migration.find()
    if record is None:
        return None
    if (known := registry.numbers()) and record.epoch <= known[-1]:
        # The epoch was published, by this plan or by another one. The tables have reached it since.
        return None
    mark = _of_plan(run.rolled_back, record.digest)
    if mark is not None and mark.done:
        return None
    half = HalfMoved(run.name, record.digest, record.epoch, undoing=mark is not None)
    progress = _of_plan(run.progress, record.digest)
    return half if progress is None else replace(half, rows=progress.rows, planned=progress.planned)


def _of_plan(file: StoredFile[T], digest: str) -> T | None:
    """Read what a file says about the plan with this digest; None: nothing, or it is damaged."""
    # Progress is only a help: an unfinished migration must be reported without it, too.
    with suppress(EvenkeelError):
        content = file.find()
        return content if content is not None and content.digest == digest else None
    return None
