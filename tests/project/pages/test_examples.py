"""The example specs are right and make tables, and their README lists each.

The spec on S3 makes its table in tests/project/pages/test_how_to.py, where a reader's shell is.
"""

import re
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from evenkeel.runs.planning import plan_next
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.table import Table
from partitioning.function.function import KeyColumn
from partitioning.function.hashing import key_hash
from tests.support.wheel import ROOT

SPECS = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.stem)
def test_an_example_is_a_right_spec(file):
    assert load_spec(file).table == file.stem


FIRST = date(2026, 1, 1)
#: Pandas' name of each merge. A sketch is left out: pandas has none.
FOLDS = {
    "count": "size", "sum": "sum", "min": "min", "max": "max", "copy": "first", "last": "last",
}  # fmt: skip
#: Specs of state that Evenkeel makes from events, in folders.
MADE = ["dimension", "sales_daily", "sessions_streaming", "split_key", "thousand_channels"]


def made_up(spec, count=2000):
    """Events of a week with the columns that a spec names; the first key has half of them."""
    rng = np.random.default_rng(3)
    keys = np.where(rng.random(count) < 0.5, 0, rng.integers(1, 200, count))
    frame = pd.DataFrame({name: [f"{name} {k}" for k in keys] for name in spec.key})
    days = np.sort(rng.integers(0, 7, count))
    # No two events at one time, so that a key has one last event.
    seconds = days * 86_400 + np.arange(count)
    times = [datetime(2026, 1, 1) + timedelta(seconds=int(s)) for s in seconds]
    frame[spec.input.time] = [t.date() for t in times] if spec.input.time == "day" else times
    columns = [c for state in spec.state.values() for c in state.columns.values()]
    for name in sorted({c.of for c in columns if c.of} - {*frame}):
        frame[name] = rng.integers(1, 100, count)
    for name in {c.of for c in columns if c.merge == "copy"}:
        frame[name] = [f"{name} of {k}" for k in keys]
    if spec.split is not None:
        frame[spec.split.by] = [f"id {i}" for i in range(count)]
    return frame


def example(name, folder):
    """The table of an example whose lake is a folder."""
    file = folder / f"{name}.yaml"
    file.write_text((ROOT / "examples" / file.name).read_text().replace("/data/", f"{folder}/"))
    return Table(load_spec(file))


def write(spark, events, spec):
    """Write events where a spec reads them."""
    rows = spark.createDataFrame(events)
    rows.write.format(spec.input.format).save(spec.input.path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", MADE)
def test_an_example_makes_its_tables(name, spark, tmp_path):
    from evenkeel_spark.jobs.bootstrap import bootstrap
    from evenkeel_spark.jobs.learn import learn

    table = example(name, tmp_path)
    events = made_up(table.spec)
    write(spark, events, table.spec)
    end = FIRST + timedelta(days=7)
    assert bootstrap(spark, table, end)
    grouped = events.groupby(table.spec.key)
    for state in table.spec.state:
        found = table.state(state).toPandas().set_index(table.spec.key).sort_index()
        columns = table.spec.state[state].columns
        for column, how in columns.items():
            if how.merge in FOLDS:
                expected = getattr(grouped[how.of] if how.of else grouped, FOLDS[how.merge])()
                # A last value is kept with its time.
                values = found[column].str["value"] if how.merge == "last" else found[column]
                assert values.to_dict() == expected.to_dict()
        assert len(found) == len(grouped)
    # The next plan shares the heavy key where the spec says so, and no other.
    profile, _ = learn(spark, table, end)
    split, epoch = table.spec.split, table.epoch()
    row = split and KeyColumn(split.by, "string")
    made = plan_next(table.spec, table.registry, epoch, profile, Params(), {}, row)
    first = key_hash([[f"{table.spec.key[0]} 0"]], ["string"]).tolist()
    assert made.function.split.keys.tolist() == (first if split else [])


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_of_a_teams_own_tables_adopts_them(spark, tmp_path):
    from evenkeel_spark.adoption.adopt import adopt
    from evenkeel_spark.jobs.learn import learn

    table = example("many_rows_a_key", tmp_path)
    orders = made_up(table.spec)
    orders["day"] = orders["ordered_at"].dt.date
    orders["amount"] = np.where(orders["customer"] == "customer 0", 9.0, 1.0)
    write(spark, orders, table.spec)
    profiles = orders.groupby("customer", as_index=False).agg(since=("day", "min"))
    rows = spark.createDataFrame(profiles)
    rows.write.format("delta").save(table.spec.state["profiles"].path)
    adopt(spark, table)
    for name, before in (("orders", orders), ("profiles", profiles)):
        path = table.spec.state[name].path
        found = spark.read.format("delta").load(path).drop("slot", "channel").toPandas()
        by = list(before.columns)
        left, right = (f.sort_values(by).reset_index(drop=True) for f in (found[by], before))
        pd.testing.assert_frame_equal(left, right, check_dtype=False)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{table.spec.state['orders'].path}`").first()
    assert detail["partitionColumns"] == ["channel", "day"]
    profile, _ = learn(spark, table, FIRST + timedelta(days=7))
    assert profile.load.sum() == pytest.approx(orders["amount"].sum())


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_of_a_stream_meets_a_hot_user_in_a_stream(spark, tmp_path):
    from evenkeel_spark.jobs.bootstrap import bootstrap
    from evenkeel_spark.watching.streaming import stream

    table = example("sessions_streaming", tmp_path)
    events = made_up(table.spec)
    write(spark, events, table.spec)
    bootstrap(spark, table, FIRST + timedelta(days=7))
    before = clicks_of(table)
    for batch in range(1, 4):
        later = events.assign(
            at=events["at"] + timedelta(days=7 + batch), click_id=events["click_id"] + f" {batch}"
        )
        rows = spark.createDataFrame(later).coalesce(1)
        rows.write.format("delta").mode("append").save(table.spec.input.path)
    spec, checkpoint = tmp_path / "sessions_streaming.yaml", tmp_path / "checkpoint"
    stream(spark, table, str(spec), str(checkpoint), available_now=True, files=1)
    # One micro-batch a file: offsets of all are in the checkpoint.
    assert len([f for f in (checkpoint / "commits").iterdir() if f.name.isdigit()]) >= 4
    epoch = table.epoch()
    hot = key_hash([["user_id 0"]], ["string"]).tolist()
    assert epoch.number >= 1 and epoch.function.split.keys.tolist() == hot
    assert clicks_of(table) == before


def clicks_of(table):
    """Clicks of each user in the state."""
    found = table.state("sessions").select("user_id", "clicks").collect()
    return {row["user_id"]: row["clicks"] for row in found}


def test_the_readme_lists_each_example():
    text = (ROOT / "examples" / "README.md").read_text()
    assert set(re.findall(r"\]\((\w+\.yaml)\)", text)) == {file.name for file in SPECS}
    assert len(SPECS) == 7
