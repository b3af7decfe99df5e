"""Measures for the gate: what they see of lost, changed and moved rows, and when they are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.files.migration_records import TableMigrated
from evenkeel_spark.migration.measuring.measures import channel_counts, commit_spans, measure_table
from evenkeel_spark.migration.measuring.table_versions import TableVersions
from evenkeel_spark.migration.migrate import migrate, table_record
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.rows.checksums import (
    HALF,
    Content,
    channel_contents,
    halves,
    total_content,
)
from partitioning.function.channels import numbered_channels
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY
from partitioning.workload.profile import profile_of_keys
from tests.support.placed import (
    KEYS,
    Placed,
    append,
    meanwhile,
    placed,
    planned,
)
from tests.support.raw_json import read_json, write_json
from tests.support.state_tables import assert_under

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def measured(
    spark: SparkSession, migration: Migration, record: TableMigrated
) -> tuple[dict[str, Any], dict[int, int]]:
    """What the gate is given of the table as it is now."""
    newest = state.table_version(spark, migration.path("visits"))
    return measure_table(TableVersions(spark, migration, "visits", newest), record)


def test_sums_of_a_channel_grow_with_the_root_of_its_rows(spark: SparkSession) -> None:
    """So that billions of rows do not overflow 64 bits; and they are those of the whole hashes."""
    rows = spark.range(20_000).select(F.xxhash64("id").alias("h"))
    sums = rows.agg(*(F.sum(half) for half in halves(F.col("h")))).first()
    assert sums is not None and max(map(abs, sums)) < 2**31 * 20_000 / 20
    whole = sum(row[0] for row in rows.collect())
    assert (sums[0] << 32) + sums[1] + 20_000 * HALF == whole


def test_tables_with_other_rows_a_key_are_predicted_together() -> None:
    """One table has a row a key, the other a thousand rows of one key: no channel is off."""
    slots = np.arange(4)
    loads = np.array([1001.0, 1.0, 1.0, 1.0])
    profile = profile_of_keys(KEY, slots, loads, 4, threshold=2000)
    profile = replace(profile, rows=loads)
    function = uniform(profile, None, numbered_channels(4))
    measures: list[dict[str, Any]] = [
        {"table": "one", "rows_before": 4},
        {"table": "many", "rows_before": 1000},
    ]
    (at,) = function.lookup_hashes(slots[:1]).tolist()
    found = {"one": dict.fromkeys(range(4), 1), "many": {at: 1000}}
    none = np.empty(0, dtype=np.int64)
    for row in channel_counts(profile, function, measures, found, none):
        assert row["rows"] == row["rows_predicted"] == (1001 if row["channel"] == at else 1)
    assert [m["rows_weighed"] for m in measures] == [4, 1000]


def test_lost_rows_and_changed_values_are_seen(
    spark: SparkSession, home: Placed, migration: Migration
) -> None:
    name = state.sql_name(home.path())
    record = table_record(spark, migration, "visits")
    good, rows = measured(spark, migration, record)
    assert good["rows_before"] == good["rows_after"] == sum(rows.values()) == KEYS
    assert good["checksum_before"] == good["checksum_after"]
    assert good["misplaced"] == good["duplicates"] == 0
    assert good["bytes_predicted"] == record.rows * record.bytes_per_row
    # As if our UPDATEs had done it.
    spark.sql(f"UPDATE {name} SET visits = visits + 1 WHERE key = 'k3'")
    record = record.model_copy(update={"commits": [home.version(spark)]})
    changed, _ = measured(spark, migration, record)
    assert changed["rows_before"] == changed["rows_after"]
    assert changed["checksum_before"] != changed["checksum_after"]
    spark.sql(f"DELETE FROM {name} WHERE key = 'k4'")
    record = record.model_copy(update={"commits": [home.version(spark)]})
    lost, _ = measured(spark, migration, record)
    assert lost["rows_before"] == lost["rows_after"] + 1 == KEYS


@pytest.mark.parametrize(
    ("commits", "found"),
    [([], []), ([4], [(3, 4)]), ([4, 5, 6], [(3, 6)]), ([4, 6, 7], [(3, 4), (5, 7)])],
)
def test_commits_that_follow_one_another_are_one(
    commits: list[int], found: list[tuple[int, int]]
) -> None:
    assert commit_spans(commits) == found


@pytest.mark.slow
def test_what_batches_were_to_write_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    write_json(migration.run, "params.json", {"batch": round(migration.plan.bytes / 3)})
    migrate(spark, migration)
    record = table_record(spark, migration, "visits")
    assert len(record.commits) >= 3
    found, _ = measured(spark, migration, record)
    assert found["bytes_predicted"] == record.rows * record.bytes_per_row
    assert found["checksum_before"] == found["checksum_after"]


def test_the_checksum_is_the_sum_of_all_hashes(
    spark: SparkSession, home: Placed, migration: Migration
) -> None:
    rows = spark.read.format("delta").load(home.path())
    hashes = rows.selectExpr("xxhash64(slot, key, visits)").collect()
    found = total_content(channel_contents(rows, migration.after).values())
    assert (found.rows, found.checksum) == (KEYS, sum(r[0] for r in hashes))
    elsewhere = rows.withColumn("channel", rows.channel + 1)
    moved = total_content(channel_contents(elsewhere, migration.after).values())
    assert (moved.checksum, moved.misplaced) == (found.checksum, KEYS)
    assert total_content(channel_contents(rows.limit(0), migration.after).values()).checksum == 0


def test_most_is_measured_before_writers_are_refused(
    spark: SparkSession, home: Placed, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three versions before the table is closed: the moves' two, and the newest."""
    append(spark, home, migration.after, {f"between{i}": i for i in range(9)})
    append(spark, home, migration.before, {f"early{i}": i for i in range(50)})
    newest, before, found = home.version(spark), [], []

    def read(rows: DataFrame, *more: Any) -> dict[int, Content]:
        found.append(rows)
        return channel_contents(rows, *more)

    monkeypatch.setattr("evenkeel_spark.migration.measuring.table_versions.channel_contents", read)
    with meanwhile("closed", lambda: before.append(len(found)), monkeypatch):
        record = verify(spark, migration)
    assert before == [3]
    # Then the commit that swept what came by the epoch before. The newest before was read already.
    assert read_json(migration.run, "migration.json")["tables"]["visits"]["commits"][1:] == [
        newest + 2
    ]
    assert len(found) == 5
    assert record.tables["visits"] > newest + 2
    assert_under(spark, home, migration.after)
