"""Our reads are of the table, whatever the application has cached or kept of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.write_session import own_session

pytestmark = pytest.mark.spark


def two_more(path: str) -> None:
    """Rows that a program without Spark writes."""
    write_deltalake(path, pa.table({"id": pa.array([10, 11], pa.int64())}), mode="append")


def test_a_read_of_ours_is_of_the_table_and_not_of_a_cache(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    spark.range(10).write.format("delta").save(path)
    cached = spark.read.format("delta").load(path).cache()
    try:
        assert cached.count() == 10
        two_more(path)
        own = own_session(spark)
        stale = own.sql(f"SELECT * FROM {state.sql_name(path)}")
        assert stale.count() == 10, "Spark answers by the cache"
        rows, version = state.read_newest(own, path)
        assert (rows.count(), version) == (12, 1)
        assert own.sql(f"SELECT * FROM {state.sql_name(path)}").count() == 12
    finally:
        cached.unpersist()


def test_a_session_of_ours_does_not_take_a_snapshot_for_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    """An input that a Spark which stays up has read before, under a setting of the cluster's."""
    theirs = spark.newSession()
    theirs.conf.set("spark.databricks.delta.stalenessLimit", "1h")
    # A table for each: a read lets Delta look again, in the background.
    for name, session, seen in (("a", theirs, 10), ("b", own_session(theirs), 12)):
        path = str(tmp_path / name)
        session.range(10).write.format("delta").save(path)
        assert session.read.format("delta").load(path).count() == 10
        two_more(path)
        assert session.read.format("delta").load(path).count() == seen
