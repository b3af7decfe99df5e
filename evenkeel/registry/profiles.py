"""Stored profiles and plans of runs and epochs."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.run_files import KeptFiles
from evenkeel.registry.store import RESTORE
from partitioning.errors import DamagedError, InputError
from partitioning.function.hashing import KeyColumn
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile

_DAYS_NAME = re.compile(r"\d{4}-\d\d-\d\d.*")


@dataclass(frozen=True)
class Learned:
    """A stored profile.

    Parameters
    ----------
    profile : of the window
    source : name of the run, or number of the epoch, that keeps it
    epoch : number of the epoch at which it was learned
    tables : version of each state table that was weighed
    row : column by which keys may be split; None: none
    footer : bytes that a file of state takes beside its rows; None: not known
    at : when it was learned, UTC; None: not known
    """

    profile: Profile
    source: str
    epoch: int
    tables: dict[str, int]
    row: KeyColumn | None = None
    footer: float | None = None
    at: str | None = None


def run_names(registry: Registry) -> list[str]:
    """List the names of runs, newest first by the time in their names.

    A run without a time in its name counts from when it learned its profile. If it has none, it
    comes last.
    """

    def when(name: str) -> str:
        if found := _DAYS_NAME.search(name):
            return found[0]
        with suppress(DamagedError):
            learned = registry.run(name).learned.find()
            # As folders' names have it.
            return ((learned and learned.at) or "").replace(":", "-")
        return ""

    return sorted(registry.store.names("runs"), key=lambda n: (when(n), n), reverse=True)


def newest_profile(registry: Registry) -> Learned:
    """Read the newest profile that a run has learned or an epoch has kept.

    Profiles of the watch do not count: they are of minutes, not of a window.

    Raises
    ------
    InputError : there is none
    DamagedError : it is torn
    """
    folders: list[tuple[str, KeptFiles]] = [(n, registry.run(n)) for n in run_names(registry)]
    folders += [(f"{n:08d}", registry.archive(n)) for n in reversed(registry.numbers())]
    for name, folder in folders:
        if not folder.profile.exists() or folder.watch_decision.exists():
            continue
        if (of := folder.learned.find()) is not None:
            profile = folder.profile.read()
            return Learned(profile, name, of.epoch, of.tables, of.column, of.footer, of.at)
    raise InputError(
        "no profile is learned yet", registry.url, "Start a run; a dry run learns one, too"
    )


def epoch_plan(registry: Registry, number: int) -> Plan | None:
    """Read the plan that led to an epoch; None: it was bootstrapped, or its plan is missing.

    Raises
    ------
    DamagedError : it is torn, or not the plan whose digest the epoch carries
    """
    file = registry.archive(number).plan
    plan = file.find()
    if plan is not None and plan.digest != registry.epoch(number).plan_digest:
        raise DamagedError(
            "is not the plan that led to this epoch: it was edited", file.path, RESTORE
        )
    return plan
