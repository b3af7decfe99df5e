"""Maintenance: the same rows in fewer, sorted files; the versions of `keep` days, and no more."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from delta.exceptions.captured import ConcurrentDeleteReadException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from evenkeel.registry.epochs import Registry, TableVersion
from evenkeel_spark.jobs import maintain as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.maintain import maintain
from evenkeel_spark.tables.delta import constraints, left_files, state
from evenkeel_spark.tables.delta.vacuum import keep_versions, late_dates_end
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.soak.accidents import above, stated

pytestmark = pytest.mark.spark


def content(spark, path: str, version: int | None = None) -> tuple[int, int]:
    frame = spark.read.format("delta")
    if version is not None:
        frame = frame.option("versionAsOf", version)
    frame = frame.load(path)
    total = frame.agg(F.count("*"), F.sum(F.xxhash64(*frame.columns).cast("decimal(20,0)"))).first()
    return total[0], int(total[1])


def maintained(spark, world: World) -> None:
    """Run maintain. No part of the table is larger then than docs/OPERATIONS.md states."""
    maintain(spark, world.table)
    assert above(world.table) is None


def live_files(spark, path: str) -> list[str]:
    return [r.path for r in state.files(spark, path).collect()]


def test_rows_stay_and_files_become_few_and_sorted(spark, ready: World, capsys):
    path = ready.table.spec.state["totals"].path
    apply_window(spark, ready.table, date(2013, 1, 8), date(2013, 1, 9))
    before = content(spark, path)
    assert len(live_files(spark, path)) > 4
    assert job.main(["--spec", ready.spec_path]) == 0
    assert "versions committed within 30 days stay readable" in capsys.readouterr().out
    assert content(spark, path) == before
    files = live_files(spark, path)
    assert sorted(f.split("/")[0] for f in files) == [f"channel={c}" for c in range(4)]
    for file in files:
        slots = pq.ParquetFile(Path(path) / file).read()["slot"].to_pylist()
        assert slots == sorted(slots)
    assert job.optimize(spark, path) == 0
    # Every version is still there: nothing is older than a day.
    assert content(spark, path, 1)[0] > 0


def test_files_of_old_runs_go(spark, ready: World, capsys, monkeypatch):
    monkeypatch.setattr("evenkeel.registry.pruning.NEWEST_RUNS", 0)
    for name, days in (("old", 31), ("young", 29)):
        file = Path(ready.table.registry.run(name).write("decision.json", b"{}"))
        os.utime(file, (time.time() - days * 86400,) * 2)
    assert job.main(["--spec", ready.spec_path]) == 0
    assert "registry: removed 1 runs" in capsys.readouterr().out
    assert ready.table.registry.store.names("runs") == ["young"]


def test_what_killed_commits_left_is_removed_once_it_is_old(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    log = Path(path) / "_delta_log"
    kept = {f.name for f in log.iterdir()}
    # Killed before its rename, and between that and the rename of its checksum.
    torn = (".00000000000000000009.json.a-1.tmp", "..00000000000000000009.json.a-1.tmp.crc")
    for name in (*torn, "..00000000000000000008.json.b-2.tmp.crc"):
        (log / name).write_bytes(b"torn")
    assert left_files.remove_torn(spark, path, 1.0) == 0
    assert left_files.remove_torn(spark, path, -1.0) == 3
    assert {f.name for f in log.iterdir()} == kept


def older(spark, path: str, days: int, pattern: str = "*") -> None:
    """Make all that is there so much older, commits and files: as if the clock had moved on."""
    for file in (f for f in Path(path).rglob(pattern) if f.is_file()):
        then = file.stat().st_mtime - days * 86400
        if file.parent.name == "_delta_log" and file.suffix == ".json" and file.stem.isdigit():
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            for line in lines:
                for action, at in ("remove", "deletionTimestamp"), ("commitInfo", "timestamp"):
                    if action in line:
                        line[action][at] -= days * 86400 * 1000
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        os.utime(file, (then, then))
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def readable(spark, path: str, version: int) -> bool:
    try:
        return content(spark, path, version)[0] > 0
    except (Py4JJavaError, PySparkException) as error:
        if not re.search(
            "FAILED_READ_FILE|does not exist|FileNotFound|RETENTION_DURATION", str(error)
        ):
            raise
        return False


def test_files_stay_bounded_however_old_the_epoch_in_force_is(spark, ready: World):
    """Windows under epoch 0, for months: the files that they replaced go `keep` days later."""
    path = ready.respec(keep=10).table.spec.state["totals"].path
    name, counts = f"delta.`{path}`", []
    # A checkpoint would hold times that `older` does not reach.
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = '1000')")
    for _ in range(4):
        spark.sql(f"UPDATE {name} SET trips = trips + 1")
        before = content(spark, path)
        maintained(spark, ready)
        assert content(spark, path) == before
        counts.append(len(list(Path(path).glob("channel=*/*.parquet"))))
        older(spark, path, 20)
    assert counts[1:] == [counts[1]] * 3, counts
    found = state.properties(spark, path)
    assert [found[name] for name in state.RETENTION] == ["interval 10 days"] * 2
    with pytest.raises(InputError, match="epoch 0 .*versions stay readable for 10 days"):
        ready.table.state("totals", 0, spark)
    assert ready.table.state("totals", spark=spark).count() == before[0]
    assert ready.table.snapshot(spark).rows["totals"].count() == before[0]


def test_a_part_that_grows_is_named(ready: World):
    table = ready.table
    most = stated(4, table.spec.slots, table.spec.keep + 1, table.spec.window, 1)
    docs = Path(table.spec.registry) / "data_docs"
    docs.mkdir()
    (docs / "page.html").write_bytes(b"x" * (most["data_docs"] + 1))
    assert re.search("data_docs has .* more than the .* that are stated", above(table) or "")
    assert stated(8, 64, 11, 7, 1)["_delta_log"] > stated(4, 64, 11, 7, 1)["_delta_log"]


def test_a_version_that_the_log_does_not_reach_is_named(spark, ready: World, monkeypatch):
    epoch, path = ready.table.epoch(0), ready.table.spec.state["totals"].path
    gone = replace(epoch, tables={"totals": TableVersion(path, 999)})
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "epoch", lambda self, number: gone)
        with pytest.raises(InputError, match=r"totals \(.*the version of epoch 0 cannot be"):
            ready.table.state("totals", 0, spark)
    # Any other error stays what it is.
    shutil.rmtree(path)
    with pytest.raises((Py4JJavaError, PySparkException), match="is not a Delta table"):
        ready.table.state("totals", 0, spark)


def test_versions_within_keep_stay_readable(spark, ready: World):
    path = ready.respec(keep=10).table.spec.state["totals"].path
    name = f"delta.`{path}`"
    spark.sql(f"UPDATE {name} SET trips = trips + 1")  # 2
    older(spark, path, 2)
    spark.sql(f"DELETE FROM {name} WHERE dest = 'D003'")  # 3: a deletion vector
    spark.sql(f"UPDATE {name} SET trips = trips + 1")  # 4
    older(spark, path, 9)
    before = [content(spark, path, v) for v in (3, 4)]
    maintained(spark, ready)
    assert [content(spark, path, v) for v in (3, 4)] == before
    assert not readable(spark, path, 1)


def test_versions_stay_that_a_clock_set_back_has_dated_too_early(spark, ready: World, capsys):
    path = ready.respec(keep=10).table.spec.state["totals"].path
    name = f"delta.`{path}`"
    keep_versions(spark, path, 10)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = '1000')")
    older(spark, path, 30)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('note' = 'today')")
    today, before = state.table_version(spark, path), content(spark, path)
    spark.sql(f"UPDATE {name} SET trips = trips + 1")
    # The clock of that writer was 20 days behind.
    older(spark, path, 20, f"{today + 1:020d}.json")
    maintained(spark, ready)
    said = capsys.readouterr().out
    assert re.search(r"a writer's clock was set back.* They go after 20\d\d-", said)
    assert content(spark, path, today) == before
    # They go once they would have gone anyway.
    older(spark, path, 11)
    maintained(spark, ready)
    assert "a writer's clock" not in capsys.readouterr().out
    assert not readable(spark, path, today)


@pytest.mark.parametrize(
    ("dates", "until"),
    [
        ([(1, None), (30, None), (31, 31)], None),
        # A long statement removes what it read; a day is no clock.
        ([(30, None), (31, 30), (31, 30)], None),
        # A clock 20 days back; right again at 34; never yet.
        ([(30, None), (11, 11), (12, None), (34, None)], 44),
        ([(30, None), (11, 11)], 50),
        ([(28, None), (9, 9), (29, None)], None),
        # A clock that is ahead for years holds nothing off.
        ([(3000, None), (31, 31), (32, 32)], None),
        ([(30, None), (None, 11), (33, None)], 43),
    ],
)
def test_a_removal_is_too_early_if_an_earlier_commit_is_later(dates, until):
    """Days, of which 10 are kept; it is day 40."""
    day = 86_400_000
    found = late_dates_end([(a and a * day, r and r * day) for a, r in dates], 40 * day, 10 * day)
    assert found == (until and until * day)


def test_a_version_that_was_committed_before_that_is_refused_in_one_line(spark, ready: World):
    """Rows have begun to move. Until then the version was the newest, for longer than `keep`."""
    path, function = ready.table.spec.state["totals"].path, ready.table.epoch().function
    keep_versions(spark, path, 10)
    older(spark, path, 20)
    rule = constraints.rule(function, function)
    constraints.add(spark, path, constraints.moving_name(1), rule)
    with pytest.raises(FenceError, match="no version left at which epoch 0 alone holds"):
        ready.table.snapshot(spark)


def test_a_team_keeps_its_own_longer_retention(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    long = ", ".join(f"'{name}' = 'interval 6 weeks'" for name in state.RETENTION)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({long})")
    done = state.table_version(spark, path)
    assert keep_versions(spark, path, 30, at_least=True) == 42
    assert state.table_version(spark, path) == done
    # Ours is lowered again, once.
    assert [keep_versions(spark, path, 30) for _ in range(2)] == [30, 30]
    assert state.table_version(spark, path) == done + 1
    assert state.properties(spark, path)[state.RETENTION[1]] == "interval 30 days"


def test_a_writer_that_always_wins_stops_neither_vacuum_nor_prune(
    spark, ready: World, capsys, monkeypatch
):
    path = ready.table.spec.state["totals"].path
    stray = Path(path) / "channel=0" / "part-killed.parquet"
    stray.write_bytes(b"torn")
    os.utime(stray, (time.time() - 40 * 86400,) * 2)
    monkeypatch.setattr("evenkeel.registry.pruning.NEWEST_RUNS", 0)
    file = Path(ready.table.registry.run("old").write("decision.json", b"{}"))
    os.utime(file, (time.time() - 31 * 86400,) * 2)

    def lose(*_):
        # Between Delta's snapshot and its commit there is no hook: its own exception is raised.
        raise ConcurrentDeleteReadException("files were deleted", "", None)

    monkeypatch.setattr(job, "optimize", lose)
    monkeypatch.setattr("evenkeel_spark.runtime.retry.PATIENCE_SECONDS", 0.0)
    assert job.main(["--spec", ready.spec_path]) == 2
    said = capsys.readouterr()
    (line,) = said.err.strip().splitlines()
    assert "totals, channels: other writers were first 1 times" in line
    assert "registry: removed 1 runs" in said.out
    assert not stray.exists()


def test_several_steps_that_fail_are_one_line(spark, ready: World, capsys, monkeypatch):
    def fail(*_):
        raise InputError("expected a table", "here", "Look")

    monkeypatch.setattr(job, "optimize", fail)
    monkeypatch.setattr(job, "prune", fail)
    assert job.main(["--spec", ready.spec_path]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "2 steps have failed (totals, channels: here: expected a table" in line
    assert "registry: here: expected a table" in line


def test_refused_while_a_migration_is_under_way(spark, ready: World):
    function = ready.table.epoch().function
    path = ready.table.spec.state["totals"].path
    constraints.add(
        spark,
        path,
        constraints.moving_name(1),
        constraints.rule(function, function),
    )
    before = state.table_version(spark, path)
    with pytest.raises(FenceError, match="A migration .*is under way"):
        maintain(spark, ready.table)
    assert state.table_version(spark, path) == before
