"""Windows are applied once also where Delta has forgotten its transaction ids, or two runs race."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.windows import window_commits
from evenkeel_spark.windows.window_notes import note
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.windows import (
    applied_twice,
    day,
    exact,
    owners,
    put,
    rows,
    split,
    sql_name,
    trips,
    until,
    versions,
)

pytestmark = pytest.mark.spark


def cloned(spark: SparkSession, world: World, version: int | None = None) -> Path:
    """Bring the state back by SHALLOW CLONE from a copy beside it; returns the copy's folder."""
    path = Path(world.table.spec.state["totals"].path)
    kept = path.with_name("backup")
    path.rename(kept)
    at = "" if version is None else f" VERSION AS OF {version}"
    spark.sql(f"CREATE TABLE {state.sql_name(str(path))} SHALLOW CLONE delta.`{kept}`{at}")
    assert commits.windows_count(spark, str(path), "trips") == 0
    return kept


def test_a_clone_is_asked_what_it_was_cloned_from(spark: SparkSession, ready: World) -> None:
    apply_window(spark, ready.table, day(8), day(10))
    before = versions(spark, ready)["totals"]
    apply_window(spark, ready.table, day(10), day(11))
    cloned(spark, ready, before)
    with pytest.raises(InputError, match="applied up to 2013-01-10"):
        apply_window(spark, ready.table, day(11), day(12))
    apply_window(spark, ready.table, day(8), day(10))
    with pytest.raises(InputError, match="would count events twice"):
        apply_window(spark, ready.table, day(8), day(11))
    # What came after the version that was cloned is not in: it may be applied, once.
    for _ in range(2):
        apply_window(spark, ready.table, day(10), day(12))
        assert trips(spark, ready) == until(ready, "2013-01-12")


def test_a_clone_that_nothing_tells_of_is_refused_until_a_person_says(
    spark: SparkSession, ready: World, capsys: pytest.CaptureFixture[str]
) -> None:
    apply_window(spark, ready.table, day(8), day(10))
    kept = cloned(spark, ready)
    log = kept / "_delta_log"
    shutil.move(log, kept / "gone")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    arguments = ["--spec", ready.spec_path]
    window = [*arguments, "--start", "2013-01-08", "--end", "2013-01-10"]
    before = versions(spark, ready)
    assert job.main(window) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "found none (it was cloned from version" in line
    assert "the registry has a window that ends at 2013-01-10" in line
    assert "--holds-until DAY --of totals" in line
    assert versions(spark, ready) == before
    said = [*arguments, "--holds-until", "2013-01-10", "--of", "totals"]
    assert job.main(said) == 0 and job.main(said) == 0
    assert trips(spark, ready) == until(ready, "2013-01-10")
    assert job.main([*arguments, "--holds-until", "2013-01-09"]) == 2
    assert "applied up to 2013-01-10, not 2013-01-09" in capsys.readouterr().err
    assert job.main([*arguments, "--start", "2013-01-10", "--end", "2013-01-12"]) == 0
    assert trips(spark, ready) == until(ready, "2013-01-12")


