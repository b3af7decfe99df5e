"""Of two windows that have seen one state, only one follows it, whatever their days are."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.write_session import APP_ID
from evenkeel_spark.windows import window_notes
from evenkeel_spark.windows.undo_window import undo_window
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.windows import (
    applied_twice,
    day,
    exact,
    killed_between_tables,
    sql_name,
    trips,
    until,
    versions,
)

pytestmark = pytest.mark.spark


def between(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Run `other` once, between the next window's look at a table and its MERGE."""
    real = job.merge_window

    def merging(*args: object) -> None:
        monkeypatch.setattr(job, "merge_window", real)
        other()
        real(*args)

    monkeypatch.setattr(job, "merge_window", merging)


@pytest.mark.parametrize(("first", "second"), [(10, 11), (11, 10)], ids=["longer", "shorter"])
def test_windows_with_different_ends_count_once(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    between(monkeypatch, lambda: apply_window(spark, ready.table, day(8), day(first)))
    with pytest.raises(InputError, match=f"to 2013-01-{first} meanwhile.*start 2013-01-{first}"):
        apply_window(spark, ready.table, day(8), day(second))
    assert trips(spark, ready) == until(ready, f"2013-01-{first}")
    assert not (ready.folder / f"registry/windows/2013-01-{second}.json").exists()
    # Neither is the table stuck.
    apply_window(spark, ready.table, day(first), day(12))
    assert trips(spark, ready) == until(ready, "2013-01-12")


@pytest.mark.parametrize(("first", "second"), [(10, 11), (11, 10)], ids=["longer", "shorter"])
def test_the_first_windows_of_an_empty_state_count_once(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    bootstrap(spark, world.table)
    between(monkeypatch, lambda: apply_window(spark, world.table, day(8), day(first)))
    with pytest.raises(InputError, match=f"to 2013-01-{first} meanwhile"):
        apply_window(spark, world.table, day(9), day(second))
    assert trips(spark, world) == until(world, f"2013-01-{first}") - until(world, "2013-01-08")


@pytest.mark.parametrize("empty", [False, True])
def test_a_window_is_never_added_to_one_of_two_tables_alone(
    spark: SparkSession, world: World, empty: bool
) -> None:
    """One that left a gap was killed between two tables. The days of the gap are in neither."""
    table = world.with_seen().table
    bootstrap(spark, table, None if empty else day(8))
    with killed_between_tables():
        apply_window(spark, table, day(10), day(12), allow_gap=True)
    before = versions(spark, world)
    if not empty:
        with pytest.raises(InputError, match="Give --allow-gap, as another state table has this"):
            apply_window(spark, table, day(10), day(12))
    for start, end in ((8, 10), (8, 9), (9, 10)):
        with pytest.raises(InputError, match=r"is not in totals.* first: --start 2013-01-10 --end"):
            apply_window(spark, table, day(start), day(end), allow_gap=True)
    assert versions(spark, world) == before
    apply_window(spark, table, day(10), day(12), allow_gap=True)
    moved = versions(spark, world)
    assert moved["totals"] == before["totals"] and moved["seen"] == before["seen"] + 1
    with pytest.raises(InputError, match="would count events twice"):
        apply_window(spark, table, day(8), day(10), allow_gap=True)


def test_the_loser_of_two_tables_leaves_both_alone_after_a_kill_between_them(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.with_seen().table
    bootstrap(spark, table, day(8))

    def killed() -> None:
        with killed_between_tables():
            apply_window(spark, table, day(8), day(10))

    before = versions(spark, world)
    between(monkeypatch, killed)
    with pytest.raises(InputError, match="run it again: --start 2013-01-08 --end 2013-01-10"):
        apply_window(spark, table, day(8), day(11))
    assert versions(spark, world)["seen"] == before["seen"]
    apply_window(spark, table, day(8), day(10))
    apply_window(spark, table, day(10), day(11))
    assert trips(spark, world) == until(world, "2013-01-11")
    names = sorted((world.folder / "registry/windows").iterdir())
    assert [json.loads(n.read_text())["end"] for n in names] == ["2013-01-10", "2013-01-11"]


def test_a_note_that_comes_first_lets_the_window_look_again(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = time.time() + 365 * window_notes.DAY_SECONDS
    between(monkeypatch, lambda: window_notes.renew(spark, ready.table, far))
    before = versions(spark, ready)["totals"]
    apply_window(spark, ready.table, day(8), day(10))
    assert trips(spark, ready) == until(ready, "2013-01-10")
    assert versions(spark, ready)["totals"] == before + 2
    window_notes.renew(spark, ready.table, time.time())
    assert versions(spark, ready)["totals"] == before + 2


def copied(spark: SparkSession, path: Path, backup: Path, version: int) -> None:
    """Copy a backup of the whole folder back: its commits keep their numbers and the table's id."""
    shutil.rmtree(path)
    shutil.copytree(backup, path)


def cloned(spark: SparkSession, path: Path, backup: Path, version: int) -> None:
    """Clone an older version of the table in its place."""
    path.rename(path.with_name("newer"))
    spark.sql(
        f"CREATE TABLE {state.sql_name(str(path))} SHALLOW CLONE "
        f"{state.sql_name(str(path.with_name('newer')))} VERSION AS OF {version}"
    )


@pytest.mark.parametrize("bring_back", [copied, cloned])
def test_a_window_upon_a_backup_that_has_reached_its_version_is_told(
    spark: SparkSession,
    ready: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    bring_back: Callable[[SparkSession, Path, Path, int], None],
) -> None:
    path = Path(ready.table.spec.state["totals"].path)
    backup, before = tmp_path / "backup", versions(spark, ready)["totals"]
    shutil.copytree(path, backup)
    apply_window(spark, ready.table, day(8), day(10))
    seen = versions(spark, ready)["totals"]

    def replaced() -> None:
        bring_back(spark, path, backup, before)
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        while versions(spark, ready)["totals"] <= seen:
            spark.sql(f"ALTER TABLE {sql_name(ready)} SET TBLPROPERTIES ('team.owner' = 'we')")

    between(monkeypatch, replaced)
    with pytest.raises(InputError, match=r"another table was put in this place.* --undo-window"):
        apply_window(spark, ready.table, day(10), day(12))
    assert [one.before for one in undo_window(spark, ready.table)] == [seen + 1]
    applied_twice(spark, ready, 8, 10)
    applied_twice(spark, ready, 10, 12)
    exact(spark, ready, "2013-01-12")


def test_a_table_that_forgets_ids_at_once_takes_no_window(
    spark: SparkSession, ready: World
) -> None:
    name = state.sql_name(ready.table.spec.state["totals"].path)
    setting = "delta.setTransactionRetentionDuration"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{setting}' = 'interval 1 hour')")
    with pytest.raises(InputError, match="at least 1 day, found 'interval 1 hour'.*ALTER TABLE"):
        apply_window(spark, ready.table, day(8), day(10))
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{setting}' = 'interval 2 days')")
    apply_window(spark, ready.table, day(8), day(10))
    assert trips(spark, ready) == until(ready, "2013-01-10")


def test_windows_of_one_state_that_are_both_there_are_told(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.1.0 could add both. Whoever runs it beside this one is told by the next window."""
    real = job.merge_window

    def as_older(own: SparkSession, *args: object) -> None:
        monkeypatch.setattr(job, "merge_window", real)
        apply_window(spark, ready.table, day(8), day(10))
        own.conf.set(APP_ID, "evenkeel/trips/windows")
        real(own, *args)

    monkeypatch.setattr(job, "merge_window", as_older)
    with pytest.raises(InputError, match=r"is apply_window, made while .* --undo-window"):
        apply_window(spark, ready.table, day(8), day(11))
    with pytest.raises(InputError, match="made while"):
        apply_window(spark, ready.table, day(11), day(12))
    spark.sql(
        f"RESTORE TABLE {state.sql_name(ready.table.spec.state['totals'].path)} "
        f"TO VERSION AS OF {versions(spark, ready)['totals'] - 1}"
    )
    apply_window(spark, ready.table, day(10), day(11))
    assert trips(spark, ready) == until(ready, "2013-01-11")
