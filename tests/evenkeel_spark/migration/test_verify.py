"""Verify: what it measures, that it seals what passes and leaves what does not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel.pipeline.steps import publish as keep
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel.registry.verdict import PUBLISH, settle
from evenkeel_spark.jobs.verify import main
from evenkeel_spark.migration import verify as verifying
from evenkeel_spark.migration.measuring.measures import measure_table
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.rows.checksums import (
    Content,
    channel_contents,
    larger,
    text_sql,
)
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import DamagedError, FenceError, GateError
from partitioning.function.hashing import slot_of
from tests.chaos.points import watched
from tests.support.placed import (
    KEYS,
    SLOTS,
    Placed,
    append,
    copied,
    crashing_at,
    hashes,
    meanwhile,
    next_function,
    placed,
    planned,
)
from tests.support.raw_json import read_json
from tests.support.state_tables import assert_under

pytestmark = pytest.mark.spark


def test_seals_what_passes_and_the_epoch_can_be_published(
    spark: SparkSession, home: Placed, migration: Migration
) -> None:
    record = verify(spark, migration)
    assert_under(spark, home, migration.after)
    gate = read_json(migration.run, "gate_tables.json")
    assert gate["success"]
    assert gate["warnings"] == 0
    version = home.version(spark)
    assert record.tables == {"visits": version}
    # Again: nothing is committed.
    assert verify(spark, migration) == record
    assert home.version(spark) == version
    assert publish(spark, migration).number == 1
    assert home.table.epoch().tables["visits"].version == version
    assert keep(str(home.spec_path), "r1") == 1
    assert verify(spark, migration) == record
    with pytest.raises((PySparkException, Py4JJavaError), match="evenkeel_epoch_1"):
        append(spark, home, migration.before, {f"late{i}": i for i in range(50)})
    append(spark, home, migration.after, {f"late{i}": i for i in range(50)})


def test_a_verify_whose_run_was_ended_while_it_measured_writes_nothing(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may have planned again by then, and move rows by another plan."""
    other = MigrationRecord(digest="other", epoch=1, tables={})

    def late(*args: Any) -> Any:
        roll_back(spark, migration)
        migration.run.migration.write(other)
        return measure_table(*args)

    monkeypatch.setattr(verifying, "measure_table", late)
    with pytest.raises(FenceError, match="was rolled back|has begun"):
        verify(spark, migration)
    assert migration.run.migration.read() == other
    assert not migration.run.exists("gate_tables.json") and not migration.run.verify.exists()


def test_rows_by_the_epoch_before_are_refused_once_the_last_are_swept(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(spark, home, migration.before, {f"early{i}": i for i in range(50)})
    with crashing_at("measured", monkeypatch):
        verify(spark, migration)
    assert home.constraints(spark) == {migration.moving}
    with pytest.raises(SPARK_ERRORS, match=migration.moving):
        append(spark, home, migration.before, {f"late{i}": i for i in range(50)})
    append(spark, home, migration.after, {f"late{i}": i for i in range(50)})
    # roll_back lets the epoch before write again, and refuses the next one's rows.
    with crashing_at("closed", monkeypatch):
        roll_back(spark, migration)
    append(spark, home, migration.before, {f"back{i}": i for i in range(50)})
    with pytest.raises(SPARK_ERRORS, match=migration.moving):
        append(spark, home, migration.after, {f"new{i}": i for i in range(50)})
    assert roll_back(spark, migration)["visits"] > 0
    rows = home.rows(spark)
    assert len(rows) == KEYS + 150
    assert [c for c, _ in rows.values()] == migration.before.lookup(list(rows)).tolist()


@pytest.mark.slow
def test_a_row_that_came_as_migrate_found_nothing_to_move_is_swept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit tells when that was, and what migrate recorded holds the row already."""
    home = placed(spark, tmp_path)
    before = home.table.epoch().function
    spark.sql(f"DELETE FROM {state.sql_name(home.path())} WHERE {state.SLOT} = 5")
    migration = planned(spark, home, function=next_function(before, slots=(5,), heavy=None))
    late = next(k for k in map("late{}".format, range(999)) if slot_of(hashes([k]), SLOTS)[0] == 5)
    came = lambda: append(spark, home, before, {late: 1})  # noqa: E731
    # What this attempt has not unsealed itself, it looks at before it moves.
    with crashing_at("unsealed", monkeypatch):
        migrate(spark, migration)
    with meanwhile("moved", came, monkeypatch):
        record = migrate(spark, migration).tables["visits"]
    assert record.commits == []
    assert record.after == home.version(spark)
    with crashing_at("measured", monkeypatch):
        verify(spark, migration)
    assert home.rows(spark)[late][0] == migration.after.lookup([late])[0]


@pytest.mark.slow
def test_a_crash_anywhere_is_made_good_by_a_second_run(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in ("measured", "sealing"):
        with crashing_at(step, monkeypatch):
            verify(spark, migration)
    verify(spark, migration)
    assert_under(spark, home, migration.after)


@pytest.mark.slow
def test_of_two_verify_at_once_the_second_ends_well_too(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's worker is killed, and its driver publishes while the retry measures."""
    arguments = ["--spec", str(home.spec_path), "--run", "r1", "--digest", migration.plan.digest]

    def first() -> None:
        verify(spark, migration)
        publish(spark, migration)

    with meanwhile("measured", first, monkeypatch):
        assert main(arguments) == 0
    assert home.table.registry.numbers() == [0, 1]
    assert_under(spark, home, migration.after)


@pytest.mark.slow
def test_rows_of_the_old_epoch_are_swept_before_sealing(
    spark: SparkSession, home: Placed, migration: Migration
) -> None:
    append(spark, home, migration.before, {f"early{i}": i for i in range(100)})
    verify(spark, migration)
    assert_under(spark, home, migration.after)
    assert len(home.rows(spark)) == KEYS + 100
    # The move, and a sweep.
    assert len(read_json(migration.run, "migration.json")["tables"]["visits"]["commits"]) == 2
    assert read_json(migration.run, "gate_tables.json")["success"]


def test_a_key_in_two_rows_fails_and_leaves_the_table_unsealed(
    spark: SparkSession,
    home: Placed,
    migration: Migration,
    capfd: pytest.CaptureFixture[str],
) -> None:
    append(spark, home, migration.after, {"k5": 5})
    arguments = ["--spec", str(home.spec_path), "--run", "r1", "--digest", migration.plan.digest]
    assert main(arguments) == 1
    (line,) = [x for x in capfd.readouterr().err.splitlines() if "evenkeel: error" in x]
    assert "No key stands in two rows" in line
    assert home.constraints(spark) == {migration.moving}
    assert not migration.run.exists("verify.json")
    assert not read_json(migration.run, "gate_tables.json")["success"]
    with pytest.raises(GateError):
        publish(spark, migration)


def test_tables_are_looked_at_as_their_epoch_is_published(
    spark: SparkSession, home: Placed, migration: Migration, tmp_path: Path
) -> None:
    """Between verify and publish somebody restores a table, or drops its constraint."""
    verify(spark, migration)
    restored, dropped = (copied(home, tmp_path / name) for name in ("restored", "dropped"))
    table = state.sql_name(restored.path())
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {home.version(spark) - 1}")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {home.version(spark)}")
    spark.sql(f"ALTER TABLE {state.sql_name(dropped.path())} DROP CONSTRAINT evenkeel_epoch_1")
    for other, wrong in ((restored, "RESTORE, not an ordinary"), (dropped, "lost its constraint")):
        with pytest.raises(FenceError, match=wrong):
            publish(spark, other.migration("r1"))
        assert other.table.registry.numbers() == [0]
    # A row that comes between is in the version that the epoch names.
    append(spark, home, migration.after, {"late": 1})
    assert publish(spark, migration).tables["visits"].version == home.version(spark)


