"""A table that changes while a window is applied by the spec of before, or has split keys."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.windows import window_merge
from partitioning.errors import FenceError
from tests.chaos.home import RUN, dag
from tests.conftest import World
from tests.support.worlds.evolved import COLUMNS
from tests.support.worlds.windows import day, hooked, rows, split

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RENAMED = {"flown" if name == "miles" else name: c for name, c in COLUMNS.items()}


def test_a_window_whose_column_has_another_name_by_now_writes_nothing(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, table = rows(spark, ready, "totals"), ready.table

    def change() -> None:
        evolve(spark, ready.with_columns(RENAMED).table, Intent.of(["totals.miles=flown"]))

    # It comes after the last look at the columns, and before the MERGE.
    real = window_merge.check_unchanged_columns

    def late(*args: Any) -> None:
        real(*args)
        change()

    with monkeypatch.context() as patch:
        patch.setattr(window_merge, "check_unchanged_columns", late)
        with pytest.raises(FenceError, match="expected column 'miles', found none"):
            apply_window(spark, table, day(8), day(9))
    now = rows(spark, ready, "totals")
    assert now["flown"].to_dict() == before["miles"].to_dict()
    assert now["trips"].to_dict() == before["trips"].to_dict()
    apply_window(spark, ready.table, day(8), day(9))
    counted = ready.events[ready.events["at"] < "2013-01-09"].groupby("dest")
    now = rows(spark, ready, "totals")
    assert now["flown"].to_dict() == counted["miles"].sum().to_dict()
    assert now["trips"].to_dict() == counted.size().to_dict()


def test_a_window_without_a_column_that_is_there_by_now_writes_nothing(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count as applied, and the new column would lack it for ever."""
    before, table = rows(spark, ready, "totals"), ready.table
    more = {**COLUMNS, "least": {"merge": "min", "of": "miles"}}
    with monkeypatch.context() as patch:
        change = partial(evolve, spark, ready.with_columns(more).table, Intent.of())
        hooked(patch, "before the check", 0, change)
        with pytest.raises(FenceError, match="its columns are those of another spec by now"):
            apply_window(spark, table, day(8), day(9))
    now = rows(spark, ready, "totals")
    assert now["trips"].to_dict() == before["trips"].to_dict()
    apply_window(spark, ready.table, day(8), day(9))
    events = ready.events[ready.events["at"] < "2013-01-09"]
    last = events[events["at"] >= "2013-01-08"].groupby("dest")["miles"].min()
    now = rows(spark, ready, "totals")
    assert now["trips"].to_dict() == events.groupby("dest").size().to_dict()
    assert now["least"].dropna().astype("int64").to_dict() == last.to_dict()
    assert evolve(spark, ready.table, Intent.of()) == []


def test_a_column_of_a_split_key_is_merged_like_any_other(
    spark: SparkSession, ready: World
) -> None:
    split(spark, ready, {"D000": 3})
    more = {**RENAMED, "least": {"merge": "min", "of": "miles"}}
    intent = Intent.of(["totals.miles=flown"])
    assert len(evolve(spark, ready.with_columns(more).table, intent)) == 2
    apply_window(spark, ready.table, day(8), day(10))
    assert len(rows(spark, ready, "totals").loc["D000"]) == 3
    # The key becomes whole again, with its new column.
    assert dag(spark, ready, "learn", RUN) and not len(ready.table.epoch().function.split)
    events = ready.events[ready.events["at"] < "2013-01-10"]
    last = events[events["at"] >= "2013-01-08"].groupby("dest")["miles"].min()
    found = rows(spark, ready, "totals")
    assert found["flown"].to_dict() == events.groupby("dest")["miles"].sum().to_dict()
    assert found["least"].dropna().astype("int64").to_dict() == last.to_dict()
