"""Applying windows: state as pandas has it, exactly once, each channel in its own task."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from evenkeel.registry.state_view import kinds, one_row_a_key
from evenkeel.spec.parts import StateColumn, StateTable
from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.apply_window import apply_window, window_state
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.windows import applied_windows, next_window
from partitioning.errors import InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import successor
from partitioning.function.hashing import KeyColumn, key_hash
from tests.conftest import World, compiled
from tests.support.worlds.windows import (
    day,
    killed_between_tables,
    rows,
    split,
    versions,
)

pytestmark = pytest.mark.spark


def test_state_and_record_are_what_pandas_says(spark, ready: World):
    events = ready.events
    # Nulls among the values and in the key, a key seen for the first time, one last seen long ago.
    events["miles"] = events["miles"].astype("Int32").mask(events.index % 5 == 0)
    events.loc[events["dest"] == "D001", "miles"] = None
    events.loc[len(events) - 3 :, "dest"] = "NEW"
    events.loc[events.index % 70 == 0, "dest"] = None
    ready.write_events(events).respec(null_keys="keep")
    before = rows(spark, ready, "totals")
    apply_window(spark, ready.table, day(8), day(11))
    record = apply_window(spark, ready.table, day(11), day(15))

    epoch = ready.table.epoch()
    totals = rows(spark, ready, "totals")
    assert totals.index.is_unique
    assert (totals["channel"] == epoch.lookup(totals.index)).all()
    window = events[events["at"] >= "2013-01-11"]
    counts = window.groupby(epoch.lookup(window["dest"])).size()
    assert [c.channel for c in record.channels] == [0, 1, 2, 3]
    assert [c.rows for c in record.channels] == [counts.get(c, 0) for c in range(4)]
    assert sum(c.seconds for c in record.channels) > 0
    stored = json.loads((ready.folder / "registry/windows/2013-01-15.json").read_text())
    assert stored == record.model_dump(mode="json")
    assert (stored["start"], stored["end"]) == ("2013-01-11", "2013-01-15")
    assert stored["rows"] == len(window)

    totals.index = totals.index.fillna("no key")
    new = events[events["at"] >= "2013-01-08"].fillna({"dest": "no key"}).groupby("dest")
    trips = before["trips"].add(new.size(), fill_value=0)
    assert totals["trips"].to_dict() == trips.to_dict()
    miles = before["miles"].add(new["miles"].sum(min_count=1).astype("Float64"), fill_value=0)
    assert (totals["miles"] == miles[totals.index]).all()
    last = new["at"].max().dt.tz_localize(None)
    assert (totals.loc[last.index, "last"] == last).all()
    first = new["at"].min().dt.tz_localize(None)
    fresh = first.index.difference(before.index)
    assert {"NEW", "no key"} <= set(fresh)
    assert (totals.loc[fresh, "first"] == first[fresh]).all()
    assert (totals.loc[before.index, "first"] == before["first"]).all()


@pytest.mark.parametrize("name", ["channel", "Channel", "_channel"])
def test_a_column_of_events_may_have_the_name_of_ours(spark, world: World, name: str):
    world.write_events(world.events.assign(**{name: 99}))
    world.with_columns({"most": {"merge": "max", "of": name}})
    bootstrap(spark, world.table, day(8))
    apply_window(spark, world.table, day(8), day(15))
    found = rows(spark, world, "totals")
    assert set(found["most"]) == {99} and set(found["channel"]) == {0, 1, 2, 3}


def test_a_key_may_have_the_name_of_a_count(spark, world: World):
    world.write_events(world.events.rename(columns={"dest": "count"})).respec(key=["count"])
    bootstrap(spark, world.table, day(8))
    apply_window(spark, world.table, day(8), day(15))
    found = world.table.state("totals", spark=spark).toPandas().set_index("count")
    assert found["trips"].to_dict() == world.events.groupby("count").size().to_dict()


@pytest.mark.parametrize("sized", [lambda spark: spark, compiled], ids=["small", "large"])
def test_channels_need_one_shuffle_and_a_task_each(spark, ready: World, sized):
    """With adaptive execution, too, which may join small partitions of a shuffle."""
    spec, function = ready.table.spec, ready.table.epoch().function
    events = sized(spark).read.parquet(spec.input.path)
    folded = window_state(events, spec, function)
    assert folded._jdf.queryExecution().executedPlan().toString().count("Exchange ") == 1
    tasks = folded.rdd.glom().map(lambda part: {r.channel for r in part}).collect()
    assert tasks == [{0}, {1}, {2}, {3}]


@pytest.mark.slow
def test_each_channel_has_its_seconds_where_queries_are_compiled(spark, ready: World):
    record = apply_window(compiled(spark), ready.table, day(8), day(10))
    window = ready.events[ready.events["at"].between("2013-01-08", "2013-01-09 23:59:59.999999")]
    assert sum(c.rows for c in record.channels) == len(window)
    assert all(c.seconds > 0 for c in record.channels if c.rows)


def test_a_second_run_changes_nothing_nor_does_another_window(spark, ready: World):
    record = apply_window(spark, ready.table, day(8), day(10))
    before = versions(spark, ready)
    assert apply_window(spark, ready.table, day(8), day(10)) == record
    for start, end, message in (
        (9, 12, "windows are applied up to 2013-01-10: the one from 2013-01-09"),
        (9, 10, "would count events twice"),
        (2, 4, "Go on with --start 2013-01-10"),
        (12, 12, "has no day"),
    ):
        with pytest.raises(InputError, match=message):
            apply_window(spark, ready.table, day(start), day(end))
    # Nor does one after a crash just before the record was written.
    (ready.folder / "registry/windows/2013-01-10.json").unlink()
    again = apply_window(spark, ready.table, day(8), day(10))
    assert versions(spark, ready) == before
    assert [c.rows for c in again.channels] == [c.rows for c in record.channels]
    # If the input is gone by then, the window is in all the same.
    (ready.folder / "registry/windows/2013-01-10.json").unlink()
    events = ready.events
    ready.write_events(events[events["at"] >= "2013-01-10"])
    assert apply_window(spark, ready.table, day(8), day(10)).rows == 0
    assert versions(spark, ready) == before
    assert not ready.table.registry.files.window_ends()


@pytest.mark.slow
def test_a_crash_between_two_tables_is_completed(spark, world: World, monkeypatch):
    table = world.with_seen().table
    bootstrap(spark, table, day(8))
    before = versions(spark, world)
    with killed_between_tables():
        apply_window(spark, table, day(8), day(10))
    # Even a run that does not look first finds the transaction spent.
    there = applied_windows.Applied(day(8), 0, 0)
    monkeypatch.setattr(next_window, "waiting", lambda *_: dict.fromkeys(before, there))
    apply_window(spark, table, day(8), day(10))
    assert versions(spark, world) == {n: v + 1 for n, v in before.items()}
    events = world.events
    assert rows(spark, world, "totals")["trips"].sum() == (events["at"] < "2013-01-10").sum()
    for name in ("txnAppId", "txnVersion"):
        assert spark.conf.get(f"spark.databricks.delta.write.{name}", None) is None


def test_bootstrapped_days_are_applied_already(spark, ready: World):
    with pytest.raises(InputError, match="windows are applied up to 2013-01-08"):
        apply_window(spark, ready.table, day(5), day(9))


def test_days_are_not_left_out_unless_asked_to(spark, ready: World, capsys):
    """They could never be applied later."""
    before = versions(spark, ready)
    arguments = ["--spec", ready.spec_path, "--start", "2013-01-10", "--end", "2013-01-11"]
    assert job.main(arguments) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "windows are applied up to 2013-01-08: the one from 2013-01-10 to 2013-01-11" in line
    assert "Go on with --start 2013-01-08, or give --allow-gap" in line
    assert versions(spark, ready) == before
    assert job.main([*arguments, "--allow-gap"]) == 0
    assert versions(spark, ready) == {n: v + 1 for n, v in before.items()}


@pytest.mark.slow
def test_a_window_broken_off_between_two_tables_comes_first(spark, world: World, monkeypatch):
    """Else what one table lacks of it would be lost. State began empty: any first day will do."""
    table = world.with_seen().table
    bootstrap(spark, table)
    with killed_between_tables():
        apply_window(spark, table, day(4), day(6))
    with pytest.raises(InputError, match="Run this first: --start 2013-01-04 --end 2013-01-06"):
        apply_window(spark, table, day(6), day(7), allow_gap=True)
    apply_window(spark, table, day(4), day(6))
    apply_window(spark, table, day(6), day(7))


@pytest.mark.slow
def test_a_window_broken_off_between_two_tables_may_be_left_out_of_the_second(
    spark, world: World, capsys
):
    """The input has lost its events, so it can never be completed. Nothing else may be skipped."""
    table = world.with_seen().table
    bootstrap(spark, table, day(3))
    with killed_between_tables():
        apply_window(spark, table, day(3), day(6))
    arguments = ["--spec", world.spec_path]
    window = [*arguments, "--start", "2013-01-06", "--end", "2013-01-07"]
    assert job.main(window) == 2
    said = "--holds-until 2013-01-06 --of seen"
    assert said in capsys.readouterr().err
    for wrong in ("2013-01-05", "2013-01-07"):
        assert job.main([*arguments, "--holds-until", wrong, "--of", "seen"]) == 2
    assert job.main([*arguments, *said.split()]) == 0
    # The table that is ahead has the window, so it cannot be said to end earlier.
    assert job.main([*arguments, "--holds-until", "2013-01-03", "--of", "totals"]) == 2
    assert job.main(window) == 0


@pytest.mark.slow
def test_a_split_keys_events_go_to_partials_and_nulls_to_one_of_them(spark, ready: World):
    events = ready.events
    events["miles"] = events["miles"].astype("Int32").mask(events.index % 3 == 0)
    events.loc[events["dest"] == "D001", "miles"] = None
    ready.write_events(events)
    function = split(spark, ready, {"D000": 2})
    record = apply_window(spark, ready.table, day(8), day(10))
    apply_window(spark, ready.table, day(10), day(15))
    path = ready.table.spec.state["totals"].path
    found = spark.read.format("delta").load(path).toPandas()
    per_key = found.groupby("dest")["channel"]
    assert sorted(found.loc[found["dest"] == "D000", "channel"]) == sorted(
        function.split.channels.tolist()
    )
    assert (per_key.nunique() == per_key.size()).all() and per_key.size().sum() == len(per_key) + 1
    window = events[(events["at"] >= "2013-01-08") & (events["at"] < "2013-01-10")]
    routed = ready.table.epoch().lookup(window["dest"], row=window["miles"].astype(object))
    assert [c.rows for c in record.channels] == [(routed == c).sum() for c in range(4)]
    whole = ready.table.state("totals", spark=spark).toPandas().set_index("dest").sort_index()
    late = events[events["at"] >= "2013-01-08"].groupby("dest")
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW totals AS {ready.table.state_sql('totals', None, spark)}"
    )
    assert spark.table("totals").schema == ready.table.state("totals", spark=spark).schema
    viewed = spark.table("totals").toPandas().set_index("dest").sort_index()
    pd.testing.assert_frame_equal(viewed, whole)
    spark.catalog.dropTempView("totals")
    before = ready.table.state("totals", 1, spark).toPandas().set_index("dest")
    trips = before["trips"].add(late.size(), fill_value=0).sort_index()
    assert whole["trips"].tolist() == trips.tolist()
    with pytest.raises(InputError, match="no state table 'total'. Known: totals"):
        ready.table.state("total")


def test_one_row_a_key_whatever_a_struct_names_its_fields(spark):
    odd = "named_struct('order id', 7L, 'a.b', array('x'))"
    spark.sql(f"SELECT 0 AS channel, 5 AS slot, 'a' AS `the key`, {odd} AS `the row`").union(
        spark.sql(f"SELECT 1, 5, 'a', {odd}")
    ).createOrReplaceTempView("odd")
    columns = {"the row": {"merge": "copy", "of": "x"}}
    table = StateTable.model_construct(
        path="", columns={"the row": StateColumn(**columns["the row"])}
    )
    key = (KeyColumn("the key", "string"),)
    (h,) = key_hash([["a"]], ["string"]).tolist()
    both = successor(
        key, None, numbered_channels(2), np.zeros(64, int), "x", split={h: {0: 1, 1: 1}}
    )
    rows = spark.table("odd").withColumn("slot", F.lit(h % 64))
    rows.createOrReplaceTempView("odd")
    (row,) = spark.sql(one_row_a_key("odd", kinds(rows.schema), table, both)).collect()
    assert row["the key"] == "a" and row["the row"].asDict() == {"order id": 7, "a.b": ["x"]}
    spark.catalog.dropTempView("odd")
