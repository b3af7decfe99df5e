"""Bootstrap: state as pandas has it, epoch 0, and what a crash or a wrong folder leaves."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from evenkeel.registry.files.records import BootstrapRecord
from evenkeel_spark.jobs import bootstrap as job
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import commits, constraints, state
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function.hashing import key_hash, slot_of
from tests.conftest import World
from tests.support.state_tables import spent_transaction

pytestmark = pytest.mark.spark
END = date(2013, 1, 8)


def rows(spark, path: str) -> pd.DataFrame:
    return spark.read.format("delta").load(path).toPandas()


def expected(events: pd.DataFrame) -> pd.DataFrame:
    grouped = events.groupby("dest")
    return pd.DataFrame(
        {
            "trips": grouped.size(),
            "miles": grouped["miles"].sum().astype("int64"),
            "first": grouped["at"].min(),
            "last": grouped["at"].max(),
        }
    )


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


@pytest.mark.parametrize("broken", ["writing", "constraining", "publishing"])
def test_a_crash_is_completed_by_the_next_run(spark, world: World, monkeypatch, broken: str):
    real_create, real_add = job._create, constraints.add

    def create_first(spark, spec, frame, names, *rest):
        real_create(spark, spec, frame, names[:1], *rest)
        raise KeyboardInterrupt

    def add_first(*args):
        real_add(*args)
        raise KeyboardInterrupt

    def fail(*args):
        raise KeyboardInterrupt

    table = (world.with_seen() if broken == "writing" else world).table
    with monkeypatch.context() as patch:
        if broken == "writing":
            patch.setattr(job, "_create", create_first)
        elif broken == "constraining":
            patch.setattr(constraints, "add", add_first)
        else:
            patch.setattr(type(table.registry), "publish", fail)
        with pytest.raises(KeyboardInterrupt):
            bootstrap(spark, table, END)
    assert table.registry.numbers() == []
    assert bootstrap(spark, table, END) is True
    want = expected(world.events[world.events["at"].dt.date < END])
    for name, part in table.spec.state.items():
        found = rows(spark, part.path)
        assert len(found) == len(want)
        assert name == "seen" or found["trips"].sum() == want["trips"].sum()
        assert list(constraints.of(spark, part.path)) == ["evenkeel_epoch_0"]


def test_a_crash_inside_the_write_is_completed(spark, world: World, monkeypatch):
    """Parts without a commit: what a process that ends in the middle of a write leaves."""
    table, real = world.table, job._create
    log = world.folder / "state/totals/_delta_log"

    def uncommitted(*args):
        real(*args)
        for file in (f for f in log.iterdir() if f.is_file()):
            file.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job, "_create", uncommitted)
        with pytest.raises(KeyboardInterrupt):
            bootstrap(spark, table, END)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    left = {p.name for p in log.parent.glob("channel=*/*.parquet")}
    assert len(left) == 4
    marker = world.folder / "registry/bootstrap.json"
    kept = marker.read_bytes()
    # Not without the marker, nor where something else lies with them.
    marker.unlink()
    with pytest.raises(InputError, match="not a Delta table"):
        bootstrap(spark, table, END)
    assert not marker.exists()
    marker.write_bytes(kept)
    (log.parent / "channel=0" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not a Delta table"):
        bootstrap(spark, table, END)
    (log.parent / "channel=0" / "notes.txt").unlink()

    # Another one may still be writing them.
    with pytest.raises(FenceError, match=r"another bootstrap is writing here, .* again in \d+ sec"):
        bootstrap(spark, table, END)
    assert left == {p.name for p in log.parent.glob("channel=*/*.parquet")}

    monkeypatch.setattr(job, "QUIET", 0)
    assert bootstrap(spark, table, END) is True
    want = expected(world.events[world.events["at"].dt.date < END])
    found = rows(spark, table.spec.state["totals"].path)
    assert (len(found), found["trips"].sum()) == (len(want), want["trips"].sum())
    assert not left & {p.name for p in log.parent.glob("channel=*/*.parquet")}


@pytest.mark.parametrize("at", ["creating", "writing", "constraining", "publishing"])
def test_the_second_of_two_at_once_ends_well(spark, world: World, monkeypatch, at: str):
    """The first one completes while the second is about to do the very same."""
    table, waiting = world.table, [True]

    def after_the_other(real):
        def meet(*args, **kwargs):
            if waiting:
                waiting.clear()
                assert bootstrap(spark, world.table, END) is True
            return real(*args, **kwargs)

        return meet

    where, name = {
        "creating": (job, "_create"),
        "writing": (job, "of_table"),
        "constraining": (constraints, "add"),
        "publishing": (type(table.registry), "publish"),
    }[at]
    monkeypatch.setattr(where, name, after_the_other(getattr(where, name)))
    bootstrap(spark, table, END)
    assert not waiting
    assert table.registry.numbers() == [0]
    want = expected(world.events[world.events["at"].dt.date < END])
    assert rows(spark, table.spec.state["totals"].path)["trips"].sum() == want["trips"].sum()


def test_of_two_different_at_once_one_ends_in_one_line(spark, world, monkeypatch, capsys):
    real, waiting = job._create, [True]

    def meet(*args):
        if waiting:
            waiting.clear()
            with monkeypatch.context() as patch:
                patch.setattr(type(world.table.registry), "publish", lambda *_: None)
                bootstrap(spark, world.table, None)
        return real(*args)

    monkeypatch.setattr(job, "_create", meet)
    assert job.main(["--spec", world.spec_path, "--end", "2013-01-08"]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("evenkeel: error: ")
    assert "holds state of another bootstrap" in line
    assert rows(spark, world.table.spec.state["totals"].path).empty


def test_two_threads_at_once(spark, world: World):
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(bootstrap, spark.newSession(), world.table, END) for _ in range(2)]
    errors = [d.exception() for d in done if d.exception() is not None]
    assert len(errors) < 2
    assert all(isinstance(e, FenceError) for e in errors)
    assert world.table.registry.numbers() == [0]
    want = expected(world.events[world.events["at"].dt.date < END])
    found = rows(spark, world.table.spec.state["totals"].path)
    assert found["trips"].sum() == want["trips"].sum()


def test_without_end_state_begins_empty(spark, world: World):
    assert bootstrap(spark, world.table) is True
    path = world.table.spec.state["totals"].path
    assert rows(spark, path).empty
    assert spent_transaction(spark, path, "evenkeel/trips/windows") is None
    assert list(constraints.of(spark, path)) == ["evenkeel_epoch_0"]


def test_half_made_state_of_another_bootstrap_is_not_completed(spark, world, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(constraints, "add", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            bootstrap(spark, world.table)
    with pytest.raises(DamagedError, match=r"state/totals: holds state of another bootstrap"):
        bootstrap(spark, world.respec(channels=5).table)
    assert world.table.registry.numbers() == []


@pytest.mark.parametrize("lost", ["mistyped", "epochs lost"])
def test_a_table_in_use_is_not_taken_for_a_half_made_one(spark, ready: World, lost: str):
    """Under a registry without epochs: its name is wrong, or its epochs are gone."""
    path, registry = ready.table.spec.state["totals"].path, ready.table.registry
    if lost == "mistyped":
        ready.respec(registry="regisrty")
        wrong = "a bootstrap of another registry made it"
    else:
        shutil.rmtree(ready.folder / "registry" / "epochs")
        registry.files.bootstrap.write(BootstrapRecord(state=[path]))
        apply = commits.app_id("trips", commits.WINDOWS)
        with commits.commit_session(spark, apply, 99_999, {"step": "apply_window"}) as own:
            own.sql(f"DELETE FROM {state.sql_name(path)} WHERE dest = 'D001'")
        wrong = "windows have been applied to it"
    before = state.table_version(spark, path)
    with pytest.raises(DamagedError, match=wrong) as error:
        bootstrap(spark, ready.table, END)
    assert "Correct `registry` in the spec (it was made with" in str(error.value)
    assert state.table_version(spark, path) == before
    assert ready.table.registry.numbers() == []


def test_tables_that_disagree_on_slots(spark, ready: World):
    spec = ready.with_seen().table.spec
    spark.sql(
        f"CREATE TABLE delta.`{spec.state['seen'].path}` (x INT) USING delta "
        "TBLPROPERTIES ('evenkeel.table' = 'trips', 'evenkeel.slots' = '128')"
    )
    with pytest.raises(InputError) as error:
        bootstrap(spark, ready.table, END)
    assert "disagree on the number of slots" in str(error.value)
    for name, count in (("totals", 64), ("seen", 128)):
        assert f"{name} ({spec.state[name].path}) {count}" in str(error.value)


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (
            lambda s, p: (p.mkdir(parents=True), (p / "notes.txt").write_text("mine")),
            "holds something that is not a Delta table",
        ),
        (
            lambda s, p: s.range(1).write.format("delta").save(str(p)),
            "holds a Delta table that is not Evenkeel's",
        ),
        (
            lambda s, p: s.sql(
                f"CREATE TABLE delta.`{p}` (x INT) USING delta "
                "TBLPROPERTIES ('evenkeel.table' = 'other')"
            ),
            "holds state of table 'other', not 'trips'",
        ),
    ],
)
def test_a_folder_that_holds_something_else_is_left_alone(spark, world, fill, message):
    path = world.folder / "state" / "totals"
    fill(spark, path)
    before = sorted(p.name for p in path.rglob("*"))
    with pytest.raises(InputError, match=message) as error:
        bootstrap(spark, world.table, END)
    assert str(path) in str(error.value)
    assert sorted(p.name for p in path.rglob("*")) == before
    assert world.table.registry.numbers() == []


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


def test_main_names_both_tables_that_disagree_on_slots(spark, ready: World, capsys):
    spec = ready.with_seen().table.spec
    spark.sql(
        f"CREATE TABLE delta.`{spec.state['seen'].path}` (x INT) USING delta "
        "TBLPROPERTIES ('evenkeel.table' = 'trips', 'evenkeel.slots' = '128')"
    )
    before = {n: state.table_version(spark, s.path) for n, s in spec.state.items()}
    assert job.main(["--spec", ready.spec_path, "--end", "2013-01-08"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("evenkeel: error: ")
    for name, count in (("totals", 64), ("seen", 128)):
        assert f"{name} ({spec.state[name].path}) {count}" in line
    assert before == {n: state.table_version(spark, s.path) for n, s in spec.state.items()}
    assert ready.table.registry.numbers() == [0]


@pytest.mark.parametrize("null_keys", ["refuse", "keep"])
@pytest.mark.parametrize("kind", ["parquet", "pages", "csv"])
def test_an_unreadable_input_is_one_line_and_makes_nothing(
    spark, world: World, capsys, kind: str, null_keys: str
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
        ({"key": ["destination"]}, "no column 'destination'. Its columns: dest, at, miles"),
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
