"""Notes of the windows in a state table, and states of which no commit tells."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.jobs import maintain
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import commits
from evenkeel_spark.windows import window_notes
from partitioning.errors import InputError
from tests.conftest import SPEC, World, some_events
from tests.support.worlds.windows import (
    applied_twice,
    day,
    exact,
    forget_history,
    restore,
    sql_name,
    versions,
)

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("forgets", [False, True])
def test_a_state_that_began_empty_asks_for_its_first_window(
    spark: SparkSession, tmp_path: Path, forgets: bool
) -> None:
    world = World(tmp_path)
    Path(world.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    world.write_events(some_events())
    bootstrap(spark, world.table)
    empty = versions(spark, world)["totals"]
    apply_window(spark, world.table, day(1), day(6))
    apply_window(spark, world.table, day(6), day(8))
    restore(spark, world, empty)
    if forgets:
        forget(spark, world.table, ["nobody"])
    with pytest.raises(InputError, match="Go on with --start 2013-01-01, or give --allow-gap"):
        apply_window(spark, world.table, day(8), day(9))
    applied_twice(spark, world, 1, 8)
    exact(spark, world, "2013-01-08")


def test_a_note_beside_a_forget_is_made_all_the_same(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_history(spark, Path(ready.table.spec.state["totals"].path))
    real = window_notes.note

    def late(*args: Any) -> None:
        monkeypatch.undo()
        forget(spark, ready.table, ["nobody"])
        real(*args)

    monkeypatch.setattr(window_notes, "note", late)
    window_notes.hold_until(spark, ready.table, day(8), ["totals"])
    applied_twice(spark, ready, 8, 12)
    exact(spark, ready, "2013-01-12")


def test_a_note_of_maintain_outlives_the_history_before_it(
    spark: SparkSession, ready: World
) -> None:
    apply_window(spark, ready.table, day(8), day(10))
    far = time.time() + ready.table.spec.keep * 0.6 * window_notes.DAY_SECONDS
    window_notes.renew(spark, ready.table, far)
    spark.sql(f"ALTER TABLE {sql_name(ready)} SET TBLPROPERTIES ('later' = 'yes')")
    path = Path(ready.table.spec.state["totals"].path)
    noted = versions(spark, ready)["totals"] - 1
    logs = sorted((path / "_delta_log").glob("*.json"))
    assert [int(f.stem) for f in logs[-2:]] == [noted, noted + 1]
    kept = {f.name: f.read_text() for f in logs[-2:]}
    forget_history(spark, path)
    for name, text in kept.items():
        (path / "_delta_log" / name).write_text(text)
    with pytest.raises(InputError, match="would count events twice"):
        apply_window(spark, ready.table, day(9), day(11))
    applied_twice(spark, ready, 10, 12)
    exact(spark, ready, "2013-01-12")


@pytest.mark.parametrize("keep", [7, 10, 16, 28])
def test_a_note_is_renewed_before_its_log_may_be_gone(keep: int) -> None:
    """`maintain` runs once a week."""
    for first in range(8):
        age = float(first)
        while not window_notes.is_due(1, 0.0, keep, age * window_notes.DAY_SECONDS):
            age += 7
            assert age <= keep, f"found at day {first}: the log is clean before the next look"
    assert not window_notes.is_due(1, 0.0, keep, 0.0)
    assert window_notes.is_due(10_000, 0.0, keep, 0.0)
    # By a driver whose clock was a month ahead: the store's clock cleans Delta's log.
    assert window_notes.is_due(1, 30 * window_notes.DAY_SECONDS, keep, 0.0)


@pytest.mark.parametrize(
    ("until", "says"),
    [
        (None, "no window is in, so .* before 2013-01-09.*first window: choose its --start"),
        (day(8), "applied up to 2013-01-08, not 2013-01-09.*Go on with --start 2013-01-08"),
    ],
)
def test_a_day_that_the_commits_gainsay(until: date | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        window_notes.check_said(until, day(9), "totals", "/x", None)


def test_a_window_that_commits_meanwhile_keeps_its_record(
    spark: SparkSession, ready: World
) -> None:
    def later() -> date | None:
        found = window_notes.newest_of_all(spark, ready.table)
        apply_window(spark, ready.table, day(8), day(10))
        return found

    window_notes.forget_later(ready.table, later)
    assert ready.table.registry.files.window_ends() == [day(10)]


def test_maintain_notes_windows_first_and_again_if_another_came_first(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What maintain does next may let Delta clean up the commit that tells them."""
    apply_window(spark, ready.table, day(8), day(10))
    (first, _), *_ = maintain._steps(spark, ready.table)
    assert first == "windows"
    real = window_notes.note

    def late(*args: Any) -> None:
        monkeypatch.undo()
        forget(spark, ready.table, ["nobody"])
        real(*args)

    monkeypatch.setattr(window_notes, "note", late)
    far = time.time() + ready.table.spec.keep * 0.6 * window_notes.DAY_SECONDS
    assert "noted again" in window_notes.renew(spark, ready.table, far)
    newest = commits.newest(spark, ready.table.spec.state["totals"].path)
    assert newest.meta["step"] == "holds_until" and newest.meta["end"] == "2013-01-10"
