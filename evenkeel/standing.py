"""How a table stands now: its epoch, its balance on the newest profile, its last gates.

Read for people: what is missing or damaged is told in `problems`, and the rest stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from evenkeel.data_docs import Page, pages
from evenkeel.epochs import Epoch, Registry
from evenkeel.folders import Folder
from evenkeel.half_moved import HalfMoved, half_moved
from evenkeel.store import RESTORE, shaped
from evenkeel.table import Table
from evenkeel.watching import WATCHED
from partitioning.bounds import floor
from partitioning.errors import DamagedError, EvenkeelError, InputError
from partitioning.function import KeyColumn
from partitioning.metrics import channel_loads, imbalance
from partitioning.plan import Plan
from partitioning.profile import Floats, Profile

T = TypeVar("T")
#: Epochs that are tried where the current one cannot be read.
LOOKED_AT = 64
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


@dataclass(frozen=True)
class Standing:
    """What a table is like now; None: not there, or not to be read (then `problems` says so).

    Parameters
    ----------
    epoch : the current one
    plan : the plan that led to it
    learned : the newest profile
    gates : the newest validation of each suite
    half : the migration that has begun and not ended, be it under way or stuck
    """

    table: Table
    epoch: Epoch | None
    plan: Plan | None
    learned: Learned | None
    gates: tuple[Page, ...]
    problems: tuple[str, ...]
    half: HalfMoved | None = None

    @cached_property
    def loads(self) -> Floats | None:
        """Load of each channel of the current function on the newest profile, shape (N,)."""
        if self.epoch is None or self.learned is None:
            return None
        return channel_loads(self.epoch.function, self.learned.profile)

    @cached_property
    def imbalance(self) -> float | None:
        """Of the current function on the newest profile."""
        if self.epoch is None or self.loads is None:
            return None
        return imbalance(self.loads, self.epoch.function.capacities)

    @cached_property
    def floor(self) -> float | None:
        """The least imbalance that the newest profile allows."""
        if self.epoch is None or self.learned is None:
            return None
        channels, split = self.epoch.function.channels, self.table.spec.split is not None
        return floor(self.learned.profile, channels, split)

    @cached_property
    def shares(self) -> list[float] | None:
        """Each channel's load in fair shares; infinite for load on a closed one."""
        if self.epoch is None or self.loads is None:
            return None
        own = self.epoch.function.capacities
        total = float(self.loads.sum()) or 1.0
        fair = own / own.sum() * total
        return [
            float(x / f) if f > 0 else (float("inf") if x else 0.0)
            for x, f in zip(self.loads, fair, strict=True)
        ]

    @property
    def hottest(self) -> int | None:
        """Number of the fullest channel."""
        shares = self.shares
        return None if shares is None else max(range(len(shares)), key=shares.__getitem__)


def standing(table: Table) -> Standing:
    """Read how a table stands; never raises our errors, tells them."""
    registry = table.registry
    problems: list[str] = []

    def tried(read: Callable[[], T | None]) -> T | None:
        try:
            return read()
        except EvenkeelError as error:
            problems.append(str(error))
            return None

    epoch = _readable(registry, problems)
    return Standing(
        table=table,
        epoch=epoch,
        plan=tried(lambda: epoch_plan(registry, epoch.number)) if epoch else None,
        learned=tried(lambda: newest_profile(registry)),
        gates=tuple(_newest(tried(lambda: pages(registry.store)) or [])),
        half=tried(lambda: half_moved(registry, run_names(registry))),
        problems=tuple(problems),
    )


def _readable(registry: Registry, problems: list[str]) -> Epoch | None:
    """The current epoch; where its file is damaged, the newest before it that can be read."""
    try:
        return registry.current()
    except DamagedError as error:
        problems.append(str(error))
    except EvenkeelError as error:
        problems.append(str(error))
        return None
    for number in reversed(registry.numbers()[-LOOKED_AT:-1]):
        try:
            epoch = registry.epoch(number)
        except EvenkeelError:
            continue
        problems.append(
            f"the current epoch cannot be read: what is told here is of epoch {number}, the last "
            "that can be"
        )
        return epoch
    return None


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
    folders += [(f"{n:08d}", registry.kept(n)) for n in reversed(registry.numbers())]
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
    kept = registry.kept(number)
    if not kept.exists("plan.json"):
        return None
    where = kept.path("plan.json")
    plan = Plan.from_dict(kept.read_json("plan.json"), where)
    if plan.digest != registry.epoch(number).plan_digest:
        raise DamagedError("is not the plan that led to this epoch: it was edited", where, RESTORE)
    return plan


def _newest(found: list[Page]) -> list[Page]:
    """The newest page of each suite; they come newest first."""
    first: dict[str, Page] = {}
    for page in found:
        first.setdefault(page.suite, page)
    return [first[suite] for suite in ("before", "after") if suite in first]
