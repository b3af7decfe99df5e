"""The fence: what may change between a plan and its migration, and what ends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs.maintain import maintain
from evenkeel_spark.jobs.migrate import main
from evenkeel_spark.migration import fence
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.table_properties import BEFORE_PROPERTY
from partitioning.errors import DamagedError, FenceError, InputError
from tests.support.placed import (
    Placed,
    append,
    copied,
    crashing_at,
    meanwhile,
    next_function,
    placed,
    planned,
    store,
)
from tests.support.raw_json import read_json, write_json
from tests.support.state_tables import assert_placed

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    return placed(spark, tmp_path_factory.mktemp("placed"))


@pytest.fixture
def home(template: Placed, tmp_path: Path) -> Iterator[Placed]:
    return copied(template, tmp_path / "home")


@pytest.mark.slow
def test_maintenance_since_the_plan_is_ordinary(spark: SparkSession, home: Placed) -> None:
    migration = planned(spark, home)
    before = home.version(spark)
    maintain(spark, home.table)
    assert commits.history_since(spark, home.path(), before)[0].operation == "SET TBLPROPERTIES"
    migrate(spark, migration)
    assert_placed(spark, home, migration)


@pytest.mark.slow
def test_the_note_of_maintain_is_ordinary(spark: SparkSession, home: Placed) -> None:
    migration = planned(spark, home)
    with commits.our_commit(spark, None, None, {"step": "maintain"}) as own:
        changed = f"'{BEFORE_PROPERTY}' = '{{}}', '{state.RETENTION[1]}' = 'interval 9 days'"
        own.sql(f"ALTER TABLE {state.sql_name(home.path())} SET TBLPROPERTIES ({changed})")
    migrate(spark, migration)


@pytest.mark.parametrize(
    ("step", "name"), [("maintain", "delta.appendOnly"), ("other", state.RETENTION[0])]
)
def test_other_properties_are_not(spark: SparkSession, home: Placed, step: str, name: str) -> None:
    migration = planned(spark, home)
    value = "interval 9 days" if name in state.RETENTION else "false"
    with commits.our_commit(spark, None, None, {"step": step}) as own:
        own.sql(
            f"ALTER TABLE {state.sql_name(home.path())} SET TBLPROPERTIES ('{name}' = '{value}', "
            f"'{state.RETENTION[1]}' = 'interval 9 days')"
        )
    with pytest.raises(FenceError, match=f"is SET TBLPROPERTIES of .*{name}"):
        migrate(spark, migration)


def test_a_table_that_forgets_transaction_ids_is_refused_before_any_row_moves(
    spark: SparkSession, home: Placed
) -> None:
    """A job that was given up, and wakes after an hour, would no longer find its id spent."""
    path = state.sql_name(home.path())
    spark.sql(f"ALTER TABLE {path} SET TBLPROPERTIES ('{commits.IDS_KEPT}' = 'interval 1 hour')")
    migration = planned(spark, home)
    before = state.table_version(spark, home.path())
    with pytest.raises(InputError, match=r"to be at least 1 day.*UNSET TBLPROPERTIES"):
        migrate(spark, migration)
    assert state.table_version(spark, home.path()) == before
    # The advice works, for a plan that is made after it.
    spark.sql(f"ALTER TABLE {path} UNSET TBLPROPERTIES ('{commits.IDS_KEPT}')")
    with pytest.raises(FenceError, match="UNSET TBLPROPERTIES"):
        migrate(spark, migration)
    again = planned(spark, home, "r2")
    migrate(spark, again)
    assert_placed(spark, home, again)


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
        monkeypatch.setattr(commits, "FEW_COMMITS", few)
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


@pytest.mark.parametrize(
    ("approved", "digest", "said"),
    [(True, "f" * 64, "ada has approved plan ffffffffffff"), (False, None, "ada has refused plan")],
)
def test_a_plan_that_was_not_the_one_approved_is_refused(
    spark: SparkSession, home: Placed, approved: bool, digest: str | None, said: str
) -> None:
    migration, version = planned(spark, home), home.version(spark)
    answer = {"approved": approved, "by": "ada", "when": "now", "digest": digest}
    write_json(migration.run, "approval.json", answer)
    with pytest.raises(FenceError, match=f"{said}.*Clear the task approve"):
        migrate(spark, migration)
    assert home.version(spark) == version and not migration.run.migration.exists()
    # Airflow shows the first question of a run for ever.
    write_json(migration.run, "asked.json", {"digest": "e" * 64})
    with pytest.raises(FenceError, match=f"{said}.*Start a new run: this one asks about"):
        migrate(spark, migration)
    own = migration.plan.digest
    # To ask removes the answer before.
    migration.run.approval.remove()
    with pytest.raises(FenceError, match="found that a person is still asked"):
        migrate(spark, migration)
    assert home.version(spark) == version and not migration.run.migration.exists()
    write_json(migration.run, "approval.json", {**answer, "approved": True, "digest": own})
    migrate(spark, migration)
    assert_placed(spark, home, migration)


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
