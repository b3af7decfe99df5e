"""Which run has begun to move a table and has neither published nor undone it, by files alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel.registry.epochs import Registry
from evenkeel.registry.run_folder import RunFolder
from evenkeel.registry.store import shaped
from partitioning.errors import EvenkeelError

#: Newest runs that are looked at. A table moves in one run at a time, and later ones are refused
#: until that one ends, so few runs without a migration can be newer.
LOOKED_AT = 100


@dataclass(frozen=True)
class HalfMoved:
    """A migration that has begun and not ended: writers of both epochs are admitted.

    Parameters
    ----------
    run : name of the run's folder
    digest : of its plan
    epoch : number of the epoch that it was to publish
    rows, planned : rows moved, of those to move; None: it had moved none when it last said
    undoing : rolling back has begun and has not ended
    """

    run: str
    digest: str
    epoch: int
    rows: float | None = None
    planned: float | None = None
    undoing: bool = False

    @property
    def done(self) -> str:
        """How far it is, in words."""
        if self.rows is None or self.planned is None:
            return "no row was reported as moved yet"
        back = " moved back" if self.undoing else " moved"
        return f"{self.rows:,.0f} of {self.planned:,.0f} rows{back}"


def half_moved(registry: Registry, names: list[str]) -> HalfMoved | None:
    """Find the newest run that has begun to move rows, if it has not ended.

    Parameters
    ----------
    names : of the table's runs, newest first

    Raises
    ------
    DamagedError : a file that tells it is torn
    """
    for name in names[:LOOKED_AT]:
        run = registry.run(name)
        if run.exists("migration.json"):
            return half_moved_in(registry, run)
    return None


def half_moved_in(registry: Registry, run: RunFolder) -> HalfMoved | None:
    """Tell whether this run has begun to move rows and has not ended; errors as above."""
    if not run.exists("migration.json"):
        return None
    told = shaped(run.read_json("migration.json"), run.path("migration.json"), digest=str)
    digest, epoch = told["digest"], told.get("epoch")
    if not isinstance(epoch, int):
        plan = run.read_json("plan.json")
        function = shaped(plan, run.path("plan.json"), function=dict)["function"]
        epoch = shaped(function, run.path("plan.json"), epoch=int)["epoch"]
    if (known := registry.numbers()) and epoch <= known[-1]:
        # By this plan, or by another one: then the tables were brought there since.
        return None
    mark = _of(run, "rolled_back.json", digest, digest=str, done=bool)
    if mark is not None and mark["done"]:
        return None
    progress = _of(run, "progress.json", digest, digest=str, rows=int | float, planned=int | float)
    if progress is None:
        return HalfMoved(run.name, digest, epoch, undoing=mark is not None)
    rows, planned = float(progress["rows"]), float(progress["planned"])
    return HalfMoved(run.name, digest, epoch, rows, planned, mark is not None)


def _of(run: RunFolder, file: str, plan: str, **shape: Any) -> dict[str, Any] | None:
    """What a file says of the plan of that digest."""
    if not run.exists(file):
        return None
    try:
        told: dict[str, Any] = shaped(run.read_json(file), run.path(file), **shape)
    except EvenkeelError:
        # How far it is is nice to know; that it has not ended must be told all the same.
        return None
    return told if told["digest"] == plan else None
