"""New state tables: the constraint that they get."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.delta.unfinished_table import guard_new
from tests.conftest import World

pytestmark = pytest.mark.spark


def test_rows_of_an_earlier_epoch_keep_its_constraint_although_they_fit(
    spark: SparkSession, ready: World
) -> None:
    """A key may have got rows elsewhere since, or another slot, which the rule does not ask."""
    table = ready.table
    path = table.spec.state["totals"].path
    rule = constraints.fence_rule(table.spec, table.epoch().function)
    guard = partial(guard_new, partial(nullcontext, spark), path, 1, rule)
    guard()
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    spark.sql(f"DELETE FROM delta.`{path}`")
    guard()
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_1"}
