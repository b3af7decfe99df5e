"""A window that was added to other rows than it had seen is taken back by a job, not by hands."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs import repair
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.maintain import maintain
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.windows import undo_window as undoing
from evenkeel_spark.windows.undo_window import undo_window
from partitioning.errors import FenceError, InputError
from tests.chaos.home import dag, task
from tests.conftest import World
from tests.support.worlds.windows import (
    applied_twice,
    day,
    exact,
    rows,
    sql_name,
    trips,
    until,
    versions,
)

pytestmark = pytest.mark.spark


def files_of(world: World) -> set[Path]:
    return set((world.folder / "state").rglob("*"))


def restore(spark: SparkSession, world: World, version: int) -> None:
    spark.sql(f"RESTORE TABLE {sql_name(world)} TO VERSION AS OF {version}")


def other_write(spark: SparkSession, world: World) -> None:
    """Append a row of a new key, where the epoch says."""
    path = world.table.spec.state["totals"].path
    row = spark.read.format("delta").load(path).limit(1).withColumn("dest", F.lit("new"))
    epoch = world.table.epoch()
    row = row.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route())
    row.write.format("delta").mode("append").save(path)


@pytest.fixture(scope="module")
def _wrong(
    spark: SparkSession, _bootstrapped: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The window up to day 12 was added while somebody took back the one up to day 10."""
    folder = tmp_path_factory.mktemp("wrong")
    shutil.copytree(_bootstrapped, folder, dirs_exist_ok=True)
    made, real = World(folder), job.merge_window
    before = versions(spark, made)["totals"]
    apply_window(spark, made.table, day(8), day(10))

    def later(*args: Any) -> None:
        restore(spark, made, before)
        real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "merge_window", later)
        with pytest.raises(InputError, match="repair trips --undo-window --dry-run"):
            apply_window(spark, made.table, day(10), day(12))
    return folder


@pytest.fixture
def wrong(_wrong: Path, tmp_path: Path) -> World:
    shutil.copytree(_wrong, tmp_path, dirs_exist_ok=True)
    return World(tmp_path)


def test_the_window_is_taken_back_and_all_are_applied(
    spark: SparkSession, wrong: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before, files = versions(spark, wrong), files_of(wrong)
    assert repair.main(["--spec", wrong.spec_path, "--undo-window", "--dry-run"]) == 0
    assert versions(spark, wrong) == before and files_of(wrong) == files
    assert f"would be brought back to version {before['totals'] - 1}" in capsys.readouterr().out
    assert repair.main(["--spec", wrong.spec_path, "--undo-window"]) == 0
    assert trips(spark, wrong) == until(wrong, "2013-01-08")
    assert versions(spark, wrong)["totals"] == before["totals"] + 1
    assert undo_window(spark, wrong.table) == []
    assert versions(spark, wrong)["totals"] == before["totals"] + 1
    applied_twice(spark, wrong, 8, 10)
    applied_twice(spark, wrong, 10, 12)
    exact(spark, wrong, "2013-01-12")


@pytest.mark.slow
def test_a_published_epoch_and_a_maintain_since_are_done_again(
    spark: SparkSession, wrong: World
) -> None:
    wrong.respec(trigger=1.01, max_imbalance=1.01)
    assert dag(spark, wrong, "learn")
    maintain(spark, wrong.table)
    task(spark, wrong, "repair")
    assert wrong.table.registry.numbers() == [0, 1]
    # No other job leads out.
    for start in (8, 10, 12):
        with pytest.raises(InputError, match="--undo-window"):
            apply_window(spark, wrong.table, day(start), day(start + 2))
    # Killed between the way back and the repair, it goes on.
    assert len(undo_window(spark, wrong.table)) == 1
    path = wrong.table.spec.state["totals"].path
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    assert repair.main(["--spec", wrong.spec_path, "--undo-window"]) == 0
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_1"}
    found = spark.read.format("delta").load(path).toPandas()
    assert (found["channel"] == wrong.table.epoch().lookup(found["dest"])).all()
    assert trips(spark, wrong) == until(wrong, "2013-01-08")
    applied_twice(spark, wrong, 8, 12)
    exact(spark, wrong, "2013-01-12")


def test_no_commit_of_somebody_else_is_lost(spark: SparkSession, wrong: World) -> None:
    other_write(spark, wrong)
    before, there = versions(spark, wrong), trips(spark, wrong)
    message = f"version {before['totals']} is WRITE. It would be lost.*RESTORE TABLE.*--holds-until"
    for dry_run in (True, False):
        with pytest.raises(FenceError, match=message):
            undo_window(spark, wrong.table, dry_run)
    assert versions(spark, wrong) == before and trips(spark, wrong) == there


def test_a_clone_of_a_wrong_window_is_not_restored_by_the_version_of_its_source(
    spark: SparkSession, wrong: World
) -> None:
    path = Path(wrong.table.spec.state["totals"].path)
    source = path.with_name("source")
    path.rename(source)
    # A clone knows its source by where it was made from.
    spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{source}`")
    before = versions(spark, wrong)
    with pytest.raises(FenceError, match=f"is a clone of {source}, and version 4") as error:
        undo_window(spark, wrong.table)
    assert "RESTORE" not in str(error.value)
    assert f"clone version 3 of {source} again" in str(error.value)
    assert versions(spark, wrong) == before


@pytest.mark.parametrize("at", ["_restore", "_check_files"])
def test_a_commit_between_the_look_and_ours_is_not_lost(
    spark: SparkSession, wrong: World, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """`_restore` begins the transaction, which is under way where `_check_files` is called."""
    real: Callable[..., Any] = getattr(undoing, at)

    def later(*args: Any) -> Any:
        monkeypatch.setattr(undoing, at, real)
        other_write(spark, wrong)
        return real(*args)

    monkeypatch.setattr(undoing, at, later)
    with pytest.raises(FenceError, match="is WRITE. It would be lost"):
        undo_window(spark, wrong.table)
    assert "new" in rows(spark, wrong, "totals").index


def test_a_table_whose_state_moves_is_refused(spark: SparkSession, wrong: World) -> None:
    wrong.respec(trigger=1.01, max_imbalance=1.01)
    for step in ("learn", "decide", "plan", "validate_plan", "migrate"):
        task(spark, wrong, step)
    with pytest.raises(FenceError, match="A migration .* is under way"):
        undo_window(spark, wrong.table)


def test_tables_without_windows_of_ours_are_refused(ready: World) -> None:
    plain = ready.respec(state={"totals": {"path": "state/totals", "rows": "one"}})
    with pytest.raises(InputError, match="tables of the team's own.*Leave it out"):
        undo_window(None, plain.table)  # type: ignore[arg-type]


def test_right_windows_stay(spark: SparkSession, ready: World) -> None:
    apply_window(spark, ready.table, day(8), day(10))
    before = versions(spark, ready)
    assert undo_window(spark, ready.table) == []
    assert versions(spark, ready) == before
