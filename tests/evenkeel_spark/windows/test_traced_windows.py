"""Real windows and notes do only what the model of the protocol allows, at each point they pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.windows.applied_windows import applied
from evenkeel_spark.windows.undo_window import undo_window
from evenkeel_spark.windows.window_notes import renew
from partitioning.errors import InputError
from tests import conftest
from tests.chaos.points import Fault, Stop, watched
from tests.model.protocols.now import NOW
from tests.model.protocols.scenarios import MORE
from tests.model.protocols.windows import DAYS
from tests.model.state import UNKNOWN
from tests.model.trace import PartedError, Trace, WindowsSeen, windows_seen

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FIRST = date(2013, 1, 8)
#: Windows, notes, and a RESTORE by hand.
SCENARIO = MORE["windows and RESTORE"]._replace(jobs=(*DAYS, "maintain", "undo"))
MERGED = "MERGE of rows"


class World:
    """A table with state of the days before the first one, as the model can see its windows."""

    def __init__(self, spark: SparkSession, ready: conftest.World) -> None:
        self.spark, self.table = spark, ready.table
        self.path = self.table.spec.state["totals"].path
        days = ready.events["at"].dt.date
        self.events = [int((days == FIRST + timedelta(days=n)).sum()) for n in (0, 1)]
        self.first, self.version = self._trips(), state.table_version(spark, self.path)
        self.trace = Trace(NOW, SCENARIO, self.look, windows_seen, planned=False)

    def _trips(self) -> int:
        rows = self.spark.read.format("delta").load(self.path)
        return int(rows.agg(F.sum("trips")).collect()[0][0])

    def look(self) -> WindowsSeen:
        more, (one, other) = self._trips() - self.first, self.events
        (held,) = [(a, b) for a in range(4) for b in range(4) if a * one + b * other == more]
        try:
            until = applied(self.spark, self.table, "totals").until
        except InputError:
            until = None
        count = commits.windows_count(self.spark, self.path, self.table.spec.table)
        return WindowsSeen(UNKNOWN if until is None else (until - FIRST).days, held, count)

    def run(self, name: str, fault: Fault | None = None) -> None:
        """Run a job, look at each point that it passes, and let a fault come at one of them."""
        with self.trace.job(name) as look:

            def point(label: str) -> None:
                look(label)
                if fault is not None:
                    fault(label)

            with watched(point):
                self.do(name)

    def do(self, name: str) -> None:
        if name in DAYS:
            start, end = (FIRST + timedelta(days=n) for n in DAYS[name])
            apply_window(self.spark, self.table, start, end)
        elif name == "maintain":
            # A year from now a note is due.
            renew(self.spark, self.table, time.time() + 365 * 86400)
        else:
            undo_window(self.spark, self.table)

    def restore(self) -> None:
        sql = f"RESTORE TABLE {state.sql_name(self.path)} TO VERSION AS OF {self.version}"
        self.trace.hand("RESTORE", lambda: self.spark.sql(sql))


@pytest.fixture
def world(spark: SparkSession, ready: conftest.World) -> World:
    return World(spark, ready)


def test_windows_and_a_note_do_what_the_model_allows(world: World) -> None:
    for name in ("window", "maintain", "next window"):
        world.run(name)
    assert world.trace.now == WindowsSeen(2, (1, 1), 3)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_window_that_is_killed_is_in_once(world: World, when: str) -> None:
    fault = Fault(f"{when} {MERGED}", _stop)
    with suppress(Stop):
        world.run("window", fault)
    assert fault.at is None and world.look().held == ((1, 0) if when == "after" else (0, 0))
    if when == "before":
        world.run("window")
    world.do("window")
    assert world.look() == world.trace.now == WindowsSeen(1, (1, 0), 1)


@pytest.mark.parametrize("other", ["window", "wide window", "maintain"])
def test_a_job_that_comes_first_is_what_the_model_allows(world: World, other: str) -> None:
    """The window's own MERGE is then skipped by Delta, and it looks what is in."""
    fault = Fault(f"before {MERGED}", lambda: world.run(other))
    # It finds its own days in, or that a note has come alone, and else stops.
    refused = pytest.raises(InputError) if other == "wide window" else nullcontext()
    with refused:
        world.run("window", fault)
    assert fault.at is None
    assert world.look().held == ((1, 1) if other == "wide window" else (1, 0))


def test_a_window_upon_rows_that_were_brought_back_is_undone(world: World) -> None:
    world.run("window")
    fault = Fault(f"before {MERGED}", world.restore)
    with pytest.raises(InputError, match="expected each window upon the rows that it had seen"):
        world.run("next window", fault)
    assert world.trace.now == WindowsSeen(UNKNOWN, (0, 1), 2)
    world.run("undo")
    assert world.trace.now == WindowsSeen(0, (0, 0), 2)


def test_windows_without_transaction_ids_part_from_the_model(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace is no proof if it lets everything pass."""
    real: Callable[..., Any] = commits.our_commit
    without = lambda spark, app, number, meta: real(spark, None, None, meta)  # noqa: E731
    monkeypatch.setattr(job.commits, "our_commit", without)
    with pytest.raises(PartedError, match=r"held=\(1, 0\), count=0[^\n]*\nthe model allows"):
        world.run("window")


def _stop() -> None:
    raise Stop
