"""Bootstrap: state as pandas has it, and epoch 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evenkeel_spark.jobs import bootstrap as job
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import InputError
from partitioning.function.hashing import key_hash, slot_of
from tests.conftest import World
from tests.support.cases.bootstrapped import END, expected, rows
from tests.support.state_tables import put_members, spent_transaction

pytestmark = pytest.mark.spark


def test_state_is_what_pandas_says_and_lies_where_the_function_says(spark, ready: World):
    spec, epoch = ready.table.spec, ready.table.epoch()
    want = expected(ready.events[ready.events["at"].dt.date < END])
    path = spec.state["totals"].path
    found = rows(spark, path).set_index("dest").sort_index()
    assert (found["channel"] == epoch.lookup(found.index)).all()
    assert (found["slot"] == slot_of(key_hash([found.index], ["string"]), spec.slots)).all()
    assert len(found) == len(want)
    for column in ("first", "last"):
        found[column] = found[column].dt.tz_localize("UTC")
    for column in want:
        assert (found[column] == want[column]).all(), column
    rule = constraints.of(spark, path)
    assert list(rule) == ["evenkeel_epoch_0"]
    assert constraints.same_sql(rule["evenkeel_epoch_0"], constraints.rule(epoch.function))
    assert epoch.tables["totals"].version == state.table_version(spark, path)
    assert spark.read.format("delta").load(path).schema.simpleString() == (
        "struct<channel:int,slot:int,dest:string,"
        "trips:bigint,miles:bigint,first:timestamp,last:timestamp>"
    )


def test_a_channel_is_one_file_sorted_by_slot(ready: World):
    assert ready.table.spec.state
    for part in ready.table.spec.state.values():
        files = sorted(Path(part.path).glob("channel=*/*.parquet"))
        assert len(files) == len({f.parent for f in files}) == 4
        for file in files:
            slots = pq.ParquetFile(file).read()["slot"].to_pylist()
            assert slots and slots == sorted(slots)


def test_a_writer_with_a_stale_function_is_refused(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    wrong = (
        spark.read.format("delta")
        .load(path)
        .limit(1)
        .selectExpr("(channel + 1) % 4 channel", "* except (channel)")
    )
    with pytest.raises(Exception, match="evenkeel_epoch_0"):
        wrong.write.format("delta").mode("append").save(path)


def test_a_second_run_changes_nothing(spark, ready: World):
    table = ready.table
    before = {n: state.table_version(spark, s.path) for n, s in table.spec.state.items()}
    assert bootstrap(spark, table, END) is False
    assert before == {n: state.table_version(spark, s.path) for n, s in table.spec.state.items()}
    assert table.registry.numbers() == [0]


def test_without_end_state_begins_empty(spark, world: World):
    assert bootstrap(spark, world.table) is True
    path = world.table.spec.state["totals"].path
    assert rows(spark, path).empty
    assert spent_transaction(spark, path, "evenkeel/trips/windows") is None
    assert list(constraints.of(spark, path)) == ["evenkeel_epoch_0"]


def with_null(world: World) -> World:
    events = world.events
    events.loc[[0, 5], "dest"] = None
    return world.write_events(events)


def test_null_keys_are_refused_before_anything_is_made(spark, world: World):
    with pytest.raises(InputError, match=r"2 events have a null in the key \(dest\)"):
        bootstrap(spark, with_null(world).table, END)
    assert not (world.folder / "state").exists()
    assert not (world.folder / "registry").exists()


def test_events_without_a_time_are_refused_or_left_out(spark, world: World):
    events = world.events
    events.loc[events.index[:3], "at"] = None
    world.write_events(events)
    with pytest.raises(InputError, match=r"3 events have a null for their time \(at\)"):
        bootstrap(spark, world.table, END)
    assert not (world.folder / "state").exists()
    table = world.respec(null_times="drop").table
    bootstrap(spark, table, END)
    found = rows(spark, table.spec.state["totals"].path)
    assert found["trips"].sum() == (events["at"] < f"{END}").sum()


def test_null_keys_that_are_kept_are_one_key(spark, world: World):
    table = with_null(world).respec(null_keys="keep").table
    bootstrap(spark, table, END)
    found = rows(spark, table.spec.state["totals"].path)
    assert found.loc[found["dest"].isna(), "trips"].tolist() == [2]
    assert (found["channel"] == table.epoch().lookup(found["dest"])).all()


def test_csv_keys_stay_as_they_are_written(spark, world: World):
    Path(world.folder / "events.csv").write_text(
        "dest,at,miles\n007,2013-01-01T05:00:00Z,5\n7,2013-01-02T05:00:00Z,6\n"
    )
    world.respec(input={"path": "events.csv", "format": "csv", "time": "at"})
    bootstrap(spark, world.table, END)
    found = rows(spark, world.table.spec.state["totals"].path)
    assert dict(zip(found["dest"], found["miles"], strict=True)) == {"007": 5, "7": 6}


@pytest.mark.parametrize("header", ["dest,at,price,miles", "dest,at,miles"])
@pytest.mark.parametrize("days", [("", ""), ("day=1", "day=2")], ids=["flat", "in folders"])
def test_csv_files_whose_columns_are_in_another_order_are_refused(
    spark, world: World, capsys, days: tuple[str, str], header: str
):
    """By their place, miles of one file would be prices of the other."""
    folder = world.folder / "events"
    for day in days:
        (folder / day).mkdir(parents=True, exist_ok=True)
    values = ["D1", "2013-01-02T06:00:00Z", "70", "5"][: len(header.split(","))]
    (folder / days[0] / "1.csv").write_text("dest,at,miles,price\nD1,2013-01-02T05:00:00Z,5,70\n")
    (folder / days[1] / "2.csv").write_text(f"{header}\n{','.join(values)}\n")
    world.respec(input={"path": "events", "format": "csv", "time": "at"})
    assert job.main(["--spec", world.spec_path, "--end", "2013-01-08"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert re.search(r"/events/(day=\d/)?[12]\.csv: its header is not", line)
    assert not (world.folder / "state").exists()


@pytest.mark.parametrize("end", [",1", "", ",1,2,3"])
def test_a_csv_line_that_is_cut_off_is_refused(spark, world: World, capsys, end: str):
    """The price is not read. Its place tells all the same that the miles may be cut off."""
    whole = "dest,at,miles,price\nD1,2013-01-02T05:00:00Z,5,70\n"
    (world.folder / "events.csv").write_text(f"{whole}D1,2013-01-02T05:00:00Z{end}")
    world.respec(input={"path": "events.csv", "format": "csv", "time": "at"})
    assert job.main(["--spec", world.spec_path, "--end", "2013-01-08"]) == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert "not readable as csv" in said
    assert not (world.folder / "state").exists()


def test_main_names_both_tables_that_disagree_on_slots(spark, ready: World, capsys):
    spec = ready.with_seen().table.spec
    spark.sql(
        f"CREATE TABLE delta.`{spec.state['seen'].path}` (x INT) USING delta "
        "TBLPROPERTIES ('evenkeel.table' = 'trips', 'evenkeel.slots' = '128')"
    )
    put_members(ready, "seen")
    before = {n: state.table_version(spark, s.path) for n, s in spec.state.items()}
    assert job.main(["--spec", ready.spec_path, "--end", "2013-01-08"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("evenkeel: error: ")
    for name, count in (("totals", 64), ("seen", 128)):
        assert f"{name} ({spec.state[name].path}) {count}" in line
    assert before == {n: state.table_version(spark, s.path) for n, s in spec.state.items()}
    assert ready.table.registry.numbers() == [0]


@pytest.fixture
def lenient(spark) -> Iterator[None]:
    """A cluster may have set that files which cannot be read are left out."""
    names = [f"spark.sql.files.ignore{kind}Files" for kind in ("Corrupt", "Missing")]
    for name in names:
        spark.conf.set(name, "true")
    yield
    for name in names:
        spark.conf.unset(name)


@pytest.mark.parametrize("null_keys", ["refuse", "keep"])
@pytest.mark.parametrize("kind", ["parquet", "pages", "csv"])
def test_an_unreadable_input_is_one_line_and_makes_nothing(
    spark, lenient, world: World, capsys, kind: str, null_keys: str
):
    path = world.folder / "events.parquet"
    if kind == "csv":
        path = world.folder / "events.csv"
        good = "".join(f"D{i},2013-01-02T05:00:00Z,{i}\n" for i in range(50))
        path.write_text(f"dest,at,miles\n{good}D1,2013-01-02T05:00:00Z,5,too,many\n")
        world.respec(input={"path": "events.csv", "format": "csv", "time": "at"})
    elif kind == "parquet":
        path.write_bytes(b"PAR1 this was a table once PAR1")
    else:
        # A footer that reads well over pages that do not.
        data = bytearray(path.read_bytes())
        data[4 : len(data) // 2] = b"\7" * (len(data) // 2 - 4)
        path.write_bytes(data)
    world.respec(null_keys=null_keys)
    assert job.main(["--spec", world.spec_path, "--end", "2013-01-08"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("evenkeel: error: ")
    assert "not readable as" in line
    assert path.name in line
    assert not (world.folder / "state").exists()
    assert not (world.folder / "registry").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": ["destination"]}, "no column 'destination' (key). Its columns: dest, at, miles"),
        ({"key": ["weight"]}, "column 'weight': type 'double' cannot be a key"),
        (
            {"input": {"path": "events.parquet", "time": "dest"}},
            "column 'dest' is string. Allowed: date or timestamp",
        ),
        ({"input": {"path": "nothing.parquet", "time": "at"}}, "there is no parquet input"),
        ({"load": "at"}, "column 'at' is timestamp. Allowed: a number"),
    ],
)
def test_an_input_that_cannot_be_used(spark, world: World, capsys, changes, message):
    world.respec(**changes)
    assert job.main(["--spec", world.spec_path, "--end", "2013-01-08"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("evenkeel: error: ")
    assert message in lines[0]
    assert not (world.folder / "state").exists()
