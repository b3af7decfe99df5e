"""Windows that a RESTORE or a CLONE takes away are applied again, exactly once, and no others."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import commits
from partitioning.errors import InputError
from tests.conftest import SPEC, World, some_events
from tests.support.worlds.windows import (
    applied_twice,
    day,
    exact,
    forget_history,
    killed_between_tables,
    restore,
    sql_name,
    versions,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def _two(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two state tables, with the events before January 8."""
    made = World(tmp_path_factory.mktemp("two"))
    Path(made.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    made.write_events(some_events()).with_seen()
    bootstrap(spark, made.table, day(8))
    return made.folder


@pytest.fixture
def both(_two: Path, tmp_path: Path) -> World:
    shutil.copytree(_two, tmp_path, dirs_exist_ok=True)
    return World(tmp_path)


def test_a_window_that_a_restore_took_away_is_applied_again(
    spark: SparkSession, ready: World
) -> None:
    before = versions(spark, ready)["totals"]
    apply_window(spark, ready.table, day(8), day(10))
    after = versions(spark, ready)["totals"]
    restore(spark, ready, before)
    with pytest.raises(InputError, match="applied up to 2013-01-08: the one .* would leave out"):
        apply_window(spark, ready.table, day(10), day(12))
    applied_twice(spark, ready, 8, 10)
    exact(spark, ready, "2013-01-10")
    applied_twice(spark, ready, 10, 12)
    exact(spark, ready, "2013-01-12")
    # Forward again to the first time that the window was applied: it is in, and comes no more.
    restore(spark, ready, after)
    applied_twice(spark, ready, 8, 10)
    exact(spark, ready, "2013-01-10")
    applied_twice(spark, ready, 10, 11)
    exact(spark, ready, "2013-01-11")
    # Back to where it all began, past the RESTOREs.
    restore(spark, ready, before)
    applied_twice(spark, ready, 8, 11)
    exact(spark, ready, "2013-01-11")


def test_two_windows_of_one_table_are_applied_again_in_order(
    spark: SparkSession, both: World
) -> None:
    before = versions(spark, both)
    for start, end in ((8, 9), (9, 11)):
        apply_window(spark, both.table, day(start), day(end))
    seen = versions(spark, both)["seen"]
    restore(spark, both, before["totals"])
    with pytest.raises(InputError, match="Run this first: --start 2013-01-08 --end 2013-01-09"):
        apply_window(spark, both.table, day(11), day(12))
    with pytest.raises(InputError, match="seen has days between.*first: --start 2013-01-08"):
        apply_window(spark, both.table, day(9), day(11))
    applied_twice(spark, both, 8, 9)
    with pytest.raises(InputError, match="Run this first: --start 2013-01-09 --end 2013-01-11"):
        apply_window(spark, both.table, day(11), day(12))
    applied_twice(spark, both, 9, 11)
    # The table that was not brought back is left alone.
    assert versions(spark, both)["seen"] == seen
    exact(spark, both, "2013-01-11")
    with pytest.raises(InputError, match="would count events twice"):
        apply_window(spark, both.table, day(8), day(9))
    applied_twice(spark, both, 11, 13)
    exact(spark, both, "2013-01-13")


def test_a_kill_between_tables_that_were_both_brought_back(
    spark: SparkSession, both: World
) -> None:
    before = versions(spark, both)
    for start, end in ((8, 9), (9, 11)):
        apply_window(spark, both.table, day(start), day(end))
    for name in before:
        restore(spark, both, before[name], name)

    with killed_between_tables():
        apply_window(spark, both.table, day(8), day(9))
    with pytest.raises(InputError, match="Run this first: --start 2013-01-08 --end 2013-01-09"):
        apply_window(spark, both.table, day(9), day(11))
    applied_twice(spark, both, 8, 9)
    exact(spark, both, "2013-01-09")
    applied_twice(spark, both, 9, 11)
    exact(spark, both, "2013-01-11")


def test_a_clone_into_the_emptied_table(spark: SparkSession, ready: World) -> None:
    """Delta clones over no table that has rows, and keeps the log with its ids."""
    apply_window(spark, ready.table, day(8), day(9))
    backup = ready.folder / "backup"
    spark.sql(f"CREATE TABLE delta.`{backup}` SHALLOW CLONE {sql_name(ready)}")
    apply_window(spark, ready.table, day(9), day(11))
    spark.sql(f"DELETE FROM {sql_name(ready)}")
    with pytest.raises(InputError, match="DELETE of all rows.*--holds-until DAY --of totals"):
        apply_window(spark, ready.table, day(11), day(12))
    spark.sql(f"CREATE OR REPLACE TABLE {sql_name(ready)} SHALLOW CLONE delta.`{backup}`")
    assert commits.windows_count(spark, ready.table.spec.state["totals"].path, "trips") == 2
    applied_twice(spark, ready, 9, 11)
    exact(spark, ready, "2013-01-11")


@pytest.mark.parametrize("predicate", [None, "true", "dest IS NOT NULL"])
def test_a_delete_of_all_rows_by_delta_rs(
    spark: SparkSession, ready: World, predicate: str | None
) -> None:
    apply_window(spark, ready.table, day(8), day(9))
    path = ready.table.spec.state["totals"].path
    DeltaTable(path).delete(predicate)
    assert spark.read.format("delta").load(path).isEmpty()
    with pytest.raises(InputError, match="DELETE of all rows.*--holds-until DAY --of totals"):
        apply_window(spark, ready.table, day(9), day(10))


def test_a_merge_that_deletes_all_rows(spark: SparkSession, ready: World) -> None:
    """Delta's history has no predicate for it, and no word that all rows went."""
    apply_window(spark, ready.table, day(8), day(9))
    table = sql_name(ready)
    spark.sql(
        f"MERGE INTO {table} AS s USING (SELECT DISTINCT dest FROM {table} WHERE channel > 0) AS w "
        "ON s.dest = w.dest WHEN MATCHED THEN DELETE"
    )
    applied_twice(spark, ready, 9, 10)
    spark.sql(
        f"MERGE INTO {table} AS s USING (SELECT DISTINCT dest FROM {table}) AS w "
        "ON s.dest = w.dest WHEN MATCHED THEN DELETE"
    )
    with pytest.raises(InputError, match="MERGE of all rows.*--holds-until DAY --of totals"):
        apply_window(spark, ready.table, day(10), day(11))


@pytest.mark.parametrize("what", ["DELETE", "MERGE"])
def test_a_statement_that_finds_no_row_of_an_empty_table_empties_nothing(
    spark: SparkSession, world: World, what: str
) -> None:
    bootstrap(spark, world.table, day(1))
    table = sql_name(world)
    assert spark.table(table).isEmpty()
    if what == "DELETE":
        spark.sql(f"DELETE FROM {table} WHERE dest IS NOT NULL")
    else:
        spark.sql(
            f"MERGE INTO {table} AS s USING {table} AS w ON s.dest = w.dest "
            "WHEN MATCHED THEN DELETE"
        )
    apply_window(spark, world.table, day(1), day(8))
    exact(spark, world, "2013-01-08")


def test_a_person_says_that_a_table_holds_less_than_its_ids(
    spark: SparkSession, ready: World
) -> None:
    """Rows from a backup leave no trace of where they come from."""
    path = ready.table.spec.state["totals"].path
    apply_window(spark, ready.table, day(8), day(9))
    kept = spark.read.format("delta").load(path).toPandas()
    apply_window(spark, ready.table, day(9), day(11))
    back = spark.createDataFrame(kept, spark.read.format("delta").load(path).schema)
    back.write.format("delta").mode("overwrite").save(path)
    with pytest.raises(InputError, match="WRITE of all rows"):
        apply_window(spark, ready.table, day(9), day(11))
    arguments = ["--spec", ready.spec_path, "--holds-until", "2013-01-09"]
    assert job.main(arguments) == 0
    before = versions(spark, ready)
    assert job.main(arguments) == 0
    assert versions(spark, ready) == before
    applied_twice(spark, ready, 9, 11)
    exact(spark, ready, "2013-01-11")


def test_records_of_windows_stay_while_a_table_has_them(spark: SparkSession, both: World) -> None:
    """A person says it of one table; the other still has the later window."""
    first = versions(spark, both)
    path = both.table.spec.state["totals"].path
    apply_window(spark, both.table, day(8), day(9))
    kept = spark.read.format("delta").load(path).toPandas()
    apply_window(spark, both.table, day(9), day(11))
    back = spark.createDataFrame(kept, spark.read.format("delta").load(path).schema)
    back.write.format("delta").mode("overwrite").save(path)
    said = ["--spec", both.spec_path, "--holds-until", "2013-01-09", "--of", "totals"]
    assert job.main(said) == 0
    files = both.table.registry.files
    assert files.window_ends() == [day(9), day(11)]
    apply_window(spark, both.table, day(9), day(11))
    exact(spark, both, "2013-01-11")
    for name in both.table.spec.state:
        restore(spark, both, first[name], name)
    assert job.main([*said[:2], "--holds-until", "2013-01-08"]) == 0
    assert files.window_ends() == []


def test_a_restore_to_a_moment(spark: SparkSession, ready: World) -> None:
    apply_window(spark, ready.table, day(8), day(9))
    time.sleep(1.1)
    moment = datetime.now(UTC)
    time.sleep(1.1)
    apply_window(spark, ready.table, day(9), day(11))
    spark.sql(f"RESTORE TABLE {sql_name(ready)} TO TIMESTAMP AS OF '{moment:%F %T}'")
    applied_twice(spark, ready, 9, 11)
    exact(spark, ready, "2013-01-11")


def test_a_restore_while_a_window_is_applied_is_told(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the table and the MERGE, Delta sees no conflict."""
    before, real = versions(spark, ready)["totals"], job.merge_window
    apply_window(spark, ready.table, day(8), day(10))

    def later(*args: object) -> None:
        restore(spark, ready, before)
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(job, "merge_window", later)
        with pytest.raises(InputError, match=r"is RESTORE, made while .*--undo-window"):
            apply_window(spark, ready.table, day(10), day(12))
    with pytest.raises(InputError, match="made while"):
        apply_window(spark, ready.table, day(12), day(13))
    restore(spark, ready, versions(spark, ready)["totals"] - 1)
    applied_twice(spark, ready, 8, 10)
    applied_twice(spark, ready, 10, 12)
    exact(spark, ready, "2013-01-12")


def test_a_restore_that_the_log_has_forgotten_is_not_taken_for_none(
    spark: SparkSession, ready: World
) -> None:
    """The transaction ids survive both the RESTORE and the log."""
    before = versions(spark, ready)["totals"]
    apply_window(spark, ready.table, day(8), day(10))
    restore(spark, ready, before)
    spark.sql(f"ALTER TABLE {sql_name(ready)} SET TBLPROPERTIES ('later' = 'yes')")
    forget_history(spark, Path(ready.table.spec.state["totals"].path))
    with pytest.raises(InputError, match="reaches back to version .* only.*--holds-until DAY"):
        apply_window(spark, ready.table, day(10), day(12))
    assert job.main(["--spec", ready.spec_path, "--holds-until", "2013-01-08"]) == 0
    applied_twice(spark, ready, 8, 12)
    exact(spark, ready, "2013-01-12")
