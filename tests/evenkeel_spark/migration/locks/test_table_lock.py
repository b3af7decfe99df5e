"""The moving constraint while a statement holds other writers off: what it admits, ways out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration import table_migration
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from tests.support.placed import (
    KEYS,
    Placed,
    append,
    copied,
    crashing_at,
    meanwhile,
    planned,
)
from tests.support.state_tables import assert_under
from tests.support.worlds.split_state import parts, split, whole, write

pytestmark = pytest.mark.spark


@pytest.fixture
def home(planned_home: Placed, tmp_path: Path) -> Placed:
    """The test's own copy of a table with a plan."""
    return copied(planned_home, tmp_path)


@pytest.fixture(autouse=True)
def always_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold other writers off at once, as after `LOSSES` lost races."""
    monkeypatch.setattr(table_migration, "LOSSES", 0)


def moving_sql(spark: SparkSession, home: Placed, migration: Migration) -> str:
    return constraints.of(spark, home.path())[migration.moving]


def test_writers_of_either_epoch_are_refused_while_it_is_held(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"new{i}" for i in range(100)]
    moved = migration.before.lookup(keys) != migration.after.lookup(keys)
    stays = next(k for k, m in zip(keys, moved, strict=True) if not m)
    goes = next(k for k, m in zip(keys, moved, strict=True) if m)
    refused = []

    def write() -> None:
        for function, key in ((migration.before, stays), (migration.before, goes)):
            with pytest.raises(SPARK_ERRORS, match=migration.moving):
                append(spark, home, function, {key: 1})
            refused.append(key)

    with meanwhile("held", write, monkeypatch):
        migrate(spark, migration)
    assert refused == [stays, goes]
    # Open again: rows by both epochs are admitted, and verify sweeps them.
    append(spark, home, migration.before, {stays: 1, goes: 1})
    verify(spark, migration)
    assert publish(spark, migration).number == 1
    rows = home.rows(spark)
    assert len(rows) == KEYS + 2
    assert [c for c, _ in rows.values()] == migration.after.lookup(list(rows)).tolist()


def forward(spark: SparkSession, migration: Migration) -> None:
    migrate(spark, migration)
    verify(spark, migration)


def back(spark: SparkSession, migration: Migration) -> None:
    roll_back(spark, migration)


def repaired(spark: SparkSession, migration: Migration) -> None:
    repair(spark, migration.table)


@pytest.mark.parametrize(
    ("job", "way_out"),
    # What is decided to go back does not go forward.
    [
        (migrate, forward),
        (migrate, back),
        (migrate, repaired),
        (roll_back, back),
        (roll_back, repaired),
    ],
)
@pytest.mark.parametrize("step", ["held", "holding"])
def test_a_job_that_is_killed_while_it_holds_leaves_a_way_out(
    spark: SparkSession,
    home: Placed,
    migration: Migration,
    monkeypatch: pytest.MonkeyPatch,
    job: Callable[[SparkSession, Migration], object],
    step: str,
    way_out: Callable[[SparkSession, Migration], None],
) -> None:
    if job is roll_back:
        migrate(spark, migration)
    with crashing_at(step, monkeypatch):
        job(spark, migration)
    rules = migration.rules[migration.moving]
    assert any(constraints.same_sql(moving_sql(spark, home, migration), r) for r in rules[3:])
    way_out(spark, migration)
    assert (
        len(assert_under(spark, home, migration.after if way_out is forward else migration.before))
        == KEYS
    )


def test_a_verify_that_is_killed_while_it_holds_is_made_good(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(spark, migration)
    append(spark, home, migration.before, {f"late{i}": 1 for i in range(50)})
    with crashing_at("held", monkeypatch):
        verify(spark, migration)
    verify(spark, migration)
    assert home.constraints(spark) == {migration.new}
    rows = home.rows(spark)
    assert len(rows) == KEYS + 50
    assert [c for c, _ in rows.values()] == migration.after.lookup(list(rows)).tolist()


def test_a_statement_that_fails_lets_other_writers_go_on(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:

    def lose_files() -> None:
        for file in Path(home.path()).rglob("*.parquet"):
            if "_delta_log" not in file.parts:
                file.unlink()

    with meanwhile("held", lose_files, monkeypatch), pytest.raises(SPARK_ERRORS):
        migrate(spark, migration)
    open_sql = migration.rules[migration.moving][0]
    assert constraints.same_sql(moving_sql(spark, home, migration), open_sql)
    append(spark, home, migration.before, {f"new{i}": 1 for i in range(50)})


@pytest.mark.slow
def test_a_shared_key_joins_while_others_are_held_off(spark: SparkSession, home: Placed) -> None:
    before = home.table.epoch().function
    (start,) = parts(spark, home)
    shared = split(before, {start: 2.0, (start + 1) % 4: 1.0})
    migration = planned(spark, home, "split", shared)
    forward(spark, migration)
    publish(spark, migration)
    write(spark, home, {start: 100, (start + 1) % 4: 20})
    had = sum(parts(spark, home).values())
    joined = planned(spark, home, "join", whole(shared, 2))
    migrate(spark, joined)
    assert parts(spark, home) == {2: had}
    roll_back(spark, joined)
    assert sum(parts(spark, home).values()) == had
    assert set(parts(spark, home)) <= {start, (start + 1) % 4}
    forward(spark, joined)
    assert parts(spark, home) == {2: had}
    assert home.constraints(spark) == {joined.new}