def test_a_clone_whose_source_was_replaced_is_refused(
    spark: SparkSession, ready: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log names places: the backup's may hold another table, or one made of the clone."""
    path = Path(ready.table.spec.state["totals"].path)
    apply_window(spark, ready.table, day(8), day(10))
    kept = cloned(spark, ready)
    # The files stay, and the log begins anew.
    made = kept.with_name("made")
    spark.sql(f"CREATE TABLE delta.`{made}` SHALLOW CLONE {state.sql_name(str(path))}")
    shutil.rmtree(kept / "_delta_log")
    shutil.move(made / "_delta_log", kept / "_delta_log")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    again = state.table_version(spark, str(kept))
    clone = path / "_delta_log" / f"{0:020}.json"
    text = clone.read_text()
    clone.write_text(re.sub(r'("sourceVersion":"?)\d+', rf"\g<1>{again}", text))
    (clone.with_name(f".{clone.name}.crc")).unlink(missing_ok=True)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    arguments = ["--spec", ready.spec_path, "--start", "2013-01-10", "--end", "2013-01-12"]
    assert job.main(arguments) == 2
    assert "rows come from this very clone" in capsys.readouterr().err
    # Another table in the source's place.
    shutil.rmtree(kept)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.range(3).write.format("delta").save(str(kept))
    assert job.main(arguments) == 2
    assert "whose files are others: another table is there now" in capsys.readouterr().err


def test_ids_that_delta_has_dropped_are_told_by_commits(spark: SparkSession, ready: World) -> None:
    apply_window(spark, ready.table, day(8), day(10))
    (ready.folder / "registry/windows/2013-01-10.json").unlink()
    path = ready.table.spec.state["totals"].path
    name, setting = state.sql_name(path), "delta.setTransactionRetentionDuration"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{setting}' = 'interval 0 seconds')")
    jvm = spark._jvm
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    log.checkpoint(log.update(False, none, none), none)
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('{setting}')")
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert commits.windows_count(spark, path, "trips") == 0
    before = versions(spark, ready)
    apply_window(spark, ready.table, day(8), day(10))
    assert versions(spark, ready) == before
    for _ in range(2):
        apply_window(spark, ready.table, day(10), day(12))
        assert trips(spark, ready) == until(ready, "2013-01-12")
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {before['totals']}")
    with pytest.raises(InputError, match="applied up to 2013-01-10: .* leave out"):
        apply_window(spark, ready.table, day(12), day(13))
    apply_window(spark, ready.table, day(10), day(12))
    assert trips(spark, ready) == until(ready, "2013-01-12")


def test_of_two_windows_with_one_end_the_second_says_that_it_was_not_applied(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, other = job.merge_window, []

    def merging(*args: object) -> None:
        if not other:
            other.append(True)
            apply_window(spark.newSession(), ready.table, day(8), day(10))
        real(*args)

    monkeypatch.setattr(job, "merge_window", merging)
    with pytest.raises(InputError, match="has applied the window from 2013-01-08 to 2013-01-10"):
        apply_window(spark, ready.table, day(9), day(10), allow_gap=True)
    assert trips(spark, ready) == until(ready, "2013-01-10")
    record = json.loads((ready.folder / "registry/windows/2013-01-10.json").read_text())
    assert record["start"] == "2013-01-08"
    path = ready.table.spec.state["totals"].path
    assert (day(8), day(10)) in window_commits.windows(spark, path)


def test_a_window_is_added_once_to_appended_partials(spark: SparkSession, ready: World) -> None:
    split(spark, ready, {"D000": 2})
    path = ready.table.spec.state["totals"].path
    put(spark, path, "D000", owners(ready, "D000", 1), trips=1000)
    apply_window(spark, ready.table, day(8), day(10))
    assert trips(spark, ready) == until(ready, "2013-01-10") + 1000
    assert not rows(spark, ready, "totals").reset_index().duplicated(["dest", "channel"]).any()


def test_what_delta_compacts_after_a_window_is_no_window(spark: SparkSession, ready: World) -> None:
    """Its OPTIMIZE has the window's metadata. A note may have seen the version just before it."""
    path = ready.table.spec.state["totals"].path
    compact = "'delta.autoOptimize.autoCompact' = 'true'"
    spark.sql(f"ALTER TABLE {sql_name(ready)} SET TBLPROPERTIES ({compact})")
    few = "spark.databricks.delta.autoCompact.minNumFiles"
    spark.conf.set(few, "2")
    try:
        for start, end in ((8, 10), (10, 12)):
            applied_twice(spark, ready, start, end)
            exact(spark, ready, f"2013-01-{end}")
    finally:
        spark.conf.unset(few)
    made = [c for c in commits.newest_first(spark, path) if c.meta.get("step") == "apply_window"]
    assert [c.operation for c in made] == ["OPTIMIZE", "MERGE"] * 2
    found = list(window_commits.windows(spark, path))
    assert found == [(day(10), day(12)), (day(8), day(10)), (None, day(8))]
    count = commits.windows_count(spark, path, "trips")
    note(spark, ready.table.spec, "totals", day(12), made[1], count)
    assert window_commits.newest_end(spark, [path]) == day(12)
