"""Columns that come, go, and change their name and type while windows and epochs go on."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs import bootstrap as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.delta.preflight import check_tables
from partitioning.errors import InputError
from tests.chaos.home import RIVAL, RUN, dag
from tests.conftest import World
from tests.support.worlds.evolved import COLUMNS, INTENT, OTHERS
from tests.support.worlds.windows import day, rows, typed, versions

pytestmark = pytest.mark.spark


def types(spark: SparkSession, world: World) -> dict[str, str]:
    path = world.table.spec.state["totals"].path
    return {c.name: c.dataType.simpleString() for c in state.schema(spark, path)}


@pytest.mark.slow
def test_columns_change_while_windows_and_epochs_go_on(spark, ready: World):
    before, old = versions(spark, ready), rows(spark, ready, "totals")
    ready.with_columns(OTHERS)
    planned = evolve(spark, ready.table, INTENT, dry_run=True)
    assert versions(spark, ready) == before
    assert [(c.kind, c.column) for c in planned] == [
        (Kind.rename_column, "flown"),
        (Kind.drop_column, "first"),
        (Kind.add_column, "least"),
        (Kind.add_column, "newest"),
        (Kind.add_column, "each"),
    ]
    assert evolve(spark, ready.table, INTENT) == planned
    now = rows(spark, ready, "totals")
    assert (now["flown"] == old["miles"]).all() and (now["last"] == old["last"]).all()
    assert now[["least", "newest", "each"]].isna().all().all() and "first" not in now
    done = versions(spark, ready)
    assert evolve(spark, ready.table, INTENT) == [] and versions(spark, ready) == done

    apply_window(spark, ready.table, day(8), day(9))
    assert dag(spark, ready, "learn", RUN) and ready.table.epoch().number == 1

    # The input gets a wider type, and values that need it.
    events = ready.events
    late = events["at"] >= "2013-01-09"
    events["miles"] = events["miles"].astype("int64") + late * 2**33
    ready.write_events(events)
    widened = evolve(spark, ready.table, Intent.of())
    assert [(c.kind, c.column) for c in widened] == [
        (Kind.widen_column, "least"),
        (Kind.widen_column, "newest"),
        (Kind.widen_column, "each"),
    ]
    assert types(spark, ready) == {
        **{"channel": "int", "slot": "int", "dest": "string", "trips": "bigint"},
        **{"flown": "bigint", "last": "timestamp", "least": "bigint"},
        **{"newest": "struct<at:timestamp,value:bigint>", "each": "array<bigint>"},
    }
    assert evolve(spark, ready.table, Intent.of()) == []
    apply_window(spark, ready.table, day(9), day(11))
    assert dag(spark, ready, "learn", RIVAL) and ready.table.epoch().number == 2

    counted = events[events["at"] < "2013-01-11"]
    seen = counted[counted["at"] >= "2013-01-08"].groupby("dest")["miles"]
    now = ready.table.state("totals", spark=spark).toPandas().set_index("dest").sort_index()
    assert (now["trips"] == counted.groupby("dest").size()).all()
    assert (now["flown"] == counted.groupby("dest")["miles"].sum()).all()
    least = now["least"].dropna().astype("int64")
    assert least.to_dict() == seen.min().to_dict() and least.max() > 2**33
    sets = now["each"].dropna()
    assert {k: set(v) for k, v in sets.items()} == seen.agg(set).to_dict()
    then = events[events["at"] < "2013-01-09"]["dest"].nunique()
    assert ready.table.state("totals", 1, spark).count() == then
    with pytest.raises(InputError, match="epoch 0 has no column 'flown': it came, or got its name"):
        ready.table.state("totals", 0, spark)
    with pytest.raises(InputError, match="epoch 0 has no state table 'seen': it has totals"):
        ready.with_seen().table.state("seen", 0, spark)


def test_a_column_that_somebody_has_added_by_hand_is_taken_up(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (least SMALLINT)")
    spark.sql(f"UPDATE delta.`{path}` SET least = 0 WHERE dest = 'D000'")
    ready.with_columns({**COLUMNS, "least": {"merge": "min", "of": "miles"}})
    found = evolve(spark, ready.table, Intent.of())
    assert [c.kind for c in found] == [Kind.add_column, Kind.widen_column]
    assert "there already" in found[0].meaning and types(spark, ready)["least"] == "int"
    apply_window(spark, ready.table, day(8), day(9))
    least = rows(spark, ready, "totals")["least"].dropna()
    assert least["D000"] == 0 and (least.drop("D000") > 0).all()


def test_a_column_in_other_letters_is_in_the_way(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (Least INT)")
    before = versions(spark, ready)
    ready.with_columns({**COLUMNS, "least": {"merge": "min", "of": "miles"}})
    with pytest.raises(InputError, match="cannot add column 'least': there is one of this name"):
        evolve(spark, ready.table, Intent.of())
    assert versions(spark, ready) == before


def test_a_table_of_an_early_version_is_told_by_its_columns(spark, ready: World):
    path = ready.table.spec.state["totals"].path
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{COLUMNS_PROPERTY}')")
    ready.with_columns(OTHERS)
    assert len(evolve(spark, ready.table, INTENT)) == 5
    check_tables(spark, ready.table.spec)
    assert evolve(spark, ready.table, INTENT) == []
    assert isinstance(rows(spark, ready, "totals")["flown"], pd.Series)


def test_a_type_that_holds_all_that_events_make_stays(spark, ready: World):
    events = ready.events
    ready.write_events(events.assign(miles=events["miles"].astype("int16")))
    ready.with_columns(COLUMNS)
    assert evolve(spark, ready.table, Intent.of()) == []


@pytest.mark.parametrize(
    ("merge", "before", "later"),
    [
        ("sum", "double", "int"),
        ("sum", "decimal(10,4)", "decimal(10,2)"),
        ("max", "timestamp", "date"),
    ],
)
def test_a_type_that_windows_accept_stays(spark, world: World, merge: str, before: str, later: str):
    """Delta cannot widen one to the other, and needs not: the table's type holds each value."""
    found = {"x": {"merge": merge, "of": "x"}}
    world.with_columns(found)
    typed(spark, world, before)
    job.bootstrap(spark, world.table, day(8))
    kept = types(spark, world)["x"]
    typed(spark, world, later)
    world.with_columns({**found, "trips": {"merge": "count"}})
    (added,) = evolve(spark, world.table, Intent.of())
    assert (added.kind, added.column) == (Kind.add_column, "trips")
    assert types(spark, world)["x"] == kept
    apply_window(spark, world.table, day(8), day(9))


