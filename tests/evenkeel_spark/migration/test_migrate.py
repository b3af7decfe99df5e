"""Migrate: what it moves, what it refuses, and what a crash or another writer does to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import delta.exceptions
import numpy as np
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel_spark.jobs.maintain import maintain
from evenkeel_spark.jobs.migrate import main
from evenkeel_spark.migration import fence
from evenkeel_spark.migration.fence import approved_migration
from evenkeel_spark.migration.migrate import check_budget, migrate
from evenkeel_spark.migration.move_predicate import moved_sql, slot_ranges
from evenkeel_spark.migration.throttle import Throttle
from evenkeel_spark.runtime.retry import PATIENCE_SETTING, retry_on_conflict
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function.function import PartitioningFunction, numbered_channels
from tests.support.placed import (
    HEAVY,
    KEY,
    KEYS,
    Placed,
    append,
    copied,
    crashing_at,
    hashes,
    meanwhile,
    next_function,
    placed,
    planned,
    store,
)
from tests.support.raw_json import read_json

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    return placed(spark, tmp_path_factory.mktemp("placed"))


@pytest.fixture
def home(template: Placed, tmp_path: Path) -> Iterator[Placed]:
    return copied(template, tmp_path / "home")


def assert_placed(spark: SparkSession, home: Placed, migration: fence.Migration) -> None:
    """Every row once, where the plan's function says, with what was in it."""
    rows = home.rows(spark)
    keys = [f"k{i}" for i in range(KEYS)]
    assert {k: rows[k][1] for k in keys} == {f"k{i}": i for i in range(KEYS)}
    owners = migration.after.lookup(list(rows))
    assert [c for c, _ in rows.values()] == owners.tolist()


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
    for step in ("weighed", "loosening", "loosened", "moved", "written"):
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


@pytest.mark.slow
def test_maintenance_since_the_plan_is_ordinary(spark: SparkSession, home: Placed) -> None:
    migration = planned(spark, home)
    before = home.version(spark)
    maintain(spark, home.table)
    assert commits.history_since(spark, home.path(), before)[0].operation == "SET TBLPROPERTIES"
    migrate(spark, migration)
    assert_placed(spark, home, migration)


@pytest.mark.parametrize(
    ("step", "name"), [("maintain", "delta.appendOnly"), ("other", state.RETENTION[0])]
)
def test_other_properties_are_not(spark: SparkSession, home: Placed, step: str, name: str) -> None:
    migration = planned(spark, home)
    value = "interval 9 days" if name in state.RETENTION else "false"
    with commits.commit_session(spark, None, None, {"step": step}) as own:
        own.sql(
            f"ALTER TABLE {state.sql_name(home.path())} SET TBLPROPERTIES ('{name}' = '{value}', "
            f"'{state.RETENTION[1]}' = 'interval 9 days')"
        )
    with pytest.raises(FenceError, match=f"is SET TBLPROPERTIES of .*{name}"):
        migrate(spark, migration)


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


