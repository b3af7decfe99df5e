"""Bootstrap a second time: after a crash, two at once, and into a folder that is not empty."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime

import pandas as pd
import pytest

from evenkeel.registry.files.records import BootstrapRecord
from evenkeel_spark.jobs import bootstrap as job
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import commits, constraints, left_files, state, unfinished_table
from partitioning.errors import DamagedError, FenceError, InputError
from tests.chaos.home import bootstrapped, dag
from tests.conftest import World
from tests.support.cases.bootstrapped import END, expected, rows
from tests.support.state_tables import put_members

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
    with pytest.raises(FenceError, match=r"another job is making a table .* again in \d+ sec"):
        bootstrap(spark, table, END)
    # Its first tasks may last longer: on an object store, files are seen only at their end.
    long_ago = time.time() - unfinished_table.QUIET - 1
    for file in (f for f in log.parent.rglob("*") if f.is_file()):
        os.utime(file, (long_ago, long_ago))
    with pytest.raises(FenceError, match=r"another job is making a table .* again in \d+ sec"):
        bootstrap(spark, table, END)
    assert left == {p.name for p in log.parent.glob("channel=*/*.parquet")}

    told = table.registry.files.bootstrap
    old = datetime.fromtimestamp(long_ago, UTC).isoformat()
    told.write(told.read().model_copy(update={"time": old}))
    assert bootstrap(spark, table, END) is True
    want = expected(world.events[world.events["at"].dt.date < END])
    found = rows(spark, table.spec.state["totals"].path)
    assert (len(found), found["trips"].sum()) == (len(want), want["trips"].sum())
    assert not left & {p.name for p in log.parent.glob("channel=*/*.parquet")}


def test_a_job_that_slept_after_its_look_removes_no_table_that_was_made_since(spark, world):
    path = world.folder / "state/totals"
    part = path / "channel=0" / "part-00000-left.c000.snappy.parquet"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PAR1")
    found = left_files.unfinished(spark, str(path))
    assert found is not None and len(found.files) == 1
    # Another job does the same, and makes the table.
    left_files.remove_unfinished(spark, str(path), found)
    assert not path.exists()
    world.write_events(world.events)
    assert bootstrap(spark, world.table, END)
    files = sorted(p for p in path.rglob("*") if p.is_file())
    left_files.remove_unfinished(spark, str(path), found)
    assert sorted(p for p in path.rglob("*") if p.is_file()) == files
    assert not bootstrap(spark, world.table, END)


@pytest.mark.parametrize(
    "change",
    [
        {"channels": 5},
        {"input": {"path": "others.parquet", "time": "at"}},
        {"input": {"path": "events.parquet", "time": "then"}},
        {"null_keys": "drop"},
        {"null_times": "drop"},
    ],
    ids=str,
)
def test_half_made_state_of_another_bootstrap_is_not_completed(spark, world, monkeypatch, change):
    with monkeypatch.context() as patch:
        patch.setattr(constraints, "add", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            bootstrap(spark, world.table, END)
    events = world.events.assign(then=world.events["at"])
    events.to_parquet(world.folder / "others.parquet", coerce_timestamps="us")
    world.write_events(events)
    with pytest.raises(DamagedError, match=r"state/totals: holds state of another bootstrap"):
        bootstrap(spark, world.respec(**change).table, END)
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
        with commits.our_commit(spark, apply, 99_999, {"step": "apply_window"}) as own:
            own.sql(f"DELETE FROM {state.sql_name(path)} WHERE dest = 'D001'")
        wrong = "windows have been applied to it"
    before = state.table_version(spark, path)
    with pytest.raises(DamagedError, match=wrong) as error:
        bootstrap(spark, ready.table, END)
    assert "Correct `registry` in the spec (it was made with" in str(error.value)
    assert state.table_version(spark, path) == before
    assert ready.table.registry.numbers() == []


@pytest.mark.parametrize("split", [False, True], ids=["rows moved", "a key split"])
def test_a_table_of_a_later_epoch_is_not_bootstrapped_under_a_mistyped_registry(
    spark, tmp_path, split: bool
):
    """Where only a key is split, its rows stand as epoch 0 has them, too."""
    world = bootstrapped(spark, tmp_path / "world", both=False, split=split)
    assert dag(spark, world, "learn")
    path = world.table.spec.state["totals"].path
    stands, before = constraints.of(spark, path), state.table_version(spark, path)
    assert list(stands) == ["evenkeel_epoch_1"]
    with pytest.raises(DamagedError, match="is in use: has the constraint evenkeel_epoch_1"):
        bootstrap(spark, world.respec(registry="regisrty").table, END)
    assert constraints.of(spark, path) == stands
    assert state.table_version(spark, path) == before


def test_tables_that_disagree_on_slots(spark, ready: World):
    spec = ready.with_seen().table.spec
    spark.sql(
        f"CREATE TABLE delta.`{spec.state['seen'].path}` (x INT) USING delta "
        "TBLPROPERTIES ('evenkeel.table' = 'trips', 'evenkeel.slots' = '128')"
    )
    put_members(ready, "seen")
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


def test_a_table_whose_files_another_bootstrap_has_removed_is_told(
    spark, world: World, monkeypatch
):
    """It slept while it wrote, and woke when another one had cleared what seemed to be left."""
    table, real = world.table, job._create

    def emptied(*args):
        real(*args)
        for file in (world.folder / "state/totals").glob("channel=*/*"):
            file.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(job, "_create", emptied)
        with pytest.raises(DamagedError, match="files of the new table are gone"):
            bootstrap(spark, table, END)
    with pytest.raises(DamagedError, match="Remove the folder, and run this again"):
        bootstrap(spark, table, END)
    shutil.rmtree(world.folder / "state/totals")
    assert bootstrap(spark, table, END) is True
    assert rows(spark, table.spec.state["totals"].path)["trips"].sum() > 0


def test_tables_of_one_bootstrap_are_of_the_same_events(spark, world: World, monkeypatch):
    """It was killed between two tables, and late events came before it ran again."""
    real, table = job._create, world.with_seen().table

    def create_first(spark, spec, frame, names, *rest):
        real(spark, spec, frame, names[:1], *rest)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job, "_create", create_first)
        with pytest.raises(KeyboardInterrupt):
            bootstrap(spark, table, END)
    events = world.events
    world.write_events(pd.concat([events, events.head(1)]))
    with pytest.raises(DamagedError, match="from other events than there are now"):
        bootstrap(spark, table, END)
    assert table.registry.numbers() == []
    # The advice works.
    shutil.rmtree(world.folder / "state/totals")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert bootstrap(spark, table, END)
