"""Learn from bad input: one line each, and nothing is changed."""

from __future__ import annotations

import shutil
from datetime import date

import numpy as np
import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.events.daily_sketches import Passes, sketch_days
from evenkeel_spark.events.reader import read_events
from evenkeel_spark.jobs import learn as job
from evenkeel_spark.jobs.learn import learn
from partitioning.errors import DamagedError, InputError
from partitioning.function.hashing import KeyColumn
from tests.conftest import World
from tests.support.raw_json import read_json

pytestmark = pytest.mark.spark
STRING = (KeyColumn("dest", "string"),)


def test_a_delta_table_that_the_spec_reads_by_its_files_is_refused(
    spark: SparkSession, ready: World
) -> None:
    """Files of rows that Delta has removed stay for days, and would count."""
    orders = ready.folder / "orders"
    shutil.copytree(ready.folder / "state/totals", orders)
    for path in ("", "/channel=0", "/channel=*", "/channel={0,1}/"):
        world = ready.respec(input={"path": f"orders{path}"}, key=["dest"])
        fix = f"Set input.path to {orders} and input" if path else "Set input"
        with pytest.raises(InputError, match=f"found a Delta table.*{fix}.format to delta"):
            read_events(spark, world.table.spec)


@pytest.mark.parametrize(
    ("file", "kind"),
    [("orders/.hoodie/hoodie.properties", "Hudi"), ("orders/metadata/v2.metadata.json", "Iceberg")],
)
def test_files_of_another_format_of_tables_are_refused(
    spark: SparkSession, world: World, file: str, kind: str
) -> None:
    """Files of rows that a table has replaced stay beside the others."""
    data = world.folder / "orders/data/day=1"
    data.mkdir(parents=True)
    shutil.copy(world.folder / "events.parquet", data)
    spec = world.respec(input={"path": "orders/data/day=*"}).table.spec
    assert read_events(spark, spec).columns
    (world.folder / file).parent.mkdir()
    (world.folder / file).touch()
    with pytest.raises(InputError, match=f"found a {kind} table.*Write its rows to a folder"):
        read_events(spark, spec)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), None])
def test_a_load_that_is_no_load(spark, world: World, bad):
    spec = world.respec(load="weight", input={"path": "x"}).table.spec
    frame = spark.createDataFrame([("a", 1.0), ("b", bad)], "dest string, weight double")
    with pytest.raises(InputError, match=r"1 events have a load \(weight\) that is null, negative"):
        sketch_days(frame, spec, Passes(STRING, 64, 0.01, np.empty(0, np.int64)))


def break_file(world: World) -> None:
    (world.folder / "events.parquet").write_bytes(b"PAR1 this was a table once PAR1")


def break_middle(world: World) -> None:
    # A footer that reads well over pages that do not.
    path = world.folder / "events.parquet"
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = b"\7" * (len(data) // 2 - 4)
    path.write_bytes(data)


def null_keys(world: World) -> None:
    events = world.events
    events.loc[3, "dest"] = None
    world.write_events(events)


def null_times(world: World) -> None:
    events = world.events
    events.loc[3, "at"] = None
    world.write_events(events)


@pytest.mark.parametrize(
    ("change", "end", "message"),
    [
        (
            None,
            "2014-01-01",
            "no events in the window from 2013-12-25 to 2014-01-01. Its days end before 2013-01-15",
        ),
        (
            lambda w: w.write_events(w.events.iloc[:0].astype({"dest": "string"})),
            None,
            "the input is empty",
        ),
        (lambda w: w.respec(key=["destination"]), None, "there is no column 'destination'"),
        (lambda w: w.respec(load="wait"), None, "there is no column 'wait'"),
        (
            lambda w: w.respec(input={"path": "gone.parquet", "time": "at"}),
            None,
            "there is no parquet input",
        ),
        (
            lambda w: w.respec(input={"path": "events.parquet", "format": "delta", "time": "at"}),
            None,
            "there is no delta input",
        ),
        (break_file, None, "not readable as parquet. Replace or remove the file"),
        (break_middle, "2013-01-08", "not readable as parquet. Replace or remove the file"),
        (null_times, "2013-01-08", "1 events have a null for their time (at)"),
        (null_keys, "2013-01-08", "1 events have a null in the key (dest)"),
        (
            lambda w: w.write_events(w.events.assign(dest=1)),
            None,
            "its key is (dest bigint), the current epoch's is (dest string)",
        ),
        (
            lambda w: w.respec(slots=96),
            "2013-01-08",
            "has slots = 64, the spec says 96, which is no multiple",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(spark, ready, capsys, change, end, message):
    if change:
        change(ready)
    arguments = ["--spec", ready.spec_path, "--run", "r1", *(["--end", end] if end else [])]
    assert job.main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line.startswith("evenkeel: error: ") for line in lines] == [True]
    assert message in lines[0]
    assert str(ready.folder) in lines[0]
    registry = ready.table.registry
    assert registry.store.names("runs/r1") == ["error.json"]
    left = read_json(registry.run("r1"), "error.json")
    assert (left["job"], left["exit_code"], left["retry"]) == ("learn", 2, False)
    assert lines[0] == f"evenkeel: error: {left['message']}"
    assert registry.numbers() == [0]


def test_a_torn_sketch_is_named(spark, ready: World):
    learn(spark, ready.table, date(2013, 1, 8))
    torn = next(ready.folder.glob("registry/sketches/*/2013-01-03.npz"))
    torn.write_bytes(torn.read_bytes()[:200])
    with pytest.raises(DamagedError, match=r"2013-01-03\.npz: cannot be read.*learn again"):
        learn(spark, ready.table, date(2013, 1, 8))
    learn(spark, ready.table, date(2013, 1, 8), relearn=True)
