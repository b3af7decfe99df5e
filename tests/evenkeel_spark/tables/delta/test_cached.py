"""What an application has cached of a state table, which another program then changes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.delta.write_session import own_session

pytestmark = pytest.mark.spark


def test_a_read_of_ours_is_of_the_table_and_not_of_a_cache(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    spark.range(10).write.format("delta").save(path)
    cached = spark.read.format("delta").load(path).cache()
    try:
        assert cached.count() == 10
        write_deltalake(path, pa.table({"id": pa.array([10, 11], pa.int64())}), mode="append")
        own = own_session(spark)
        stale = own.sql(f"SELECT * FROM {state.sql_name(path)}")
        assert stale.count() == 10, "Spark answers by the cache"
        rows, version = state.read_newest(own, path)
        assert (rows.count(), version) == (12, 1)
        assert own.sql(f"SELECT * FROM {state.sql_name(path)}").count() == 12
    finally:
        cached.unpersist()
