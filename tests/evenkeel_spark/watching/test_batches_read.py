"""Which micro-batches a look reads after a pause, and whose cache of them it leaves."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.watching import micro_batch
from evenkeel_spark.watching.micro_batch import number_sql, since
from evenkeel_spark.watching.streaming import meet
from tests.support.worlds.live import EVERY, FIRST, Live, ended

pytestmark = pytest.mark.spark


def test_after_a_long_pause_only_the_newest_are_read(
    spark: SparkSession,
    live: Live,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in range(1, 7):
        live.batch(number, 0.1)
    monkeypatch.setattr(micro_batch, "MOST_BATCHES", 3)

    def numbers(last: int) -> list[int]:
        found = since(spark, live.table, last, ended(6))
        found = found.select(F.expr(number_sql(live.table.spec, EVERY)).alias("n")).distinct()
        return sorted(row["n"] - FIRST for row in found.collect())

    assert numbers(FIRST + 3) == [4, 5, 6]
    assert "left out" not in capsys.readouterr().out
    assert numbers(FIRST) == [4, 5, 6]
    assert "3 micro-batches have come in a pause, and are left out" in capsys.readouterr().out


def test_a_batch_that_was_cached_stays_cached(spark: SparkSession, live: Live) -> None:
    live.batch(1, 0.1)
    events = since(spark, live.table, FIRST, ended(1))
    for cached in (True, False):
        if cached:
            events.persist()
        meet(spark, live.table, live.spec_path, events, int(cached), "own", ended(1))
        assert events.storageLevel.useMemory == cached
        events.unpersist()
