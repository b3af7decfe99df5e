"""Our commits and the threads that share our Spark session: each keeps its writes to itself."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

import evenkeel_spark
from evenkeel.registry.epochs import Epoch
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.maintain import maintain
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.write_session import (
    APP_ID,
    APP_VERSION,
    USER_METADATA,
    in_session,
    own_session,
)
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from tests.conftest import World
from tests.support.docs.readme import ROOT
from tests.support.placed import placed, planned
from tests.support.state_tables import spent_transaction

pytestmark = pytest.mark.spark

#: Seconds between two appends of another thread.
PAUSE = 0.3


@dataclass
class Writer:
    """Another thread of the session that appends one row after the other to a table of its own."""

    spark: SparkSession
    path: str
    appended: int = 0
    errors: list[Exception] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            while not self.ended.wait(PAUSE):
                one = self.spark.range(self.appended, self.appended + 1)
                one.write.format("delta").mode("append").save(self.path)
                self.appended += 1
        except Exception as error:
            self.errors.append(error)

    def check(self) -> None:
        """Every append that reported success is there, and none says that it is ours."""
        assert not self.errors
        assert self.appended > 3
        assert self.spark.read.format("delta").load(self.path).count() == self.appended
        assert not state.python_dict(
            self.spark, state.snapshot(self.spark, self.path).transactions()
        )
        history = self.spark.sql(f"DESCRIBE HISTORY {state.sql_name(self.path)}")
        assert history.where("userMetadata IS NOT NULL").count() == 0


@contextmanager
def appending(spark: SparkSession, path: Path) -> Iterator[None]:
    """Another thread appends while the block runs; then all that it appended must be there."""
    writer = Writer(spark, str(path))
    thread = InheritableThread(target=writer.run)
    thread.start()
    try:
        yield
    finally:
        writer.ended.set()
        thread.join()
    writer.check()


def test_another_thread_of_the_session_loses_no_append_while_state_moves(
    spark: SparkSession, tmp_path: Path
) -> None:
    home = placed(spark, tmp_path / "home")
    with appending(spark, tmp_path / "theirs"):
        migration = planned(spark, home)
        migrate(spark, migration)
        verify(spark, migration)
        roll_back(spark, migration)


def test_an_id_that_a_rollback_has_spent_lasts_where_delta_forgets_ids(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A MERGE of the migration that wakes after the rollback is skipped by it."""
    home = placed(spark, tmp_path / "home")
    forgets = "SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 7 days')"
    spark.sql(f"ALTER TABLE {state.sql_name(home.path())} {forgets}")
    migration = planned(spark, home)
    migrate(spark, migration)
    app, before = commits.app_id(home.table.spec.table), home.version(spark)
    roll_back(spark, migration)
    spent = state.python_dict(spark, state.snapshot(spark, home.path()).transactions())
    assert spent[app] >= before


