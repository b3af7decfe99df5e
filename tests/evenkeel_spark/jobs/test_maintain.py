"""Maintenance: the same rows in fewer, sorted files, and every kept epoch still readable."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from evenkeel.registry.epochs import Registry
from evenkeel_spark.jobs import maintain as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.maintain import keep_readable, kept_epochs, maintain, needed_since, vacuum
from evenkeel_spark.tables.delta import constraints, filesystem, state
from partitioning.errors import FenceError
from partitioning.function.function import KeyColumn, PartitioningFunction, numbered_channels
from tests.conftest import World

pytestmark = pytest.mark.spark


def content(spark, path: str, version: int | None = None) -> tuple[int, int]:
    frame = spark.read.format("delta")
    if version is not None:
        frame = frame.option("versionAsOf", version)
    frame = frame.load(path)
    total = frame.agg(F.count("*"), F.sum(F.xxhash64(*frame.columns).cast("decimal(20,0)"))).first()
    return total[0], int(total[1])


def live_files(spark, path: str) -> list[str]:
    return [r.path for r in state.files(spark, path).collect()]


def test_rows_stay_and_files_become_few_and_sorted(spark, ready: World, capsys):
    path = ready.table.spec.state["totals"].path
    apply_window(spark, ready.table, date(2013, 1, 8), date(2013, 1, 9))
    before = content(spark, path)
    assert len(live_files(spark, path)) > 4
    assert job.main(["--spec", ready.spec_path, "--keep-epochs", "3"]) == 0
    assert "epochs 0 to 0 of trips stay readable" in capsys.readouterr().out
    assert content(spark, path) == before
    files = live_files(spark, path)
    assert sorted(f.split("/")[0] for f in files) == [f"channel={c}" for c in range(4)]
    for file in files:
        slots = pq.ParquetFile(Path(path) / file).read()["slot"].to_pylist()
        assert slots == sorted(slots)
    assert job.optimize(spark, path) == 0
    # Every version is still there: nothing is older than a day.
    assert content(spark, path, 1)[0] > 0


def test_what_killed_commits_left_is_removed_once_it_is_old(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    log = Path(path) / "_delta_log"
    kept = {f.name for f in log.iterdir()}
    # Killed before its rename, and between that and the rename of its checksum.
    torn = (".00000000000000000009.json.a-1.tmp", "..00000000000000000009.json.a-1.tmp.crc")
    for name in (*torn, "..00000000000000000008.json.b-2.tmp.crc"):
        (log / name).write_bytes(b"torn")
    assert filesystem.remove_torn(spark, path, 1.0) == 0
    assert filesystem.remove_torn(spark, path, -1.0) == 3
    assert {f.name for f in log.iterdir()} == kept


def age(spark, path: str, hours: dict[int, int]) -> None:
    """Make commits (by version) and all files look that many hours old."""
    for file in Path(path).rglob("*"):
        if file.is_file():
            old = time.time() - 3600 * hours.get(_version(file), max(hours.values()))
            if file.suffix == ".json":
                lines = [json.loads(line) for line in file.read_text().splitlines()]
                for removed in (line["remove"] for line in lines if "remove" in line):
                    removed["deletionTimestamp"] = int(old * 1000)
                file.write_text("".join(json.dumps(line) + "\n" for line in lines))
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            os.utime(file, (old, old))
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _version(file: Path) -> int:
    return int(file.stem) if file.parent.name == "_delta_log" and file.stem.isdigit() else -1


def readable(spark, path: str, version: int) -> bool:
    try:
        return content(spark, path, version)[0] > 0
    except (Py4JJavaError, PySparkException) as error:
        if not re.search("FAILED_READ_FILE|does not exist|FileNotFound", str(error)):
            raise
        return False


@pytest.mark.slow
def test_vacuum_keeps_what_the_versions_need_and_no_more(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    name = f"delta.`{path}`"
    everything = f"UPDATE {name} SET trips = trips + 1"
    spark.sql(everything)  # 2: no file of version 1 is left
    spark.sql(f"DELETE FROM {name} WHERE dest = 'D003'")  # 3: one file has a deletion vector
    spark.sql(f"DELETE FROM {name} WHERE dest < 'D050'")  # 4: another in its place
    spark.sql(everything)  # 5
    age(spark, path, {-1: 99, 0: 99, 1: 99, 2: 50, 3: 40, 4: 30, 5: 20})
    before = content(spark, path, 3)

    assert needed_since(spark, path, [5]) is None
    assert time.time() - needed_since(spark, path, [3, 4]) == pytest.approx(30 * 3600, abs=60)
    assert vacuum(spark, path, [3, 4], least_hours=0) == 31
    assert not readable(spark, path, 1)
    assert content(spark, path, 3) == before
    # Version 4's files went 20 hours ago, the vector that hides a row in version 3 went 30.
    assert vacuum(spark, path, [5], least_hours=25) == 25
    assert [readable(spark, path, v) for v in (3, 4)] == [False, True]


def test_an_epoch_older_than_retention_stays_readable(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    age(spark, path, {-1: 40 * 24})
    spark.sql(f"DELETE FROM delta.`{path}` WHERE dest = 'D003'")
    with pytest.raises(Exception, match="DELETED_FILE_RETENTION"):
        content(spark, path, 1)
    assert keep_readable(spark, path, [1], 30) == 48
    found = state.properties(spark, path)
    assert found["delta.deletedFileRetentionDuration"] == "interval 48 days"
    assert found["delta.logRetentionDuration"] == "interval 48 days"
    assert content(spark, path, 1)[0] > 0
    done = state.table_version(spark, path)
    assert keep_readable(spark, path, [1], 30) == 48
    assert state.table_version(spark, path) == done


def test_kept_epochs_are_those_current_within_the_days(spark, ready: World, capsys):
    assert job.main(["--spec", ready.spec_path, "--keep-epochs", "0"]) == 2
    assert "evenkeel: error: --keep-epochs: cannot keep 0 epochs" in capsys.readouterr().err
    registry, function = ready.table.registry, ready.table.epoch().function
    for _ in range(3):
        function = replace(function, epoch=function.epoch + 1, parent=function.digest)
        registry.publish(function, {})
    now = datetime.now(UTC)
    assert [e.number for e in kept_epochs(registry, 30, now=now)] == [0, 1, 2, 3]
    # All were published long ago: the current one alone stays.
    assert [e.number for e in kept_epochs(registry, 30, now=now + timedelta(days=31))] == [3]
    assert [e.number for e in kept_epochs(registry, 30, newest=2)] == [2, 3]


def test_epochs_of_a_clock_that_was_set_back_are_kept(tmp_path: Path, monkeypatch):
    """Two epochs say 1990; what they replaced was current until a moment ago."""
    registry, now = Registry(str(tmp_path)), datetime.now(UTC)
    function = PartitioningFunction(
        (KeyColumn("k", "string"),), numbered_channels(2), np.zeros(4, int)
    )
    for number, published in enumerate([now - timedelta(days=60), now - timedelta(days=20)] * 2):
        moment = published if number < 2 else datetime(1990, 1, number, tzinfo=UTC)

        class Clock(datetime):
            @classmethod
            def now(cls, tz=None, moment=moment):
                return moment

        monkeypatch.setattr("evenkeel.registry.epochs.datetime", Clock)
        registry.publish(function, {})
        function = replace(function, epoch=function.epoch + 1, parent=function.digest)
    assert [e.number for e in kept_epochs(registry, 30, now=now)] == [0, 1, 2, 3]
    # Epoch 0 was replaced 20 days ago, by a clock that was right.
    assert [e.number for e in kept_epochs(registry, 10, now=now)] == [1, 2, 3]


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
