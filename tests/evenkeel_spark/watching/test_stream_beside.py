"""The watch beside other streams of one session, and events that it must not pass over."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from evenkeel_spark.watching.micro_batch import since
from evenkeel_spark.watching.streaming import stream
from partitioning.errors import InputError
from tests.support.worlds.live import FIRST, Live, ended

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Fixtures of that file.


def timeless(rows: Any) -> Any:
    """Times of which the first three are null."""
    return rows["at"].where(rows.index >= 3)


def test_events_without_a_time_are_refused_by_the_watch_too(
    spark: SparkSession, live: Live
) -> None:
    live.batch(1, 0.1, at=timeless)
    checkpoint = str(live.folder / "checkpoint")
    wrong = "3 events have a null for their time .at.: no window has them"
    with pytest.raises(InputError, match=wrong):
        live.look(spark, 1)
    with pytest.raises(InputError, match=wrong):
        stream(spark, live.table, live.spec_path, checkpoint, available_now=True)
    assert live.known.watch.last == FIRST
    live.respec(null_times="drop")
    assert since(spark, live.table, FIRST, ended(1)).count() == 205 - 3
    # The same batch again, of both files.
    stream(spark, live.table, live.spec_path, checkpoint, available_now=True)
    assert f"batch 0: {2 * 205 - 3} events" in live.known.outcome


def test_a_stream_of_a_users_own_loses_no_rows(spark: SparkSession, live: Live) -> None:
    """Ours commits with Delta's transaction ids, and so does theirs, in the same session."""
    for number in range(1, 6):
        live.batch(number, 4.0)
    path, theirs = str(live.folder / "events"), str(live.folder / "theirs")
    plain = str(live.folder / "plain")
    files = spark.readStream.schema(spark.read.parquet(path).schema)
    events = files.option("maxFilesPerTrigger", 1).parquet(path)

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.write.format("delta").mode("append")
        rows.save(plain)
        rows.option("txnAppId", "theirs").option("txnVersion", number).save(theirs)

    def run() -> None:
        writer = events.writeStream.foreachBatch(write).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(live.folder / "own"))
        writer.start().awaitTermination()

    thread = threading.Thread(target=run)
    thread.start()
    checkpoint = str(live.folder / "checkpoint")
    stream(spark, live.table, live.spec_path, checkpoint, available_now=True, files=1)
    thread.join()
    assert live.table.epoch().number >= 1
    count = spark.read.parquet(path).count()
    assert [spark.read.format("delta").load(p).count() for p in (plain, theirs)] == [count, count]
    for name in ("txnAppId", "txnVersion"):
        assert spark.conf.get(f"spark.databricks.delta.write.{name}", None) is None
