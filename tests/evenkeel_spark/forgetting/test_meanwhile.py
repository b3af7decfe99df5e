"""Forgetting beside jobs that have read the events of the key before: they bring nothing back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.events.sketch_store import Sketches
from evenkeel_spark.forgetting import forget as forget_job
from evenkeel_spark.forgetting.delta_rows import DeltaRows
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.forgetting.meanwhile import none_forgotten
from evenkeel_spark.jobs import apply_window as window_job
from evenkeel_spark.jobs import learn as learn_job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.worlds.windows import hooked, rows

pytestmark = pytest.mark.spark

DAYS = date(2013, 1, 8), date(2013, 1, 9)


@pytest.fixture
def leaving(ready: World) -> tuple[World, Callable[[], None], list[str]]:
    """What deletes the events of keys: one with rows in state, and one that is new."""
    new = ready.events.tail(1).assign(dest="new", at=pd.Timestamp("2013-01-08 12:00"))
    ready.write_events(pd.concat([ready.events, new]))

    def delete() -> None:
        ready.write_events(ready.events[~ready.events["dest"].isin(["new", "D001"])])

    return ready, delete, ["new", "D001"]


@pytest.mark.parametrize("when", ["before the check", "right after it"])
@pytest.mark.parametrize("key", ["new", "D001"])
def test_a_window_under_way_brings_no_key_back(
    spark: SparkSession,
    leaving: tuple[World, Callable[[], None], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    key: str,
) -> None:
    world, delete, _ = leaving

    def leave() -> None:
        delete()
        forget(spark, world.table, [key])

    with monkeypatch.context() as patch:
        hooked(patch, when, 0, leave)
        with pytest.raises(FenceError, match="a key was forgotten meanwhile. Run it again"):
            apply_window(spark, world.table, *DAYS)
    assert key not in rows(spark, world, "totals").index
    apply_window(spark, world.table, *DAYS)
    now = rows(spark, world, "totals")
    assert key not in now.index
    events = world.events[world.events["at"] < str(DAYS[1])].groupby("dest").size()
    kept = now["trips"].drop(index="D001", errors="ignore")
    assert kept.to_dict() == events.drop(index="D001", errors="ignore").to_dict()


def test_a_window_that_comes_first_is_forgotten_too(
    spark: SparkSession,
    leaving: tuple[World, Callable[[], None], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It spends the number that forget has seen, so Delta skips forget's first commit."""
    world, _, _ = leaving
    real, done = window_job.commits.windows_count, []

    def count(*args: Any) -> int:
        seen = real(*args)
        if not done:
            done.append(seen)
            apply_window(spark, world.table, *DAYS)
        return seen

    with monkeypatch.context() as patch:
        patch.setattr(window_job.commits, "windows_count", count)
        assert forget(spark, world.table, ["new", "D001"]) == {"totals": 2}
    assert {"new", "D001"}.isdisjoint(rows(spark, world, "totals").index)


def test_a_learn_that_fails_half_way_leaves_no_name(
    spark: SparkSession,
    leaving: tuple[World, Callable[[], None], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _, keys = leaving
    real, done = Sketches.write, []

    def write(self: Sketches, *sketch: Any) -> None:
        if done:
            raise InputError("the store is full")
        done.append(forget(spark, world.table, keys))
        real(self, *sketch)

    with monkeypatch.context() as patch:
        patch.setattr(Sketches, "write", write)
        asked = ["--spec", world.spec_path, "--run", "r", "--end", "2013-01-09"]
        assert learn_job.main(asked) == 2
    assert done and not list(Path(world.table.registry.url).rglob("sketches/*/*.npz"))
    assert world.table.registry.run("r").error.read().message == "the store is full"


@pytest.mark.parametrize("late", [False, True])
def test_a_learn_under_way_writes_no_name(
    spark: SparkSession,
    leaving: tuple[World, Callable[[], None], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    late: bool,
) -> None:
    world, _, keys = leaving
    asked = ["--spec", world.spec_path, "--run", "r", "--end", "2013-01-09"]
    what = "weigh" if late else "sketch_days"
    real, real_write, written = getattr(learn_job, what), Sketches.write, []

    def then(*args: Any) -> Any:
        found = real(*args)
        forget(spark, world.table, keys)
        return found

    def write(self: Sketches, *sketch: Any) -> None:
        written.append(sketch)
        real_write(self, *sketch)

    with monkeypatch.context() as patch:
        patch.setattr(learn_job, what, then)
        patch.setattr(Sketches, "write", write)
        assert learn_job.main(asked) == 2
    # A name that was forgotten by then is never written: the job may be killed.
    assert bool(written) is late
    registry = Path(world.table.registry.url)
    assert not world.table.registry.run("r").profile.exists()
    assert late or not list(registry.rglob("sketches/*/*.npz"))
    error = world.table.registry.run("r").error.read()
    assert "a key was forgotten meanwhile" in error.message
    assert learn_job.main(asked) == 0


def test_a_job_that_begins_between_two_tables_writes_no_name(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forget has committed to the first table, and the job reads the key in the second one."""
    table = world.with_seen().table
    bootstrap(spark, table, DAYS[0])
    real, job = DeltaRows.delete, ExitStack()

    def delete(self: DeltaRows, name: str, wanted: Any) -> int:
        if name == "seen":
            job.enter_context(none_forgotten(spark, table.spec))
        return real(self, name, wanted)

    monkeypatch.setattr(DeltaRows, "delete", delete)
    forget(spark, table, ["D001"])
    with pytest.raises(FenceError, match="seen.*a key was forgotten meanwhile"):
        job.close()


def test_a_learn_that_removes_old_sketches_brings_no_name_back(
    spark: SparkSession,
    leaving: tuple[World, Callable[[], None], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _, keys = leaving
    asked = ["--spec", world.spec_path, "--run", "r", "--end", "2013-01-09"]
    assert learn_job.main(asked) == 0
    events = world.events
    world.write_events(events[events["at"] < "2013-01-08"])
    real, done = Sketches.remove, []

    def remove(self: Sketches, day: date) -> None:
        real(self, day)
        if not done:
            done.append(day)
            forget(spark, world.table, keys)

    with monkeypatch.context() as patch:
        patch.setattr(Sketches, "remove", remove)
        assert learn_job.main([*asked, "--relearn"]) == 2
    assert done == [DAYS[0]]
    assert not list(Path(world.table.registry.url).rglob("sketches/*/2013-01-08.npz"))


def test_a_learn_after_the_last_commit_of_forget_reads_no_name(
    spark: SparkSession,
    leaving: tuple[World, Callable[[], None], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, delete, _ = leaving
    asked = ["--spec", world.spec_path, "--run", "r", "--end", "2013-01-09"]
    assert learn_job.main(asked) == 0
    real, real_weigh, hashes = forget_job.forget_names, learn_job.weigh, []
    delete()

    def names(*given: Any) -> dict[str, int]:
        """Remove the names between a learn's look at the sketches and its profile."""
        gone = {}

        def weigh(*asked: Any) -> Any:
            gone.update(real(*given))
            return real_weigh(*asked)

        hashes.append(given[1])
        monkeypatch.setattr(learn_job, "weigh", weigh)
        assert learn_job.main([*asked, "--run", "late"]) == 0
        return gone

    monkeypatch.setattr(forget_job, "forget_names", names)
    forget(spark, world.table, ["new"])
    profile = world.table.registry.run("late").profile.read()
    assert hashes and not np.isin(hashes[0], profile.heavy).any()
