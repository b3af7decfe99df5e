"""Small Iceberg tables at stages of their life, and what must hold of them at any time."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from evenkeel.pipeline import steps
from evenkeel.registry.files.stored_file import StoredFile
from evenkeel.spec.run_params import Params
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.maintain import steps as maintain_steps
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs import learn
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.tables.iceberg.table import IcebergTable
from tests.conftest import World

NAMES = ("orders", "profiles")
#: Stages of one life, each after the one before. Run r1 is to publish epoch 1. At verified, the
#: tables refuse writers by epoch 0, and are not decided to be published.
STAGES = ("team", "adopted", "planned", "migrated", "verified", "published")
#: Methods that change a table or a file of the registry.
WRITES: dict[type, tuple[str, ...]] = {
    IcebergTable: ("small_commit", "follow", "write"),
    StoredFile: ("create", "write", "remove"),
}
Rows = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Stages:
    """Copies of one folder. Iceberg's metadata has absolute paths, so all go back to that folder.

    Parameters
    ----------
    now, kept : the folder in use, and the folder of its copies
    lake_in : makes a session that has read none of its tables
    """

    spark: SparkSession
    now: Path
    kept: Path
    lake_in: Callable[[SparkSession, Path], SparkSession]

    def keep(self, name: str) -> None:
        """Keep a copy of how everything is now."""
        shutil.copytree(self.now, self.kept / name)

    def back(self, name: str) -> Case:
        """Bring everything back to how it was."""
        shutil.rmtree(self.now)
        shutil.copytree(self.kept / name, self.now)
        return self.anew()

    def anew(self) -> Case:
        """See everything as it is now, as another process would."""
        return Case(self.lake_in(self.spark, self.now), World(self.now))

    def has(self, name: str) -> bool:
        return (self.kept / name).exists()

    def go(self, name: str) -> Case:
        """Go to a stage of `STAGES`."""
        if self.has(name):
            return self.back(name)
        case = self.go(STAGES[STAGES.index(name) - 1])
        if name == "adopted":
            adopt(case.spark, case.world.table)
        elif name == "planned":
            case.plan("r1")
        elif name == "migrated":
            case.migrate()
        elif name == "verified":
            with pytest.raises(Crash), at_each(crash_at("verified")):
                case.verify()
        else:
            case.verify()
        self.keep(name)
        return self.anew()


@dataclass(frozen=True)
class Case:
    """Two tables of a team, orders and profiles, and the session that a job is given."""

    spark: SparkSession
    world: World

    def table(self, name: str) -> IcebergTable:
        found = IcebergTable(self.spark, f"lake.db.{name}")
        found.refresh()
        return found

    def rows(self) -> Rows:
        """The team's columns of both tables, sorted."""
        found = {}
        for name in NAMES:
            rows = self.table(name).rows().drop("slot", "channel")
            found[name] = sorted(tuple(map(str, r)) for r in rows.collect())
        return found

    def plan(self, run: str, capacities: tuple[float, ...] = (1, 1, 1, 0.3)) -> Migration:
        """Learn and plan."""
        learn._body(self.spark, self.world.table, Namespace(run=run, end=None, relearn="no"))
        steps.decide(
            self.world.spec_path, run, asked := Params(force=True, capacities=list(capacities))
        )
        steps.plan(self.world.spec_path, run, asked)
        steps.validate_plan(self.world.spec_path, run)
        return self.migration(run)

    def migration(self, run: str) -> Migration:
        table = self.world.table
        digest = steps.read_plan(table.registry.run(run)).digest
        return approved_migration(table, run, digest)

    def migrate(self, run: str = "r1") -> None:
        migrate(self.spark, self.migration(run))

    def verify(self, run: str = "r1") -> None:
        verify(self.spark, self.migration(run))

    def roll_back(self, run: str = "r1") -> None:
        roll_back(self.spark, self.migration(run))

    def repair(self, dry_run: bool = False) -> list[str]:
        return repair(self.spark, self.world.table, dry_run)

    def maintain(self, only: str = "") -> None:
        for name, step in maintain_steps(self.spark, self.world.table):
            if only in name:
                step()

    def heads(self) -> dict[str, int]:
        """The newest snapshot of main of each table."""
        return {name: self.table(name).head() for name in NAMES}

    def misplaced(self) -> int:
        """Rows that are not where the current epoch says."""
        epoch, wrong = self.world.table.epoch(), 0
        for name in NAMES:
            rows = self.table(name).rows().toPandas()
            right = (rows["channel"] == epoch.lookup(rows["dest"])) & (
                rows["slot"] == epoch.lookup_slot(rows["dest"])
            )
            wrong += int((~right).sum())
        return wrong

    def check(self, before: Rows, epoch: int, misplaced: int = 0) -> None:
        """See that no row of the team has changed, and that all is as the epoch says."""
        assert self.world.table.epoch().number == epoch
        for name in NAMES:
            table = self.table(name)
            assert table.epoch() == epoch
            assert list(table.refs()) == ["main"]
        assert self.rows() == before
        assert self.misplaced() == misplaced


class Crash(BaseException):
    """What the end of the process becomes in a test."""


@contextmanager
def at_each(step: Callable[[str], None], writes: bool = False) -> Iterator[None]:
    """Call `step` at each crash point of the jobs.

    Parameters
    ----------
    writes : and after each commit to a table, and each change of a file of the registry
    """

    def followed_by_step(owner: type, name: str) -> Callable[..., Any]:
        method = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            found = method(*arguments)
            step(f"{owner.__name__}.{name}")
            return found

        return call

    with ExitStack() as stack:
        stack.enter_context(patch("evenkeel_spark.runtime.crash_point.reached", step))
        for owner, names in WRITES.items() if writes else ():
            for name in names:
                stack.enter_context(patch.object(owner, name, followed_by_step(owner, name)))
        yield


def reached(job: Callable[[], object], writes: bool = False) -> list[str]:
    """Run a job, and list the steps that it passes."""
    found: list[str] = []
    with at_each(found.append, writes):
        job()
    return found


def crash_at(point: str) -> Callable[[str], None]:
    """Return a step that ends the process at a crash point."""

    def step(name: str) -> None:
        if name == point:
            raise Crash

    return step


def crash(job: Callable[[], object], number: int, writes: bool = False) -> None:
    """Run a job until its step of that number, from 0, where its process ends."""
    left = [number]

    def step(_: str) -> None:
        if not left[0]:
            raise Crash
        left[0] -= 1

    with at_each(step, writes), pytest.raises(Crash):
        job()


@contextmanager
def meanwhile(point: str, what: Callable[[], object]) -> Iterator[None]:
    """Somebody else does `what` the first time that the block comes to a crash point."""
    waiting = [what]

    def step(name: str) -> None:
        if name == point and waiting:
            waiting.pop()()

    with at_each(step):
        yield
    assert not waiting, f"{point} was not reached"
