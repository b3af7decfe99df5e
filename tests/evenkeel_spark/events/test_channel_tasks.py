"""Each channel's rows in a task of their own, also on a Spark without `repartitionById`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from evenkeel_spark.events.channel_tasks import PLACE, one_task_a_channel, places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("channels", [1, 7, 64])
def test_an_older_spark_brings_channel_i_into_task_i(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, channels: int
) -> None:
    rows = spark.range(2000).selectExpr("id", f"CAST(id % {channels} AS INT) AS channel")
    for kind in type(rows).__mro__:
        monkeypatch.delattr(kind, "repartitionById", raising=False)
    placed = one_task_a_channel(rows, channels)
    found = placed.select("channel", F.spark_partition_id().alias("task")).distinct().collect()
    assert {(r.channel, r.task) for r in found} == {(i, i) for i in range(channels)}
    # Grouped by the place, too, the rows stay where they are.
    grouped = placed.groupBy(PLACE, "channel", "id").count()
    plan = grouped._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange ") == 1


def test_a_place_is_the_least_number_whose_hash_is_the_task(spark: SparkSession) -> None:
    numbers = spark.range(100).selectExpr("CAST(id AS INT) AS id", "pmod(hash(INT(id)), 5) AS task")
    least = {r.task: r.id for r in numbers.groupBy("task").agg(F.min("id").alias("id")).collect()}
    assert places(5) == tuple(least[task] for task in range(5))
