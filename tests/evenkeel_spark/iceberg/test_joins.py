"""The reward: two adopted tables are joined and aggregated by key without a shuffle."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.iceberg.adopt import adopt
from tests.conftest import World

pytestmark = pytest.mark.spark

#: Spark's settings for joins of tables that are partitioned alike, as in docs/how-to/iceberg.md.
SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
}
JOIN = """
    SELECT o.channel, o.dest, count(*) AS trips, max(p.most) AS most
    FROM lake.db.orders o JOIN lake.db.profiles p ON o.channel = p.channel AND o.dest = p.dest
    GROUP BY o.channel, o.dest
"""


def test_join_and_aggregation_have_no_exchange(lake: SparkSession, team: World) -> None:
    lake.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    before = lake.sql(JOIN.replace("o.channel = p.channel AND ", "").replace("o.channel, ", ""))
    expected = sorted(map(tuple, before.collect()))
    adopt(lake, team.table)
    for name, value in SETTINGS.items():
        lake.conf.set(name, value)
    found = lake.sql(JOIN)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan and "SortMergeJoin" in plan
    assert sorted(map(tuple, found.drop("channel").collect())) == expected
    lake.conf.set("spark.sql.sources.v2.bucketing.enabled", "false")
    # The test would see a shuffle.
    assert "Exchange" in lake.sql(JOIN)._jdf.queryExecution().executedPlan().toString()
