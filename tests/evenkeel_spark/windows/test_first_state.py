"""What the tables of a bootstrap note of the events that they are made from."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.events.reader import read_events, typed_key
from evenkeel_spark.windows.first_state import first_state_note, rows_until
from partitioning.strategies.hashing import first_function
from tests.conftest import World
from tests.support.worlds.windows import day

pytestmark = pytest.mark.spark

#: By name: the merge, the input column, and whether a bootstrap can make the same value again.
COLUMNS = {
    "whole": ("sum", "miles", True),
    "least": ("min", "part", True),
    "each": ("set", "miles", True),
    "newest": ("last", "part", True),
    "parts": ("sum", "part", False),
    "about": ("hll", "miles", False),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_values_that_do_not_depend_on_an_order_are_noted(
    spark: SparkSession, world: World, column: str
) -> None:
    merge, of, exact = COLUMNS[column]
    events = world.events.head(300).assign(part=world.events["miles"] / 10)
    world.with_columns({column: {"merge": merge, "of": of}})
    before = note(spark, world, events)
    assert note(spark, world, events.sample(frac=1, random_state=3)) == before
    assert (note(spark, world, events.assign(**{of: events[of] + 1})) != before) is exact
    more = pd.concat([events, events.head(1)])
    assert note(spark, world, more) != before


def note(spark: SparkSession, world: World, events: Any) -> str:
    spec = world.write_events(events).table.spec
    read = read_events(spark, spec)
    function = first_function(typed_key(read, spec), spec.slots, spec.channel_list())
    rows = rows_until(read, spec, function, day(12))
    try:
        return first_state_note("made", rows, spec)
    finally:
        rows.unpersist()
