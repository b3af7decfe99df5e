"""Migrate: what it moves, what it refuses, and what a crash or another writer does to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import half_moved
from evenkeel.pipeline.plan_file import remove_plan
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel_spark.migration import migrate as migrating
from evenkeel_spark.migration.migrate import migrate, table_record, weigh_moves
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.throttle import Throttle
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.plans.before_moving import check_budget
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import FenceError, InputError
from tests.support.placed import (
    KEYS,
    Placed,
    append,
    copied,
    crashing_at,
    meanwhile,
    next_function,
    placed,
    planned,
)
from tests.support.state_tables import assert_placed

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    return placed(spark, tmp_path_factory.mktemp("placed"))


@pytest.fixture
def home(template: Placed, tmp_path: Path) -> Iterator[Placed]:
    return copied(template, tmp_path / "home")


def test_moves_the_planned_rows_and_writes_nothing_else(spark: SparkSession, home: Placed) -> None:
    migration = planned(spark, home)
    before = home.version(spark)
    record = migrate(spark, migration)
    assert_placed(spark, home, migration)
    keys = [f"k{i}" for i in range(KEYS)]
    moving = migration.before.lookup(keys) != migration.after.lookup(keys)
    table = record.tables["visits"]
    assert table.rows == moving.sum() == round(sum(m.rows for m in migration.plan.moves))
    # Two constraints changed, then one UPDATE.
    assert (table.before, table.after, table.commits) == (
        before + 2,
        before + 3,
        [before + 3],
    )
    added = state.files(spark, home.path()).where("rows < 400").agg({"size": "sum"}).first()
    assert table.bytes == added[0] < 0.5 * migration.plan.state_bytes
    (commit,) = commits.history_since(spark, home.path(), before + 2)
    assert commit.metrics["numCopiedRows"] == 0, "deletion vectors are off"
    assert commit.meta == {
        "digest": migration.plan.digest,
        "epoch": 1,
        "run": migration.run.name,
        "step": "migrate",
    }
    assert home.constraints(spark) == {migration.moving}
    assert migration.run.migration.read() == record
    # A second run commits nothing.
    assert migrate(spark, migration) == record
    assert home.version(spark) == before + 3
    # While rows move, a writer may use either epoch's function, and no other.
    append(spark, home, migration.before, {"new0": 0, "new1": 1})
    append(spark, home, migration.after, {"new2": 2, "new3": 3})
    neither = replace(migration.before, slots=(migration.before.slots + 2) % 4)
    with pytest.raises((PySparkException, Py4JJavaError), match=migration.moving):
        append(spark, home, neither, {f"new{i}": i for i in range(20)})


@pytest.mark.slow
def test_a_crash_anywhere_is_made_good_by_a_second_run(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run goes on where the one before it was killed, and is killed one step later."""
    migration = planned(spark, home)
    for step in ("weighed", "unsealing", "unsealed", "moved", "written"):
        with crashing_at(step, monkeypatch):
            migrate(spark, migration)
    record = migrate(spark, migration)
    assert_placed(spark, home, migration)
    assert len(record.tables["visits"].commits) == 1
    assert home.constraints(spark) == {migration.moving}


def test_a_plan_without_moves_still_changes_the_constraint(
    spark: SparkSession, home: Placed
) -> None:
    migration = planned(spark, home, function=home.table.epoch().function)
    table = migrate(spark, migration).tables["visits"]
    assert (table.rows, table.bytes, table.before) == (0, 0, table.after)
    assert home.constraints(spark) == {migration.moving}


def test_ordinary_writes_since_the_plan_move_too(spark: SparkSession, home: Placed) -> None:
    migration = planned(spark, home)
    name = state.sql_name(home.path())
    append(spark, home, migration.before, {f"new{i}": i for i in range(200)})
    spark.sql(f"UPDATE {name} SET visits = visits + 1 WHERE key = 'new7'")
    spark.sql(f"DELETE FROM {name} WHERE key = 'new8'")
    spark.sql(f"OPTIMIZE {name}")
    migrate(spark, migration)
    assert_placed(spark, home, migration)
    rows = home.rows(spark)
    assert rows["new7"][1] == 8
    assert "new8" not in rows