def test_properties_that_nothing_relies_on_do_not_end_a_migration(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration, path = planned(spark, home), state.sql_name(home.path())
    spark.sql(
        f"ALTER TABLE {path} SET TBLPROPERTIES ('team' = 'shop', "
        "'delta.checkpointInterval' = '20', 'delta.dataSkippingNumIndexedCols' = '3')"
    )
    with crashing_at("moved", monkeypatch):
        migrate(spark, migration)
    spark.sql(f"ALTER TABLE {path} UNSET TBLPROPERTIES ('team')")
    migrate(spark, migration)
    assert_placed(spark, home, migration)


@pytest.mark.slow
def test_history_is_what_delta_tells(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, name = home.table.epoch().function, state.sql_name(home.path())
    for i in range(2):
        append(spark, home, function, {f"new{i}": i})
    spark.sql(f"DELETE FROM {name} WHERE key = 'new0'")
    spark.sql(f"OPTIMIZE {name} ZORDER BY (slot)").collect()
    migrate(spark, planned(spark, home))
    told = {r["version"]: r for r in spark.sql(f"DESCRIBE HISTORY {name}").collect()}
    # One after the other, and by several threads.
    for few in (100, 0):
        monkeypatch.setattr(commits, "FEW", few)
        found = commits.history_since(spark, home.path(), -1)
        assert [c.version for c in found] == sorted(told)
        for commit in found:
            row = told[commit.version]
            assert commit.operation == row["operation"]
            assert commit.timestamp == pytest.approx(row["timestamp"].timestamp(), abs=5)
            assert commit.parameters == row["operationParameters"]
            numbers = (row["operationMetrics"] or {}).items()
            assert commit.metrics == {k: int(v) for k, v in numbers if v.isdigit()}
            meta = row["userMetadata"]
            assert commit.meta == (json.loads(meta)["evenkeel"] if meta else {})
    assert list(commits.newest_first(spark, home.path())) == found[::-1]
    assert {c.operation for c in found} >= {"WRITE", "DELETE", "OPTIMIZE", "UPDATE"}
    # What the log no longer holds, as Delta cleans it behind a checkpoint, is not passed over.
    newest = state.snapshot(spark, home.path())
    newest.deltaLog().checkpoint(newest, spark._jvm.scala.Option.empty())
    for version in range(4):
        (Path(home.path()) / "_delta_log" / f"{version:020d}.json").unlink()
    assert [c.version for c in commits.newest_first(spark, home.path())][-1] == 4
    with pytest.raises(DamagedError, match="no longer reaches back to version 2"):
        commits.history_since(spark, home.path(), 2)


def test_rows_that_come_while_moving_are_swept(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = planned(spark, home)
    late = [{f"late{i}": i for i in range(200)}]
    real = commits.commit_session

    @contextlib.contextmanager
    def then_somebody_writes(
        session: SparkSession, app: str | None, version: int | None, meta: dict[str, object]
    ) -> Iterator[SparkSession]:
        with real(session, app, version, meta) as own:
            yield own
        if app is not None and late:
            append(session, home, migration.before, late.pop())

    monkeypatch.setattr("evenkeel_spark.tables.delta.commits.commit_session", then_somebody_writes)
    record = migrate(spark, migration)
    first, second = record.tables["visits"].commits
    assert second == first + 2
    assert_placed(spark, home, migration)
    assert "late7" in home.rows(spark)


def test_of_two_plans_one_wins(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned(spark, home, "first")
    second = planned(spark, home, "second", next_function(first.before, (1, 2, 3), None))
    with (
        meanwhile("weighed", lambda: migrate(spark, second), monkeypatch),
        pytest.raises(FenceError, match="evenkeel_moving_1_[0-9a-f]+, which is not this plan's"),
    ):
        migrate(spark, first)
    assert_placed(spark, home, second)
    # It had begun when the other came first, and says that it moved no table.
    assert read_json(first.run, "migration.json")["tables"] == {}


def test_the_same_plan_twice_at_once(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = planned(spark, home)
    with meanwhile("loosening", lambda: migrate(spark, migration), monkeypatch):
        record = migrate(spark, migration)
    assert len(record.tables["visits"].commits) == 1
    assert_placed(spark, home, migration)


def test_a_plan_of_another_epoch_is_refused(spark: SparkSession, home: Placed) -> None:
    migration = planned(spark, home)
    home.table.registry.publish(
        replace(migration.before, epoch=1, parent=migration.before.digest), {}
    )
    version = home.version(spark)
    with pytest.raises(FenceError, match="epoch 1 is current, the plan starts from epoch 0"):
        migrate(spark, migration)
    assert home.version(spark) == version


MEDDLING = {
    "a restore": ("RESTORE TABLE {t} TO VERSION AS OF 1", "is RESTORE"),
    "a changed constraint": (
        "ALTER TABLE {t} DROP CONSTRAINT evenkeel_epoch_0;"
        "UPDATE {t} SET channel = 3 WHERE slot = 0;"
        "ALTER TABLE {t} ADD CONSTRAINT evenkeel_epoch_0 CHECK (channel >= 0)",
        "constraint evenkeel_epoch_0, which is not this plan's",
    ),
    "a lost constraint": (
        "ALTER TABLE {t} DROP CONSTRAINT evenkeel_epoch_0",
        "lost its constraint evenkeel_epoch_0",
    ),
    "an overwrite": (
        "INSERT OVERWRITE {t} SELECT * FROM {t} VERSION AS OF 1",
        "is WRITE with mode Overwrite",
    ),
}


@pytest.mark.parametrize("what", MEDDLING)
def test_a_table_that_somebody_else_moved_is_refused(
    spark: SparkSession, home: Placed, what: str
) -> None:
    statements, message = MEDDLING[what]
    migration = planned(spark, home)
    # One more version, so that a restore is one.
    append(spark, home, migration.before, {"one": 1})
    for statement in statements.split(";"):
        spark.sql(statement.format(t=state.sql_name(home.path())))
    rows, version = home.rows(spark), home.version(spark)
    with pytest.raises(FenceError, match=message) as error:
        migrate(spark, migration)
    assert home.path() in str(error.value)
    assert home.version(spark) == version
    assert home.rows(spark) == rows


def test_over_the_budget_by_now_is_refused(spark: SparkSession, home: Placed) -> None:
    exact = planned(spark, home).plan.bytes
    migration = planned(spark, home, budget=exact)
    check_budget(spark, migration, Throttle(spark, migration))  # to the byte
    append(spark, home, migration.before, {f"new{i}": i for i in range(400)})
    version = home.version(spark)
    with pytest.raises(FenceError, match="the budget is"):
        migrate(spark, migration)
    assert home.version(spark) == version
    wide = planned(spark, home, "wide", budget=3 * exact)
    check_budget(spark, wide, Throttle(spark, wide))


def test_an_edited_plan_is_refused(
    spark: SparkSession, home: Placed, capfd: pytest.CaptureFixture[str]
) -> None:
    migration = planned(spark, home)
    edited = replace(migration.plan, function=next_function(migration.before, (1, 2, 3)))
    store(home, "r1", edited)
    with pytest.raises(FenceError, match="which was approved"):
        approved_migration(home.table, "r1", migration.plan.digest)
    version = home.version(spark)
    arguments = ["--spec", str(home.spec_path), "--run", "r1", "--digest", migration.plan.digest]
    assert main(arguments) == 2
    (line,) = [x for x in capfd.readouterr().err.splitlines() if "evenkeel: error" in x]
    assert "plan.json" in line
    assert home.version(spark) == version


def test_lost_races_are_tried_again_and_then_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    lost: list[int] = []

    def lose(times: int) -> str:
        if len(lost) < times:
            lost.append(1)
            raise delta.exceptions.ConcurrentAppendException("files were added")
        return "done"

    # A writer that commits every second wins more than once or twice.
    assert retry_on_conflict(spark, lambda: lose(9), "visits") == "done"
    lost.clear()
    hasty = spark.newSession()
    hasty.conf.set(PATIENCE_SETTING, "0")
    with pytest.raises(FenceError, match=f"were first 1 times in .* raise {PATIENCE_SETTING}"):
        retry_on_conflict(hasty, lambda: lose(9), "visits")


def test_conditions_name_what_need_not_be_read() -> None:
    before = PartitioningFunction(KEY, numbered_channels(4), np.arange(64) % 4)
    assert moved_sql(before, before) is None
    sql = moved_sql(before, next_function(before, (4, 8, 9), None))
    assert sql is not None
    assert "channel IN (0, 1)" in sql and "slot IN (4, 8, 9)" in sql
    heavy = moved_sql(before, next_function(before, (), HEAVY))
    slot = int(hashes([HEAVY])[0] % 64)
    assert heavy is not None
    assert f"channel IN ({slot % 4})" in heavy
    # Where nothing is split, the condition knows nothing of that.
    none = np.empty(0, np.int64)
    assert heavy == moved_sql(before, next_function(before, (), HEAVY), shared=none)
    assert "NOT" not in heavy


@pytest.mark.parametrize(
    ("slots", "most", "ranges"),
    [
        ([5], 3, [(5, 5)]),
        ([1, 2, 3], 3, [(1, 3)]),
        ([1, 2, 9, 20], 3, [(1, 2), (9, 9), (20, 20)]),
        ([1, 2, 9, 20], 2, [(1, 9), (20, 20)]),
        ([1, 2, 9, 20], 1, [(1, 20)]),
    ],
)
def test_ranges_hold_every_slot(slots: list[int], most: int, ranges: list[tuple[int, int]]) -> None:
    assert slot_ranges(np.array(slots), most) == ranges


def test_a_fence_reads_no_commit_twice(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = planned(spark, home)
    real, read = commits.commit_at, []

    def counting(spark: SparkSession, path: str, version: int) -> commits.Commit | None:
        read.append(version)
        return real(spark, path, version)

    monkeypatch.setattr(commits, "commit_at", counting)
    append(spark, home, migration.before, {"late": 1})
    fence.fence(spark, migration, "visits")
    assert read == [home.version(spark)]
    fence.fence(spark, migration, "visits")
    assert read == [home.version(spark)]
    where = state.sql_name(home.path())
    spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    with pytest.raises(FenceError, match="SET TBLPROPERTIES of delta.appendOnly"):
        fence.fence(spark, migration, "visits")
    # What is wrong stays wrong, and a table made anew is none that was looked at.
    with pytest.raises(FenceError, match=r"delta\.appendOnly"):
        fence.fence(spark, migration, "visits")
    migration.in_order["visits"] = 99
    with pytest.raises(FenceError, match="was made again"):
        fence.fence(spark, migration, "visits")
