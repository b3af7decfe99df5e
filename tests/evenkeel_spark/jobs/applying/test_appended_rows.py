"""A window is added once to a key whose rows a writer appends to, whenever it does."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.jobs.apply_window import apply_window, window_state
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.write_session import own_session
from evenkeel_spark.windows.window_merge import SeveralRowsError, merge_window
from partitioning.errors import FenceError
from tests.conftest import World
from tests.support.worlds.windows import WHENS, day, hooked, owners, put, rows, split

pytestmark = pytest.mark.spark


def trips(spark: SparkSession, world: World) -> dict[str, int]:
    """Trips by key; a key has one row on a channel."""
    found = rows(spark, world, "totals").reset_index()
    assert not found.duplicated(["dest", "channel"]).any()
    return {str(k): int(v) for k, v in found.groupby("dest")["trips"].sum().items()}


def wanted(world: World, end: str, **more: int) -> dict[str, int]:
    events = world.events
    counts = events[events["at"] < end].groupby("dest").size()
    return {str(k): int(v) + more.get(str(k), 0) for k, v in counts.items()}


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("key", ["D000", "D001"], ids=["partial", "whole"])
def test_a_row_appended_just_before_the_merge(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch, key: str, when: str
) -> None:
    split(spark, ready, {"D000": 2})
    path = ready.table.spec.state["totals"].path
    channel = owners(ready, key, 1)
    with monkeypatch.context() as patch:
        hooked(patch, when, 0, lambda: put(spark.newSession(), path, key, channel, trips=1000))
        apply_window(spark, ready.table, day(8), day(10))
    assert trips(spark, ready) == wanted(ready, "2013-01-10", **{key: 1000})


def test_a_writer_that_appends_meanwhile(spark: SparkSession, ready: World) -> None:
    path, done, count = ready.table.spec.state["totals"].path, threading.Event(), 0
    own = spark.newSession()

    def append() -> None:
        nonlocal count
        # A MERGE that always takes longer than from one append to the next would never win.
        while count < 4 and not done.wait(0.5):
            put(own, path, "D001", owners(ready, "D001", 1), trips=1000)
            count += 1

    writer = threading.Thread(target=append)
    writer.start()
    try:
        apply_window(spark, ready.table, day(8), day(10))
    finally:
        done.set()
        writer.join()
    apply_window(spark, ready.table, day(10), day(12))
    assert count and trips(spark, ready) == wanted(ready, "2013-01-12", D001=1000 * count)


@pytest.mark.slow
def test_a_writer_that_is_always_first(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, says who is to stop, and has merged nothing."""
    path, check = ready.table.spec.state["totals"].path, constraints.check_unchanged
    own = spark.newSession()

    def first(*args: object) -> None:
        check(*args)
        put(own, path, "D001", owners(ready, "D001", 1), trips=1000)

    monkeypatch.setattr("evenkeel_spark.jobs.apply_window.GATHERS", 1)
    with monkeypatch.context() as patch:
        patch.setattr(constraints, "check_unchanged", first)
        with pytest.raises(FenceError, match="has several rows on one channel.*pause the writer"):
            apply_window(spark, ready.table, day(8), day(10))
    found = rows(spark, ready, "totals")["trips"]
    assert (found.sum() - (ready.events["at"] < "2013-01-08").sum()) % 1000 == 0
    apply_window(spark, ready.table, day(8), day(10))
    assert (
        sum(trips(spark, ready).values()) - sum(wanted(ready, "2013-01-10").values())
    ) % 1000 == 0


@pytest.mark.parametrize("column", ["slot", "dest"])
def test_a_window_of_one_slot_or_key_is_merged_as_any_other(
    spark: SparkSession, ready: World, column: str
) -> None:
    """Its column is then a constant, which Spark copies to all that is joined by it."""
    spec, function = ready.table.spec, ready.table.epoch().function
    before = trips(spark, ready)
    window = window_state(spark.read.parquet(spec.input.path), spec, function)
    window = window.where(F.col(column) == window.where("dest = 'D001'").first()[column])
    merge_window(own_session(spark), spec, "totals", window, function)
    assert trips(spark, ready)["D001"] == before["D001"] + wanted(ready, "2014")["D001"]
    # One more row of the key: the window would be added to both.
    channel = owners(ready, "D001", 1)
    put(spark.newSession(), spec.state["totals"].path, "D001", channel, trips=1000)
    with pytest.raises(SeveralRowsError):
        merge_window(own_session(spark), spec, "totals", window, function)
