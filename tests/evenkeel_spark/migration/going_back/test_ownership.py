"""Which run owns a table and its verdict: old runs, rivals and sleepers leave others alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from evenkeel.registry import verdict
from evenkeel.registry.epochs import Registry
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import constraints
from partitioning.errors import FenceError, InputError
from tests.support.placed import (
    Placed,
    copied,
    crashing_at,
    meanwhile,
    next_function,
    planned,
)
from tests.support.raw_json import read_json
from tests.support.state_tables import assert_under

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_what_was_verified_before_is_not_published_after(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    with crashing_at("unsealing", monkeypatch):
        roll_back(spark, migration)
    with pytest.raises(FenceError, match="this run was rolled back"):
        publish(spark, migration)
    with pytest.raises(FenceError, match="rolling back has not ended"):
        migrate(spark, migration)
    roll_back(spark, migration)
    with pytest.raises(FenceError, match="this run was rolled back"):
        publish(spark, migration)
    with crashing_at("unsealed", monkeypatch):
        migrate(spark, migration)
    assert read_json(migration.run, "migration.json")["digest"] == migration.plan.digest
    with pytest.raises(InputError, match=r"gate_tables\.json is missing"):
        publish(spark, migration)
    migrate(spark, migration)
    verify(spark, migration)
    assert publish(spark, migration).number == 1


def test_an_attempt_that_wakes_leaves_the_constraint_of_the_next_one(
    spark: SparkSession, planned_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(planned_home, tmp_path)
    migration, put, waiting = home.migration("r1"), constraints.put, [True]

    def slept(*args: Any) -> bool:
        if waiting:
            waiting.clear()
            roll_back(spark, migration)
            with crashing_at("unsealing", monkeypatch):
                migrate(spark, migration)
        return put(*args)

    with monkeypatch.context() as patch:
        patch.setattr(constraints, "put", slept)
        with pytest.raises(FenceError, match="this run was rolled back"):
            migrate(spark, migration)
    assert not waiting
    assert home.constraints(spark) == {migration.old, migration.moving}
    migrate(spark, migration)
    verify(spark, migration)
    assert_under(spark, home, migration.after)


@pytest.mark.slow
def test_an_attempt_that_was_killed_as_it_began_has_moved_nothing(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    run = migration.run
    roll_back(spark, migration)
    with crashing_at("attempt begun", monkeypatch):
        migrate(spark, migration)
    assert run.migration.read().tables
    with crashing_at("weighed", monkeypatch):
        migrate(spark, migration)
    assert not run.migration.read().tables
    assert not any(file.exists() for file in (run.progress, run.gate_tables, run.verify))
    # Nor does what goes on clear what it has left itself.
    migrate(spark, migration)
    verify(spark, migration)
    migrate(spark, migration)
    assert run.verify.read().attempt == run.migration.read().attempt == 2


def test_a_plan_that_lost_the_race_leaves_the_winner_alone(
    spark: SparkSession, planned_home: Placed, tmp_path: Path
) -> None:
    home = copied(planned_home, tmp_path)
    loser = home.migration("r1")
    winner = planned(spark, home, "winner", next_function(loser.before, (1, 2), None))
    migrate(spark, winner)
    with pytest.raises(FenceError, match="--run winner"):
        migrate(spark, loser)
    version = home.version(spark)
    assert roll_back(spark, loser) == {"visits": 0}
    assert home.version(spark) == version


def test_an_old_run_that_is_cleared_leaves_a_published_epoch_alone(
    spark: SparkSession, planned_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(planned_home, tmp_path)
    first = home.migration("r1")
    with crashing_at("moved", monkeypatch):
        migrate(spark, first)
    roll_back(spark, first)
    second = planned(spark, home, "r2", first.after)
    migrate(spark, second)
    with pytest.raises(FenceError, match="where another plan brought it|is not this plan's"):
        migrate(spark, first)
    verify(spark, second)
    # Sealed by the second run, and not published yet.
    assert roll_back(spark, first) == {"visits": 0}
    assert publish(spark, second).number == 1
    version = home.version(spark)
    with pytest.raises(FenceError, match="epoch 1 is current|where another plan brought it"):
        migrate(spark, first)
    assert roll_back(spark, first) == {}
    assert home.version(spark) == version
    assert home.constraints(spark) == {"evenkeel_epoch_1"}


def test_two_runs_with_one_function_own_their_tables_apart(
    spark: SparkSession, planned_home: Placed, tmp_path: Path
) -> None:
    home = copied(planned_home, tmp_path)
    first, second = home.migration("r1"), planned(spark, home, "r2")
    assert first.after.digest == second.after.digest
    assert first.plan.digest != second.plan.digest
    migrate(spark, first)
    with pytest.raises(FenceError, match="is not this plan's"):
        migrate(spark, second)
    assert roll_back(spark, second) == {"visits": 0}
    verify(spark, first)
    with pytest.raises(FenceError, match="where another plan brought it"):
        migrate(spark, second)
    assert roll_back(spark, second) == {"visits": 0}
    assert publish(spark, first).number == 1
    assert home.constraints(spark) == {"evenkeel_epoch_1"}


def test_roll_back_obeys_a_verdict_to_publish(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):  # noqa: PT012
        patch.setattr(Registry, "publish", Mock(side_effect=OSError("killed")))
        publish(spark, migration)
    assert home.table.registry.numbers() == [0]
    assert roll_back(spark, migration) == {}
    assert home.table.epoch().plan_digest == migration.plan.digest
    assert home.constraints(spark) == {"evenkeel_epoch_1"}


def test_a_publish_that_wakes_after_roll_back_publishes_nothing(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    back = lambda: roll_back(spark, migration) and None  # noqa: E731
    with (
        meanwhile("publishing", back, monkeypatch),
        pytest.raises(FenceError, match="this run was rolled back"),
    ):
        publish(spark, migration)
    assert home.table.registry.numbers() == [0]
    assert_under(spark, home, migration.before)


@pytest.mark.slow
def test_a_migrate_that_wakes_in_a_later_attempt_leaves_it_alone(
    spark: SparkSession, planned_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read that the first attempt has ended. The third is decided to publish, and its job dies.

    The gate that fails after that decision stops nothing.
    """
    home = copied(planned_home, tmp_path)
    migration = home.migration("r1")
    run, digest = migration.run, migration.plan.digest

    def later() -> None:
        migrate(spark, migration)
        roll_back(spark, migration)
        migrate(spark, migration)
        verify(spark, migration)
        verdict.settle(run, digest, 3, verdict.PUBLISH)

    with crashing_at("unsealed", monkeypatch):
        migrate(spark, migration)
    roll_back(spark, migration)
    with meanwhile("beginning", later, monkeypatch), pytest.raises(FenceError, match="rolled back"):
        migrate(spark, migration)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(3, verdict.PUBLISH, False)
    assert run.verify.read().attempt == 3 and run.gate_tables.read().success
    run.gate_tables.write(run.gate_tables.read().model_copy(update={"success": False}))
    assert roll_back(spark, migration) == {}
    assert home.table.epoch().plan_digest == digest
    assert home.constraints(spark) == {"evenkeel_epoch_1"}
