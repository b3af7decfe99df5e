"""Windows that cannot be applied: one line each, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.registry.epochs import Registry
from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import main as bootstrap_main
from evenkeel_spark.runtime import retry
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.windows import window_merge
from partitioning.errors import FenceError, InputError
from tests.conftest import SPEC, World
from tests.support.state_tables import drop_constraint
from tests.support.worlds.windows import (
    day,
    split,
    versions,
)

pytestmark = pytest.mark.spark


def test_a_row_column_of_another_type_is_refused(spark, ready: World):
    """It would split a window that is applied again in another way."""
    split(spark, ready, {"D000": 2})
    before = versions(spark, ready)
    for change, message in (
        (lambda e: e.assign(miles=e["miles"].astype("int64")), "is bigint, keys are split by it"),
        (lambda e: e.drop(columns="miles"), "column 'miles', by which keys are split, found none"),
    ):
        ready.write_events(change(ready.events))
        with pytest.raises(InputError, match=message):
            apply_window(spark, ready.table, day(8), day(10))
    assert versions(spark, ready) == before


def with_columns(**columns) -> dict:
    return {"totals": {**SPEC["state"]["totals"], "columns": columns}}


COLUMNS = SPEC["state"]["totals"]["columns"]
MAXIMA = {**COLUMNS, "miles": {"merge": "max", "of": "miles"}}
RENAMED = {"flown" if name == "miles" else name: c for name, c in COLUMNS.items()}
LESS = {name: c for name, c in COLUMNS.items() if name != "miles"}
EVOLVE = "run `evenkeel evolve TABLE`, which changes the tables"
NEW_NAME = "For another merge, add a column of a new name"


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    ("columns", "message", "cure"),
    [
        (MAXIMA, "column 'miles' was made by merge sum, the spec says max", NEW_NAME),
        (RENAMED, "there is no state column 'flown', which the spec makes by sum", EVOLVE),
        (LESS, "column 'miles' was made by merge sum, the spec has no such column", EVOLVE),
    ],
)
def test_state_columns_are_those_of_bootstrap(spark, ready: World, columns, message, cure, kept):
    path = ready.table.spec.state["totals"].path
    if not kept:
        spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{COLUMNS_PROPERTY}')")
    before = versions(spark, ready)
    ready.respec(state=with_columns(**columns))
    # A table that was made before the property is known by the names of its columns.
    if not kept and columns is not RENAMED:
        check_tables(spark, ready.table.spec)
        return
    with pytest.raises(InputError, match=message) as error:
        apply_window(spark, ready.table, day(8), day(10))
    assert f"totals ({path})" in str(error.value)
    assert cure in str(error.value)
    assert versions(spark, ready) == before
    ready.respec(state=with_columns(**COLUMNS))
    apply_window(spark, ready.table, day(8), day(10))


def test_a_state_table_added_after_bootstrap_is_told_what_to_do(spark, ready: World, capsys):
    """Not to bootstrap, which would say the same."""
    before, wrong = versions(spark, ready), ready.with_seen().table.spec.state["seen"].path
    for main, given in (
        (job.main, ["--start", "2013-01-08", "--end", "2013-01-10"]),
        (bootstrap_main, ["--end", "2013-01-08"]),
    ):
        assert main(["--spec", ready.spec_path, *given]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert f"seen ({wrong}): epoch 0 knows no state table 'seen'" in line
        assert "run `evenkeel evolve trips`, which makes it" in line
    moved = {**SPEC["state"]["totals"], "path": "state/elsewhere"}
    with pytest.raises(InputError, match=r"elsewhere: holds no state .* 'totals' is known at"):
        check_tables(spark, ready.respec(state={"totals": moved}).table.spec)
    assert versions(spark, ready.respec(state=SPEC["state"])) == before
    assert not Path(wrong).exists()


def test_a_table_without_deletion_vectors_is_refused_before_anything(spark, ready: World, capsys):
    path = ready.table.spec.state["totals"].path
    off = f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
    spark.sql(off)
    before = versions(spark, ready)
    arguments = ["--spec", ready.spec_path, "--start", "2013-01-08", "--end", "2013-01-10"]
    assert job.main(arguments) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"totals ({path}): its deletion vectors are off" in line
    assert versions(spark, ready) == before
    # What to do is told as SQL.
    spark.sql(line[line.index("ALTER TABLE") :])
    assert job.main(arguments) == 0


def no_new_events(world: World) -> None:
    world.write_events(world.events[world.events["at"] < "2013-01-08"])


def null_keys(world: World) -> None:
    events = world.events
    events.loc[events.index[-2:], "dest"] = None
    world.write_events(events)


def null_times(world: World) -> None:
    events = world.events
    events.loc[events.index[:3], "at"] = None
    world.write_events(events)


def edited_epoch(world: World) -> None:
    file = world.folder / "registry/epochs/00000000/epoch.json"
    file.write_text(file.read_text().replace("consistent", "uniform"))


@pytest.mark.parametrize(
    ("change", "end", "message"),
    [
        (edited_epoch, "2013-01-20", "epoch.json"),
        (no_new_events, "2013-02-01", "no events in the window from 2013-01-08 to 2013-02-01"),
        (null_keys, "2013-02-01", "2 events have a null in the key (dest)"),
        (null_times, "2013-02-01", "3 events have a null for their time (at)"),
        (
            lambda w: w.respec(input={"path": "events.parquet"}),
            "2013-01-20",
            "input.time is not set",
        ),
        (
            lambda w: w.write_events(w.events.drop(columns="miles")),
            "2013-01-20",
            "no column 'miles'",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(spark, ready, capsys, change, end, message):
    change(ready)
    before = versions(spark, ready)
    assert job.main(["--spec", ready.spec_path, "--start", "2013-01-08", "--end", end]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line.startswith("evenkeel: error: ") for line in lines] == [True]
    assert message in lines[0]
    assert versions(spark, ready) == before
    assert not (ready.folder / "registry" / "windows").exists()


def test_refused_while_a_migration_is_under_way(spark, ready: World):
    function = ready.table.epoch().function
    path = ready.table.spec.state["totals"].path
    rule = constraints.rule(function, function)
    constraints.add(spark, path, constraints.moving_name(1), rule)
    before = versions(spark, ready)
    both = "has the constraint evenkeel_epoch_0, evenkeel_moving_1"
    with pytest.raises(FenceError, match=both) as error:
        apply_window(spark, ready.table, day(8), day(10))
    # Airflow tries it again: the migration may have ended by then.
    assert error.value.retry
    assert versions(spark, ready) == before
    drop_constraint(spark, path, constraints.epoch_name(0))
    with pytest.raises(FenceError, match="A migration .*is under way") as error:
        apply_window(spark, ready.table, day(8), day(10))
    assert error.value.retry
    constraints.add(spark, path, constraints.epoch_name(1), rule)
    drop_constraint(spark, path, constraints.moving_name(1))
    with pytest.raises(FenceError, match="has the constraint evenkeel_epoch_1, exp") as error:
        apply_window(spark, ready.table, day(8), day(10))
    assert error.value.retry
    drop_constraint(spark, path, constraints.epoch_name(1))
    with pytest.raises(FenceError, match="has the constraint no constraint") as error:
        apply_window(spark, ready.table, day(8), day(10))
    assert not error.value.retry


def test_a_concurrent_write_is_one_line(spark, ready: World, capsys, monkeypatch):
    path = ready.table.spec.state["totals"].path

    def meddle(*args):
        # Between Delta's snapshot and its commit there is no hook: its own exception is raised.
        from delta.exceptions.captured import ConcurrentAppendException

        raise ConcurrentAppendException(f"Files were added to {path}\nmore", "", None)

    monkeypatch.setattr(window_merge, "of_table", meddle)
    monkeypatch.setattr(retry, "PATIENCE_SECONDS", 0.0)
    arguments = ["--spec", ready.spec_path, "--start", "2013-01-08", "--end", "2013-01-10"]
    assert job.main(arguments) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert "other writers were first 1 times" in error[0]
    assert "Run this step again when they are quieter" in error[0]


def test_no_window_before_bootstrap(spark, world: World, capsys):
    arguments = ["--spec", world.spec_path, "--start", "2013-01-08", "--end", "2013-01-10"]
    assert job.main(arguments) == 2
    assert "holds no state table. Run bootstrap" in capsys.readouterr().err
    assert Registry(str(world.folder / "registry")).numbers() == []
    assert not Path(world.folder / "state").exists()
