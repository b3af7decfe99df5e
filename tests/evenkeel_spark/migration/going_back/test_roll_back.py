"""Roll back: from anywhere, keeping what was written since, and the same plan can run again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel.registry import verdict
from evenkeel_spark.jobs.roll_back import main
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import FenceError
from tests.support.placed import (
    KEYS,
    Placed,
    append,
    copied,
    crashing_at,
    meanwhile,
    placed,
    planned,
)
from tests.support.state_tables import assert_under

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_from_wherever_migrate_stopped_and_the_same_plan_can_run_again(
    spark: SparkSession, planned_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(planned_home, tmp_path)
    migration = home.migration("r1")
    for step in ("weighed", "unsealing", "unsealed", "moved"):
        with crashing_at(step, monkeypatch):
            migrate(spark, migration)
        moved = roll_back(spark, migration)["visits"]
        assert (moved > 0) == (step == "moved")
        assert_under(spark, home, migration.before)
    version = home.version(spark)
    assert roll_back(spark, migration) == {"visits": 0}
    assert home.version(spark) == version
    # With one transaction id a plan, this UPDATE would be skipped as done.
    record = migrate(spark, migration)
    assert len(record.tables["visits"].commits) == 1
    rows = home.rows(spark)
    assert [c for c, _ in rows.values()] == migration.after.lookup(list(rows)).tolist()


@pytest.mark.slow
def test_a_crash_of_roll_back_itself_is_made_good(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    for step in ("unsealing", "unsealed", "moved", "moved back", "sealing"):
        with crashing_at(step, monkeypatch):
            roll_back(spark, migration)
    roll_back(spark, migration)
    assert_under(spark, home, migration.before)


def test_what_is_left_of_a_killed_migrate_moves_nothing_after_roll_back(
    spark: SparkSession, planned_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(planned_home, tmp_path)
    migration = home.migration("r1")
    for step in ("weighed", "unsealed"):
        with (
            meanwhile(step, lambda: roll_back(spark, migration) and None, monkeypatch),
            pytest.raises(FenceError, match="this run was rolled back"),
        ):
            migrate(spark, migration)
        assert_under(spark, home, migration.before)
    with pytest.raises(FenceError, match="this run was rolled back"):
        verify(spark, migration)


def test_what_was_written_since_is_kept(
    spark: SparkSession, moved_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(moved_home, tmp_path)
    migration = home.migration("r1")
    name = state.sql_name(home.path())
    append(spark, home, migration.before, {f"old{i}": i for i in range(100)})
    append(spark, home, migration.after, {f"new{i}": i for i in range(100)})
    spark.sql(f"UPDATE {name} SET visits = 777 WHERE key = 'k5'")
    spark.sql(f"DELETE FROM {name} WHERE key = 'old7'")
    late = {f"late{i}": i for i in range(100)}
    # The last moment: from here on the table is closed to the next epoch's rows.
    with meanwhile("unsealed", lambda: append(spark, home, migration.after, late), monkeypatch):
        roll_back(spark, migration)
    assert_under(spark, home, migration.before)
    rows = home.rows(spark)
    assert len(rows) == KEYS + 299
    assert rows["k5"][1] == 777
    assert rows["new9"][1] == rows["late9"][1] == 9
    assert commits.history_since(spark, home.path(), 0)[-1].meta["step"] == "roll_back"


def test_a_verified_table_goes_back_and_a_published_one_does_not(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path
) -> None:
    home = copied(sealed_home, tmp_path / "sealed")
    migration = home.migration("r1")
    assert roll_back(spark, migration)["visits"] > 0
    assert_under(spark, home, migration.before)

    home = copied(sealed_home, tmp_path / "published")
    migration = home.migration("r1")
    publish(spark, migration)
    version = home.version(spark)
    arguments = ["--spec", str(home.spec_path), "--run", "r1", "--digest", migration.plan.digest]
    assert main(arguments) == 0
    assert home.version(spark) == version
    assert home.constraints(spark) == {"evenkeel_epoch_1"}


@pytest.mark.slow
def test_several_tables_and_a_crash_between_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = placed(spark, tmp_path, names=("visits", "stays"))
    migration = planned(spark, home)
    with crashing_at("moved", monkeypatch):
        migrate(spark, migration)
    assert home.constraints(spark, "stays") == {"evenkeel_epoch_0"}
    moved = roll_back(spark, migration)
    assert moved["visits"] > 0
    assert moved["stays"] == 0
    assert_under(spark, home, migration.before)
    with crashing_at("moved", monkeypatch):
        migrate(spark, migration)
    tables = migrate(spark, migration).tables
    assert tables["visits"].rows == tables["stays"].rows == moved["visits"]
    assert home.rows(spark, "stays") == home.rows(spark, "visits")


def test_a_table_under_another_constraint_is_left_alone(
    spark: SparkSession, moved_home: Placed, tmp_path: Path
) -> None:
    home = copied(moved_home, tmp_path)
    migration = home.migration("r1")
    name = state.sql_name(home.path())
    spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT {migration.moving}")
    with pytest.raises(FenceError, match="lost its constraint"):
        roll_back(spark, migration)
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT {migration.moving} CHECK (channel < 9)")
    version = home.version(spark)
    with pytest.raises(FenceError, match="not this plan's"):
        roll_back(spark, migration)
    assert home.version(spark) == version


@pytest.mark.slow
def test_a_sealed_table_whose_log_was_cleaned_up_is_not_passed_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two tables is sealed, and the run lies for longer than the log is kept."""
    home = placed(spark, tmp_path, names=("visits", "stays"))
    migration = planned(spark, home)
    migrate(spark, migration)
    with crashing_at("sealed", monkeypatch):
        verify(spark, migration)
    assert home.constraints(spark) == {migration.new}
    assert home.constraints(spark, "stays") == {migration.moving}
    spark.sql(f"DELETE FROM {state.sql_name(home.path())} WHERE key = 'no such key'")
    append(spark, home, migration.after, {f"new{i}": i for i in range(3)})
    clean_log(spark, home.path())
    with pytest.raises(FenceError, match="no commit of its history tells.*evenkeel repair people"):
        roll_back(spark, migration)
    assert not verdict.newest_attempt(migration.run, migration.plan.digest).ended
    repair(spark, home.table)
    for name in home.names:
        assert home.constraints(spark, name) == {"evenkeel_epoch_0"}
        rows = home.rows(spark, name)
        assert len(rows) == KEYS + 3
        assert [c for c, _ in rows.values()] == migration.before.lookup(list(rows)).tolist()
    assert verdict.newest_attempt(migration.run, migration.plan.digest).ended


def clean_log(spark: SparkSession, path: str) -> None:
    """Leave the newest commit alone, with a checkpoint, as Delta's own clean-up would."""
    logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    logs.forTable(spark._jsparkSession, path).checkpoint()
    newest = state.table_version(spark, path)
    for file in (Path(path) / "_delta_log").glob("*.json"):
        if int(file.stem) < newest:
            file.unlink()
    logs.clearCache()
