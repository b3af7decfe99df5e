"""A repair that slept, and a run whose folder is gone: what came since stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import half_moved
from evenkeel.registry import verdict
from evenkeel.registry.pruning import may_move
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.placement import REPAIRING, Placement
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import constraints
from partitioning.errors import DamagedError, FenceError
from partitioning.function.function import PartitioningFunction
from tests.support.placed import (
    KEYS,
    Placed,
    copied,
    meanwhile,
    planned,
)
from tests.support.state_tables import assert_under, by_hand

pytestmark = pytest.mark.spark


def stands(spark: SparkSession, home: Placed, function: PartitioningFunction) -> None:
    rows = assert_under(spark, home, function)
    assert all(rows[f"k{i}"][1] == i for i in range(KEYS))


@pytest.mark.slow
def test_a_repair_that_slept_leaves_what_came_since(
    spark: SparkSession, moved_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another repair has ended meanwhile, and a new run has begun, or published its epoch."""
    home = copied(moved_home, tmp_path)
    function = home.migration("r1").after

    def begun() -> None:
        repair(spark, home.table)
        new = planned(spark, home, "r2", function)
        constraints.add(spark, home.path(), new.moving, new.rules[new.moving][0])

    with meanwhile("repaired", begun, monkeypatch), pytest.raises(FenceError, match="evenkeel rep"):
        repair(spark, home.table)
    new = home.migration("r2")
    assert home.constraints(spark) == {new.old, new.moving}

    def published() -> None:
        repair(spark, home.table)
        new = planned(spark, home, "r3", function)
        migrate(spark, new)
        verify(spark, new)
        publish(spark, new)

    by_hand(spark, home, f"ALTER TABLE {{}} DROP CONSTRAINT {new.old}")
    with (
        meanwhile("repairing", published, monkeypatch),
        pytest.raises(FenceError, match="evenkeel repair people --dry-run"),
    ):
        repair(spark, home.table)
    stands(spark, home, function)
    assert repair(spark, home.table) == []


def test_a_repair_that_slept_before_its_first_commit_leaves_a_healthy_table(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another repair has ended meanwhile, and a run has published an epoch of the same number."""
    home = copied(sealed_home, tmp_path)
    function = home.migration("r1").after

    def published() -> None:
        repair(spark, home.table)
        new = planned(spark, home, "r2", function)
        migrate(spark, new)
        verify(spark, new)
        publish(spark, new)

    with (
        meanwhile("deciding to repair", published, monkeypatch),
        pytest.raises(FenceError, match="evenkeel repair people --dry-run"),
    ):
        repair(spark, home.table)
    stands(spark, home, function)
    since = home.table.epoch().tables["visits"].version
    assert home.version(spark) == since
    assert repair(spark, home.table) == []


def test_a_repair_takes_its_constraint_back_where_an_epoch_was_published_meanwhile(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run had looked at the table for the last time before the repair's commit."""
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    verdict.settle(migration.run, migration.plan.digest, 1, verdict.ROLL_BACK)

    def published() -> None:
        assert home.constraints(spark) == {"evenkeel_epoch_1", REPAIRING}
        home.table.registry.publish(migration.after, {}, migration.plan.digest)

    with (
        meanwhile("opening repair", published, monkeypatch),
        pytest.raises(FenceError, match="epoch 1 is the one to bring the tables to by now"),
    ):
        repair(spark, home.table)
    stands(spark, home, migration.after)


def test_a_repair_marks_only_the_attempt_that_it_has_brought_back(
    spark: SparkSession, moved_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the run has begun another attempt, which is on its way back and not there yet."""
    home = copied(moved_home, tmp_path)
    run, digest = home.migration("r1").run, home.migration("r1").plan.digest
    real = Placement.bring

    def bring(placement: Placement) -> None:
        real(placement)
        verdict.mark(run, digest, 1, done=True)
        assert verdict.begin_attempt(run, digest, 2)
        verdict.settle(run, digest, 2, verdict.ROLL_BACK)
        verdict.mark(run, digest, 2, done=False)

    monkeypatch.setattr(Placement, "bring", bring)
    repair(spark, home.table)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(2, verdict.ROLL_BACK, False)


@pytest.mark.parametrize("torn", [["plan"], ["migration"], ["plan", "migration"]])
def test_a_run_with_torn_files_has_ended_once_its_rows_are_back(
    spark: SparkSession,
    moved_home: Placed,
    tmp_path: Path,
    torn: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = copied(moved_home, tmp_path)
    migration = home.migration("r1")
    for name in torn:
        migration.run.write(f"{name}.json", b"{")
    if "migration" in torn:
        with pytest.raises(DamagedError):
            half_moved(home.table.registry, ["r1"])
    assert may_move(home.table.registry, "r1", 0)
    assert len(repair(spark, home.table, dry_run=True)) == 1
    assert "has files that cannot be read: it would be ended" in capsys.readouterr().out
    assert may_move(home.table.registry, "r1", 0)
    assert len(repair(spark, home.table)) == 1
    stands(spark, home, migration.before)
    assert half_moved(home.table.registry, ["r1"]) is None
    assert not may_move(home.table.registry, "r1", 0)


def test_a_half_moved_table_whose_run_has_lost_its_folder_goes_back(
    spark: SparkSession, moved_home: Placed, tmp_path: Path
) -> None:
    """Its mark tells that the registry is not older than the table: nothing is given up."""
    home = copied(moved_home, tmp_path)
    migration, spec = home.migration("r1"), home.table.spec
    shutil.rmtree(Path(home.table.registry.url) / "runs" / "r1")
    with pytest.raises(FenceError, match="has the constraint") as error:
        constraints.check_admits(spark, spec, home.table.epoch().function)
    assert "is under way or was broken off" in str(error.value)
    assert "registry-older" not in str(error.value)
    assert len(repair(spark, home.table)) == 1
    stands(spark, home, migration.before)
