"""A migration held to so many bytes a commit and a second: in batches, each of them resumable."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pyspark.sql import SparkSession

from evenkeel.runs.params import Throttling
from evenkeel.runs.prediction import predict
from evenkeel.runs.record import read_run
from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.throttle import Throttle, _tasks, batch_stops
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import FenceError
from tests.support.placed import append, crashing_at, hashes, placed, planned, state_rows
from tests.support.raw_json import write_json

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.slow
def test_batches_are_resumed_paced_and_undone(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    batch, rate = migration.plan.bytes / 3, migration.plan.bytes / 30
    write_json(migration.run, "params.json", {"batch": round(batch), "rate": round(rate)})
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=time.monotonic)
    monkeypatch.setattr("evenkeel_spark.migration.throttle.time", clock)
    with crashing_at("batch moved", monkeypatch):
        migrate(spark, migration)
    (first,) = commits.history_since(spark, home.path(), home.version(spark) - 1)
    capsys.readouterr()
    # Meanwhile others write, by either function: what is placed already stays there.
    append(spark, home, migration.before, {f"old{i}": i for i in range(50)})
    append(spark, home, migration.after, {f"new{i}": i for i in range(50)})
    record = migrate(spark, migration).tables["visits"]
    assert len(record.commits) >= 3
    assert record.commits[0] == first.version
    rows = home.rows(spark)
    assert [c for c, _ in rows.values()] == migration.after.lookup(list(rows)).tolist()
    assert len(rows) == 2100

    # As many seconds as the bytes written take, at the rate: less what the work itself took.
    mine = record.bytes - first.metrics["numAddedBytes"]
    assert 0.2 * mine / rate < slept[-1] <= mine / rate
    said = [line for line in capsys.readouterr().out.splitlines() if "bytes written" in line]
    assert len(said) == len(record.commits) - 1
    planned_rows = sum(m.rows for m in migration.plan.moves)
    moves = len(migration.plan.moves)
    assert (
        f"{moves} of {moves} moves done ({record.rows:,} of {planned_rows:,.0f} rows), "
        f"{record.bytes:,} bytes written; about 0 s left"
    ) in said[-1]
    told = read_run("bench", home.table.registry, migration.run).progress
    assert told is not None
    assert (told.rows, told.bytes) == (record.rows, record.bytes)
    assert (told.planned, told.left) == (planned_rows, 0)

    assert told.back is False
    moved = roll_back(spark, migration)
    again = read_run("bench", home.table.registry, migration.run).progress
    assert again is not None and again.back is True
    # Others wrote some of these rows, after the plan and by its function.
    assert again.rows == again.planned == moved["visits"]
    assert moved["visits"] >= record.rows - 50
    rows = home.rows(spark)
    assert [c for c, _ in rows.values()] == migration.before.lookup(list(rows)).tolist()
    back = commits.history_since(spark, home.path(), record.after)
    assert sum(c.operation == "UPDATE" for c in back) >= 3


@pytest.mark.slow
def test_a_way_back_counts_the_rows_that_had_moved(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    file = migration.run.progress
    write_json(migration.run, "params.json", {"batch": round(migration.plan.bytes / 3)})
    with crashing_at("batch moved", monkeypatch):
        migrate(spark, migration)
    there = file.read()
    assert 0 < there.rows < there.planned and not there.back
    # The stop says which moves are made.
    ends, moves = batch_stops(spark, migration).ends, len(migration.plan.moves)
    assert (there.moves, there.moves_planned) == (ends[0], moves) and 0 < ends[0] < moves
    assert there.text(False) == (
        f"{ends[0]} of {moves} moves done ({there.rows} of {there.planned:,.0f} rows)"
    )
    roll_back(spark, migration)
    back = file.read()
    assert (back.rows, back.planned, back.left, back.back) == (there.rows, there.rows, 0, True)
    assert back.moves is None
    # The next attempt has moved nothing yet.
    with crashing_at("weighed", monkeypatch):
        migrate(spark, migration)
    assert file.find() is None
    rows = migrate(spark, migration).tables["visits"].rows
    assert rows > there.rows and file.read().moves == moves
    with crashing_at("batch moved", monkeypatch):
        roll_back(spark, migration)
    first = file.read()
    assert 0 < first.rows < first.planned == rows
    # A rollback that was killed goes on to count.
    roll_back(spark, migration)
    assert (file.read().rows, file.read().planned) == (rows, rows)


@pytest.mark.slow
def test_of_several_tables_the_least_far_counts(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = placed(spark, tmp_path, ("clicks", "visits"))
    migration = planned(spark, home)
    write_json(migration.run, "params.json", {"batch": round(migration.plan.bytes / 3)})
    ends, moves = list(batch_stops(spark, migration).ends), len(migration.plan.moves)
    assert ends
    migrate(spark, migration)

    def said() -> list[int]:
        found = re.findall(rf"(\d+) of {moves} moves done", capsys.readouterr().out)
        return [int(made) for made in found]

    assert said() == [0] * (len(ends) + 1) + [*ends, moves]
    # To sweep a table that has moved takes no move back.
    append(spark, home, migration.before, {f"old{i}": i for i in range(200)})
    migrate(spark, migration)
    assert set(said()) == {moves}


@pytest.mark.slow
def test_commits_keep_to_so_many_files_and_seconds_to_so_many_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    pairs = {(m.source, m.target) for m in migration.plan.moves}
    assert len(pairs) == 4
    write_json(migration.run, "params.json", {"batch_files": 1, "rate_rows": 4})
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=time.monotonic)
    monkeypatch.setattr("evenkeel_spark.migration.throttle.time", clock)
    record = migrate(spark, migration).tables["visits"]
    assert len(record.commits) == record.files >= 4
    # No time passes by sleeping: each waits for all rows so far, less what the work itself took.
    assert 0.2 * record.rows / 4 < slept[-1] <= record.rows / 4
    roll_back(spark, migration)
    back = commits.history_since(spark, home.path(), record.after)
    assert {c.files for c in back if c.operation == "UPDATE"} == {1}


def test_what_a_migration_commits_and_writes_is_as_predicted(
    spark: SparkSession, tmp_path: Path
) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    batch = round(migration.plan.bytes / 3)
    write_json(migration.run, "params.json", {"batch": batch})
    registry, limits = home.table.registry, Throttling(batch=batch)
    told = predict(registry, migration.plan, None, limits)
    footer = weigh(spark, home.table.spec, home.table.epoch().function, hashes([])).footer
    close = predict(registry, migration.plan, None, limits, footer)
    record = migrate(spark, migration)
    cost = record.tables["visits"]
    assert len(cost.commits) == told.commits >= 3
    assert cost.files == told.files and cost.rows == told.rows
    # Footers are predicted as the largest there are, as long as nothing tells.
    assert told.bytes < cost.bytes <= told.written
    # The files from before any migration tell.
    assert cost.bytes / 1.5 < close.written < 1.5 * cost.bytes < told.written
    assert cost.elapsed >= cost.seconds > 0


def test_files_are_counted_by_how_much_of_one_a_task_reads(
    spark: SparkSession, tmp_path: Path
) -> None:
    home, session = placed(spark, tmp_path), spark.newSession()
    migration = planned(spark, home)
    files = state.files(spark, home.path()).collect()
    channels = {f[state.CHANNEL] for f in files}
    assert [t for t in _tasks(session, migration) if t] == [1] * len(files) == [1] * len(channels)
    least = min(f["size"] for f in files)
    session.conf.set("spark.sql.files.maxPartitionBytes", least // 2 + 1)
    assert min(t for t in _tasks(session, migration) if t) == 2


def test_the_budget_is_kept_by_what_was_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small files are larger than they were weighed: the batch after the first would be over, did
    their footers count. A budget alone makes batches."""
    monkeypatch.setattr("evenkeel_spark.migration.throttle.FILE_OVERHEAD", 0)
    home = placed(spark, tmp_path)
    exact = planned(spark, home).plan.bytes
    migration = planned(spark, home, budget=exact)
    with pytest.raises(FenceError, match="the next batch takes"):
        migrate(spark, migration)
    history = commits.history_since(spark, home.path(), migration.plan.tables["visits"])
    written = sum(c.metrics.get("numAddedBytes", 0) for c in history)
    assert 0 < written <= exact
    roll_back(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_0"}


def test_what_delta_compacts_after_a_commit_is_no_move(spark: SparkSession, tmp_path: Path) -> None:
    home = placed(spark, tmp_path)
    path = state.sql_name(home.path())
    spark.sql(f"ALTER TABLE {path} SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')")
    migration = planned(spark, home)
    write_json(migration.run, "params.json", {"batch": round(migration.plan.bytes / 3)})
    few = "spark.databricks.delta.autoCompact.minNumFiles"
    spark.conf.set(few, "2")
    try:
        record = migrate(spark, migration).tables["visits"]
    finally:
        spark.conf.unset(few)
    history = commits.history_since(spark, home.path(), migration.plan.tables["visits"])
    compacted = [c for c in history if c.operation == "OPTIMIZE"]
    assert any(c.meta.get("digest") == migration.plan.digest and c.bytes for c in compacted)
    told = migration.run.progress.read()
    assert (told.rows, told.bytes) == (record.rows, record.bytes)
    assert record.rows == sum(m.rows for m in migration.plan.moves)


def test_a_batch_is_never_more_than_a_part_of_the_budget(
    spark: SparkSession, tmp_path: Path
) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home, budget=planned(spark, home).plan.bytes)
    write_json(migration.run, "params.json", {"batch": 10**9})
    assert len(batch_stops(spark, migration)) >= 3


