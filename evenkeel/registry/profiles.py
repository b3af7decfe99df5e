"""Stored profiles and plans: what runs and epochs keep of them, read for whoever asks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from evenkeel.registry.epochs import Registry
from evenkeel.registry.run_folder import WATCHED, Folder
from evenkeel.registry.store import RESTORE, shaped
from partitioning.errors import DamagedError, InputError
from partitioning.function.function import KeyColumn
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d.*")


@dataclass(frozen=True)
class Learned:
    """A stored profile: the run or epoch that keeps it, the epoch that it was learned at, the
    version of each state table that was weighed, and the column by which keys may be split."""

    profile: Profile
    source: str
    epoch: int
    tables: dict[str, int]
    row: KeyColumn | None = None


def run_names(registry: Registry) -> list[str]:
    """Names of the runs that left anything, newest first by the time in their names; those
    without one come last."""

    def when(name: str) -> str:
        found = _MOMENT.search(name)
        return found[0] if found else ""

    return sorted(registry.store.names("runs"), key=lambda n: (when(n), n), reverse=True)


def newest_profile(registry: Registry) -> Learned:
    """The profile of the newest run that learned one, or that an epoch kept; the watch's are of
    minutes, and tell of no window.

    Raises
    ------
    InputError : there is none
    DamagedError : it is torn
    """
    folders: list[tuple[str, Folder]] = [(n, registry.run(n)) for n in run_names(registry)]
    folders += [(f"{n:08d}", registry.archive(n)) for n in reversed(registry.numbers())]
    for name, folder in folders:
        if not folder.exists("profile.npz") or not folder.exists("profile.json"):
            continue
        if folder.exists(WATCHED):
            continue
        meta = learned_from(folder.read_json("profile.json"), folder.path("profile.json"))
        return Learned(
            Profile.from_bytes(folder.read("profile.npz"), folder.path("profile.npz")),
            name,
            meta["epoch"],
            meta["tables"],
            meta["row"],
        )
    raise InputError("no profile is learned yet", registry.url, "A run, dry ones too, learns one")


def learned_from(data: Any, where: str) -> dict[str, Any]:
    """What profile.json holds: epoch, tables' versions, seconds, and as `row` the column by which
    keys may be split, or None; DamagedError for all else."""
    for version in shaped(data, where, epoch=int, tables=dict)["tables"].values():
        shaped({"version": version}, where, version=int)
    if "seconds" in data:
        shaped(data, where, seconds=int | float)
    if (row := data.get("row")) is not None:
        try:
            row = KeyColumn(**shaped(row, f"{where}: row", name=str, type=str))
        except (InputError, TypeError) as error:
            raise DamagedError(f"not a column ({error})", f"{where}: row", RESTORE) from error
    return {**data, "row": row}


def epoch_plan(registry: Registry, number: int) -> Plan | None:
    """The plan that led to an epoch; None for one that was bootstrapped, or that lost it.

    Raises
    ------
    DamagedError : it is torn, or not the plan whose digest the epoch carries
    """
    kept = registry.archive(number)
    if not kept.exists("plan.json"):
        return None
    where = kept.path("plan.json")
    plan = Plan.from_dict(kept.read_json("plan.json"), where)
    if plan.digest != registry.epoch(number).plan_digest:
        raise DamagedError("is not the plan that led to this epoch: it was edited", where, RESTORE)
    return plan