@pytest.mark.parametrize(
    "kind", ["MAP<STRING, INT>", "ARRAY<STRUCT<m: MAP<STRING, INT>>>", "VARIANT"]
)
def test_a_column_that_cannot_be_compared_is_refused_before_a_row_moves(
    spark: SparkSession, home: Placed, kind: str
) -> None:
    spark.sql(f"ALTER TABLE {state.sql_name(home.path())} ADD COLUMN more {kind}")
    migration = planned(spark, home)
    before = home.version(spark)
    with pytest.raises(InputError, match="column 'more' is .*: rows with a map or a variant"):
        migrate(spark, migration)
    assert home.version(spark) == before


def test_rows_that_come_while_moving_are_swept(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = planned(spark, home)
    late = [{f"late{i}": i for i in range(200)}]
    real = commits.our_commit

    @contextlib.contextmanager
    def then_somebody_writes(
        session: SparkSession, app: str | None, version: int | None, meta: dict[str, object]
    ) -> Iterator[SparkSession]:
        with real(session, app, version, meta) as own:
            yield own
        if app is not None and late:
            append(session, home, migration.before, late.pop())

    monkeypatch.setattr("evenkeel_spark.tables.delta.commits.our_commit", then_somebody_writes)
    record = migrate(spark, migration)
    first, second = record.tables["visits"].commits
    assert second == first + 2
    assert_placed(spark, home, migration)
    assert "late7" in home.rows(spark)


def test_the_same_plan_twice_at_once(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = planned(spark, home)
    with meanwhile("unsealing", lambda: migrate(spark, migration), monkeypatch):
        record = migrate(spark, migration)
    assert len(record.tables["visits"].commits) == 1
    assert_placed(spark, home, migration)


def test_a_published_run_is_left_as_it_is_also_once_its_log_was_cleaned(
    spark: SparkSession, home: Placed
) -> None:
    migration = planned(spark, home)
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    record = migration.run.migration.read()
    home.clean_log(spark)
    assert migrate(spark, migration) == record == migration.run.migration.read()


def test_a_plan_replaced_under_a_driver_that_lives_on_stops_it(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow clears a task, and its driver goes on: roll_back knows the run's plan alone."""
    migration = planned(spark, home)
    other = replace(migration.plan, function=next_function(migration.before, (1, 2, 3)))
    with (
        meanwhile("weighed", lambda: migration.run.plan.write(other), monkeypatch),
        pytest.raises(FenceError, match=f"holds plan {other.digest[:12]}, not"),
    ):
        migrate(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_0"}
    assert half_moved(home.table.registry, [migration.run.name]) is None


def test_a_plan_removed_under_a_driver_that_lives_on_stops_it(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch looks again in a run that was cleared."""
    migration = planned(spark, home)
    with (
        meanwhile("weighed", lambda: remove_plan(migration.run), monkeypatch),
        pytest.raises(FenceError, match="holds no plan, not"),
    ):
        migrate(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_0"}
    assert half_moved(home.table.registry, [migration.run.name]) is None


def test_a_run_that_was_ended_at_the_last_moment_keeps_its_record(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may have planned again by then, and move rows by another plan."""
    migration, other = planned(spark, home), MigrationRecord(digest="other", epoch=1, tables={})

    def late(*args: Any) -> Any:
        record = table_record(*args)
        roll_back(spark, migration)
        migration.run.migration.write(other)
        return record

    monkeypatch.setattr(migrating, "table_record", late)
    with pytest.raises(FenceError, match="was rolled back"):
        migrate(spark, migration)
    assert migration.run.migration.read() == other


def test_over_the_budget_by_now_is_refused(spark: SparkSession, home: Placed) -> None:
    def check(migration: Migration) -> None:
        check_budget(migration, lambda: weigh_moves(spark, migration, Throttle(spark, migration)))

    exact = planned(spark, home).plan.bytes
    migration = planned(spark, home, budget=exact)
    check(migration)  # to the byte
    append(spark, home, migration.before, {f"new{i}": i for i in range(400)})
    version = home.version(spark)
    with pytest.raises(FenceError, match="the budget is"):
        migrate(spark, migration)
    assert home.version(spark) == version
    check(planned(spark, home, "wide", budget=3 * exact))
