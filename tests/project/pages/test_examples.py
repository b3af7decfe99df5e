"""The example specs are right and make tables, and their README lists each.

They are tried by the console, too, in a reader's installation.
"""

import re
import shutil
from datetime import date, timedelta

import pandas as pd
import pytest
import yaml

from evenkeel.runs.planning import plan_next
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.table import Table
from examples import made_up as script
from partitioning.function.hashing import KeyColumn, key_hash
from tests.support.docs.reader import HOW_TO, free_port
from tests.support.docs.steps import run
from tests.support.wheel import ROOT

SPECS = sorted((ROOT / "examples").glob("*.yaml"))

#: After the store and the Spark of the page on S3: examples/s3.yaml, as it stands.
EXAMPLE_ON_S3 = """
```python
# events.py
import pandas as pd

days = pd.date_range("2026-01-01", periods=14).date
sales = pd.DataFrame({"product": ["teapot", "kettle"] * 7, "quantity": range(14), "day": days})
sales.to_parquet("s3://lake/sales/part-0.parquet")
```
```python
# read.py
from pyspark.sql import SparkSession
import evenkeel

rows = evenkeel.open_table("s3").state("sales", spark=SparkSession.builder.getOrCreate())
print(sorted(map(tuple, rows.select("product", "units").collect())))
```
```sh
python events.py
export EVENKEEL_TABLES=$PWD
evenkeel job bootstrap --spec s3.yaml --end 2026-01-15
spark-submit read.py
python -c "import s3fs; print(s3fs.S3FileSystem().ls('lake/evenkeel/sales/epochs'))"
kill $(jobs -p)
```
```text
[('kettle', 49), ('teapot', 42)]
['lake/evenkeel/sales/epochs/00000000']
```
"""
#: Examples but that on S3.
EXAMPLES = ("dimension", "many_rows_a_key", "sales_daily", "sessions_streaming", "split_key")
EXAMPLES += ("thousand_channels",)


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


def example(name, folder):
    """The table of an example whose lake is a folder, its spec as it stands, and its events."""
    file = folder / f"{name}.yaml"
    file.write_text((ROOT / "examples" / file.name).read_text().replace("/data/", f"{folder}/"))
    given = yaml.safe_load(file.read_text())
    return Table(load_spec(file)), given, script.made_up(given)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", MADE)
def test_an_example_makes_its_tables(name, spark, tmp_path):
    from evenkeel_spark.jobs.bootstrap import bootstrap
    from evenkeel_spark.jobs.learn import learn

    table, given, events = example(name, tmp_path)
    script.write(spark, given, events)
    end = FIRST + timedelta(days=7)
    assert bootstrap(spark, table, end)
    grouped = events.groupby(table.spec.key)
    for state in table.spec.state:
        found = table.state(state).toPandas().set_index(table.spec.key).sort_index()
        columns = table.spec.state[state].columns
        for column, how in columns.items():
            if how.merge in FOLDS:
                expected = getattr(grouped[how.of] if how.of else grouped, FOLDS[how.merge])()
                values = found[column]
                if how.merge == "last":
                    # It is kept with its time, as a dict or a Row: with Arrow, or without.
                    values = values.map(lambda held: held["value"])
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

    table, given, orders = example("many_rows_a_key", tmp_path)
    script.write(spark, given, orders)
    profiles = orders.groupby("customer", as_index=False).agg(since=("ordered_at", "min"))
    adopt(spark, table)
    for name, before in (("orders", orders), ("profiles", profiles)):
        path = table.spec.state[name].path
        found = spark.read.format("delta").load(path).drop("slot", "channel").toPandas()
        by = list(before.columns)
        left, right = (f.sort_values(by).reset_index(drop=True) for f in (found[by], before))
        pd.testing.assert_frame_equal(left, right, check_dtype=False)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{table.spec.state['orders'].path}`").first()
    assert detail["partitionColumns"] == ["channel", "month"]
    profile, _ = learn(spark, table, FIRST + timedelta(days=7))
    assert profile.load.sum() == pytest.approx(orders["amount"].sum())


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_of_a_stream_meets_a_hot_user_in_a_stream(spark, tmp_path):
    from evenkeel_spark.jobs.bootstrap import bootstrap
    from evenkeel_spark.watching.streaming import stream

    table, given, events = example("sessions_streaming", tmp_path)
    script.write(spark, given, events)
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


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_the_example_on_s3_makes_its_table(reader, tmp_path):
    page, example = HOW_TO / "first-table-s3.md", tmp_path / "example.md"
    example.write_text(page.read_text().split("\n## 3. ")[0] + EXAMPLE_ON_S3)
    shutil.copy(ROOT / "examples" / "s3.yaml", tmp_path)
    run(example, tmp_path, {**reader.shell, "PORT": free_port()})


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_tried_as_its_page_says(name, reader, tmp_path):
    (tmp_path / "evenkeel").symlink_to(ROOT)
    folder = tmp_path / "empty"
    folder.mkdir()
    run(ROOT / "examples" / "README.md", folder, {**reader.shell, "NAME": name})


def test_the_readme_lists_each_example():
    text = (ROOT / "examples" / "README.md").read_text()
    assert set(re.findall(r"\]\((\w+\.yaml)\)", text)) == {file.name for file in SPECS}
    assert len(SPECS) == 7