@pytest.mark.parametrize("job", [publish, lambda spark, m: repair(spark, m.table)])
def test_a_restore_between_the_last_look_and_the_epoch_is_told(
    spark: SparkSession, home: Placed, migration: Migration, job: Any
) -> None:
    """Nobody can undo the epoch then, so the job says that repair leads out, and it does."""
    verify(spark, migration)
    if job is not publish:
        # A repair that goes forward publishes, too.
        settle(migration.run, migration.plan.digest, 1, PUBLISH)
    table = state.sql_name(home.path())

    def restore(label: str) -> None:
        if label.startswith("before create") and label.endswith("1/epoch.json"):
            spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")

    rows = home.rows(spark)
    for _ in range(2):
        # A task that is tried again must not turn green.
        told = "is published, .*not admit .*evenkeel repair"
        with pytest.raises(FenceError, match=told), watched(restore):
            job(spark, migration)
        job = publish
        assert home.table.registry.numbers() == [0, 1]
        assert home.constraints(spark) == {"evenkeel_epoch_0"}
    repair(spark, home.table)
    assert publish(spark, migration).number == 1
    assert_under(spark, home, migration.after)
    assert home.rows(spark) == rows


def test_nothing_is_verified_before_it_is_migrated(spark: SparkSession, tmp_path: Path) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    with pytest.raises(FenceError, match="Migrate it first"):
        verify(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_0"}


def test_one_row_far_larger_than_the_others_may_move(
    spark: SparkSession, home: Placed, migration: Migration
) -> None:
    roll_back(spark, migration)
    moves = next(k for k in home.rows(spark) if slot_of(hashes([k]), SLOTS)[0] == 0)
    path = state.sql_name(home.path())
    spark.sql(f"ALTER TABLE {path} ADD COLUMN note STRING")
    # Random digits: 3 MB that do not compress to nothing.
    text = "concat_ws('', transform(sequence(1, 90000), i -> sha2(CAST(i AS STRING), 256)))"
    spark.sql(f"UPDATE {path} SET note = substr({text}, 1, 3000000) WHERE key = '{moves}'")
    again = planned(spark, home, "large", next_function(migration.before))
    record = migrate(spark, again).tables["visits"]
    assert record.bytes > 1_000_000
    verify(spark, again)
    assert_under(spark, home, again.after)
    # Rows that are as large as the others are predicted as before.
    assert text_sql(spark.table(path).schema, ["note"]) is not None
    found = channel_contents(spark.table(path), again.after, text="octet_length(note)")
    assert sum(c.text for c in found.values()) == 3_000_000
    assert larger([Content(9, 0, 0, 0, 10, 1000, 50)], 1) == 0.0
    assert larger([Content(9, 0, 0, 0, 10, 1000, 250)], 1) == 150.0


def test_a_migration_older_than_the_retention_is_one_line_and_can_go_back(
    spark: SparkSession, home: Placed, migration: Migration
) -> None:
    short = ", ".join(f"'{name}' = 'interval 1 second'" for name in state.RETENTION)
    with commits.our_commit(spark, None, None, {"step": "maintain"}) as own:
        own.sql(f"ALTER TABLE {state.sql_name(home.path())} SET TBLPROPERTIES ({short})")
    time.sleep(2)
    with pytest.raises(DamagedError, match="longer ago than the table's versions stay readable"):
        verify(spark, migration)
    home.clean_log(spark)
    roll_back(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_0"}
    rows = home.rows(spark)
    assert [c for c, _ in rows.values()] == migration.before.lookup(list(rows)).tolist()
