"""A reader's DataFrame is of the version that it was made at, whatever comes before its action."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from evenkeel_spark.migration.migrate import migrate
from partitioning.function.function import PartitioningFunction
from tests.support.placed import HEAVY, KEYS, Placed, planned
from tests.support.worlds.split_state import HAD, START, finish, gated, parts, split, whole, write

pytestmark = pytest.mark.spark


def test_a_key_that_is_split_before_the_action_has_one_row(
    spark: SparkSession, home: Placed
) -> None:
    total = sum(HAD.values())
    _publish(spark, home, "whole", whole(home.table.epoch().function, START))
    made = home.table.state("visits", spark=spark)
    _publish(spark, home, "again", split(home.table.epoch().function, dict.fromkeys(HAD, 1.0)))
    other = next(channel for channel in HAD if channel != START)
    write(spark, home, {other: 5})
    assert len(parts(spark, home)) == 2
    assert (made.count(), visits(made)) == (KEYS, [total])
    assert visits(home.table.state("visits", spark=spark)) == [total + 5]


def _publish(spark: SparkSession, home: Placed, run: str, function: PartitioningFunction) -> None:
    migration = gated(planned(spark, home, run, function))
    migrate(spark, migration)
    finish(spark, home, migration)


def visits(rows: DataFrame) -> list[int]:
    return [row["visits"] for row in rows.where(f"key = '{HEAVY}'").collect()]