def test_a_table_made_anew_stops_nowhere_and_is_rolled_back_unweighed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = placed(spark, tmp_path)
    append(spark, home, home.table.epoch().function, {"one": 1})
    migration = planned(spark, home)
    write_json(migration.run, "params.json", {"batch_files": 1})
    shutil.rmtree(home.path())
    placed(spark, tmp_path / "other")
    shutil.copytree(tmp_path / "other" / "state" / "visits", home.path())
    assert state.table_version(spark, home.path()) < migration.plan.tables["visits"]
    # Files that are no more are counted as they stand: an attempt goes on.
    assert batch_stops(spark, migration)
    # Of a table that is not the plan's nothing is asked.
    monkeypatch.setattr(
        "evenkeel_spark.migration.roll_back.batch_stops", lambda *_, **__: pytest.fail("asked")
    )
    assert roll_back(spark, migration) == {"visits": 0}


@pytest.mark.slow
def test_rows_of_one_table_say_nothing_of_anothers(spark: SparkSession, tmp_path: Path) -> None:
    """A wide table has moved, and as many rows of a narrow one are in the budget all the same."""
    home = placed(spark, tmp_path, ("wide", "narrow"))
    function, random = home.table.epoch().function, np.random.default_rng(5)
    for name, key in (("wide", random.bytes(4_000_000).hex()), ("narrow", "key")):
        width = len(key) // 8_000
        keys = [f"{key[i * width : (i + 1) * width]}{i}" for i in range(8_000)]
        rows = state_rows(spark, function, dict.fromkeys(keys, 1))
        rows.write.format("delta").mode("append").save(home.path(name))
    migration = planned(spark, home, budget=1e8)
    written = migrate(spark, migration).tables
    wide, narrow = (written[name].bytes / written[name].rows for name in ("wide", "narrow"))
    assert wide > 10 * narrow
    throttle, batch = Throttle(spark, migration), spark.range(1_000_000).selectExpr("0L AS _width")
    throttle.admit(batch, "narrow")
    with pytest.raises(FenceError, match="bytes are written, the next batch takes"):
        throttle.admit(batch, "wide")