def test_another_thread_of_the_session_loses_no_append_while_windows_are_applied(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    with appending(spark, tmp_path / "theirs"):
        bootstrap(spark, world.table, date(2013, 1, 8))
        apply_window(spark, world.table, date(2013, 1, 8), date(2013, 1, 15))
        maintain(spark, world.table)


def test_two_of_our_own_commits_at_once_keep_their_ids(spark: SparkSession, tmp_path: Path) -> None:
    count = 4
    start, errors = threading.Barrier(2), []

    def commit(name: str) -> None:
        try:
            for number in range(count):
                start.wait(60)
                with commits.our_commit(spark, name, number, {"by": name}) as own:
                    start.wait(60)
                    own.range(1).write.format("delta").mode("append").save(f"{tmp_path}/{name}")
        except Exception as error:
            start.abort()
            errors.append(error)

    threads = [InheritableThread(target=commit, args=[name]) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for name in ("one", "other"):
        path = f"{tmp_path}/{name}"
        assert spark.read.format("delta").load(path).count() == count
        assert state.python_dict(spark, state.snapshot(spark, path).transactions()) == {
            name: count - 1
        }
        history = commits.history_since(spark, path, -1)
        assert [c.meta for c in history] == [{"by": name}] * count


def test_a_session_of_our_own_has_the_callers_settings_but_those_that_results_depend_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    theirs = {
        "spark.sql.shuffle.partitions": "3",
        "spark.databricks.delta.snapshotPartitions": "7",
        "spark.sql.session.timeZone": "America/New_York",
        USER_METADATA: "theirs",
        APP_ID: "theirs",
        APP_VERSION: "5",
    }
    caller = spark.newSession()
    for name, value in theirs.items():
        caller.conf.set(name, value)
    caller.range(5).createOrReplaceTempView("of_the_caller")
    own = own_session(caller)
    assert own.conf.get("spark.sql.shuffle.partitions") == "3"
    assert own.conf.get("spark.databricks.delta.snapshotPartitions") == "7"
    assert own.conf.get("spark.sql.session.timeZone") == "UTC"
    for name in (USER_METADATA, APP_ID, APP_VERSION):
        assert own.conf.get(name, None) is None
    path = f"{tmp_path}/table"
    with commits.our_commit(caller, "app", 7, {"step": "test"}) as writer:
        # A DataFrame keeps to the session that it was made in, unless it is brought over.
        rows = in_session(writer, caller.table("of_the_caller").persist())
        rows.writeTo(state.sql_name(path)).using("delta").create()
    (commit,) = commits.history_since(spark, path, -1)
    assert commit.meta == {"step": "test"}
    assert spent_transaction(spark, path, "app") == 7
    assert writer.table("of_the_caller").count() == 5
    assert {name: caller.conf.get(name) for name in theirs} == theirs


def test_a_session_of_our_own_is_made_while_rows_are_cached(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(5).persist()
    try:
        assert rows.count() == 5
        # Delta's catalog has the new session's settings from its first use on.
        settings = {"spark.sql.catalog.spark_catalog": "no.such.Catalog"}
        with pytest.raises(Exception, match=r"no\.such\.Catalog"):
            own_session(spark, settings)
        own = own_session(spark)
        in_session(own, rows).writeTo(state.sql_name(f"{tmp_path}/t")).using("delta").create()
    finally:
        rows.unpersist()
    assert spark.read.format("delta").load(f"{tmp_path}/t").count() == 5


def test_metadata_of_others_is_none_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    """`undo_window` may undo commits by their `step`, and a migration goes by their `digest`."""
    path, meta = f"{tmp_path}/table", {"step": "maintain", "digest": "0"}
    with evenkeel_spark.commit_session(spark, "loads", 1, meta) as own:
        own.range(1).write.format("delta").save(path)
    (commit,) = commits.history_since(spark, path, -1)
    assert commit.meta == {}
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").first()
    assert json.loads(history["userMetadata"]) == meta


def test_a_writer_may_try_again_what_was_refused_or_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, flag = f"{tmp_path}/table", tmp_path / "go"
    table = f"delta.`{path}`"
    spark.range(1).write.format("delta").save(path)
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT evenkeel_epoch_0 CHECK (id < 5)")

    def refused(sql: str) -> BaseException:
        with pytest.raises(Exception) as raised:
            spark.sql(sql)
        return raised.value

    stale = refused(f"INSERT INTO {table} VALUES (7)")
    assert evenkeel_spark.may_try_again(stale)
    function = PartitioningFunction(
        (KeyColumn("id", "bigint"),), numbered_channels(2), np.arange(4) % 2
    )
    # Rows that the epoch itself has routed are wrong: its constraint refuses them for good.
    for number in (0, 1):
        epoch = Epoch(number, replace(function, epoch=number), None, {}, "")
        assert evenkeel_spark.may_try_again(stale, epoch) == (number == 1)
    assert not evenkeel_spark.may_try_again(refused(f"INSERT INTO {table} VALUES ('a', 'b')"))
    # A team's own constraint refuses the rows for good. An error may name our modules.
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT whole CHECK (id >= 0)")
    assert not evenkeel_spark.may_try_again(refused(f"INSERT INTO {table} VALUES (-1)"))
    assert not evenkeel_spark.may_try_again(refused("SELECT * FROM evenkeel_spark"))
    # A writer's own MERGE says so for rows that have moved, and nothing else that it raises.
    moved = f"UPDATE {table} SET id = raise_error('evenkeel_moved')"
    assert evenkeel_spark.may_try_again(refused(moved))
    assert not evenkeel_spark.may_try_again(refused(moved.replace("_moved", "_several")))

    def slow(number: int) -> int:
        end = time.monotonic() + 60
        while not flag.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return number

    spark.udf.register("slow", slow, "bigint")
    with ThreadPoolExecutor() as pool:
        late = pool.submit(refused, f"UPDATE {table} SET id = slow(id + 1)")
        while not spark.sparkContext.statusTracker().getActiveStageIds():
            time.sleep(0.05)
        spark.sql(f"UPDATE {table} SET id = id + 2")
        flag.touch()
    # It tells no name of a constraint: the commit has lost to another one.
    assert "evenkeel_" not in str(late.result())
    assert evenkeel_spark.may_try_again(late.result())
    assert [r["id"] for r in spark.read.format("delta").load(path).collect()] == [2]


def test_what_is_left_of_a_commits_session_carries_no_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    with commits.our_commit(spark, "app", 1, {}) as own:
        pass
    for _ in range(2):
        own.range(1).write.format("delta").mode("append").save(f"{tmp_path}/table")
    assert spark.read.format("delta").load(f"{tmp_path}/table").count() == 2


def test_a_time_has_a_zone_whatever_a_cluster_calls_a_timestamp(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        made = own_session(spark).sql("SELECT CAST('2013-01-01' AS TIMESTAMP) AS at")
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert made.schema["at"].dataType.simpleString() == "timestamp"


def test_settings_are_changed_in_sessions_of_our_own_alone() -> None:
    """No job sets anything in the session that it was given."""
    found = {
        file.name
        for file in (ROOT / "spark_jobs").rglob("*.py")
        if re.search(r"\.conf\.(un)?set\(|sql\(f?\"(RE)?SET ", file.read_text())
    }
    assert found == {"write_session.py"}