def test_the_job_says_what_it_does(spark: SparkSession, ready: World, capsys):
    more = {**COLUMNS, "least": {"merge": "min", "of": "miles"}}
    given = ["--spec", ready.with_columns(more).spec_path, "--evolve"]
    before = versions(spark, ready)
    assert job.main([*given, "--dry-run", "--format=json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["table"], told["epoch"], told["dry_run"]) == ("trips", 0, True)
    (change,) = told["changes"]
    assert (change["change"], change["table"], change["column"]) == (
        "add column",
        "totals",
        "least",
    )
    assert job.main([*given, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "add column" in said and "1 changes would be made; nothing was changed" in said
    assert versions(spark, ready) == before
    assert job.main(given) == 0
    assert "1 changes made" in capsys.readouterr().out and versions(spark, ready) != before
    assert job.main([*given, "--format=table"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    for option, wrong in (
        (["--drop=totals.least"], "--drop: goes"),
        (["--dry-run"], "--dry-run: goes"),
    ):
        assert job.main(["--spec", ready.spec_path, *option]) == 2
        assert f"{wrong} with --evolve alone" in capsys.readouterr().err
    assert job.main([*given, "--end", "2013-01-08"]) == 2
    assert "--end: does not go with --evolve" in capsys.readouterr().err


def test_a_column_that_a_given_up_call_has_added_can_be_dropped(
    spark: SparkSession, ready: World, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ready.table.spec.state["totals"].path
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (most double)")
    asked = ["--spec", ready.spec_path, "--evolve", "--drop", "totals.most"]
    assert evolve(spark, ready.table, Intent.of()) == []
    assert job.main(asked) == 0 and "1 changes made" in capsys.readouterr().out
    assert "most" not in state.schema(spark, path).names
    assert job.main([*asked, "--drop", "totals.slot"]) == 0
    said = capsys.readouterr().out
    assert "--drop totals.most: there is nothing of this name" in said and "totals.slot" in said
    assert "slot" in state.schema(spark, path).names
