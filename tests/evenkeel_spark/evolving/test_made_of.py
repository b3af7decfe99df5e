"""Inputs of a state column: others are refused, and other names of one are taken."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY
from evenkeel_spark.tables.delta import state
from partitioning.errors import InputError
from tests.conftest import SEEN, SPEC, World
from tests.support.worlds.evolved import COLUMNS
from tests.support.worlds.windows import day, rows, versions

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def made_of(**columns: Any) -> dict[str, Any]:
    return {**COLUMNS, **columns}


def extended(world: World) -> World:
    """Input columns that a spec could take for others: one is a copy of miles."""
    events = world.events
    more = {"price": events["miles"] + 1, "flown": events["miles"], "later": events["at"]}
    return world.write_events(events.assign(**more))


OTHERS = {
    "of": ({"miles": {"merge": "sum", "of": "miles"}}, {"miles": {"merge": "sum", "of": "price"}}),
    "by": (
        {"newest": {"merge": "last", "of": "miles"}},
        {"newest": {"merge": "last", "of": "miles", "by": "later"}},
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_input_of_the_same_type_is_refused(
    spark: SparkSession, ready: World, case: str
) -> None:
    was, now = OTHERS[case]
    evolve(spark, extended(ready).with_columns(made_of(**was)).table, Intent.of())
    before = versions(spark, ready)
    ready.with_columns(made_of(**now))
    for act in (
        lambda: learn(spark, ready.table, day(8)),
        lambda: apply_window(spark, ready.table, day(8), day(9)),
        lambda: evolve(spark, ready.table, Intent.of()),
    ):
        with pytest.raises(InputError, match="was made of .*, the spec says .*--same totals"):
            act()
    assert versions(spark, ready) == before


def test_an_input_with_another_name_is_taken_if_a_person_says_so(
    spark: SparkSession, ready: World
) -> None:
    extended(ready).with_columns(made_of(miles={"merge": "sum", "of": "flown"}))
    same = Intent.of(same=["totals.miles"])
    (change,) = evolve(spark, ready.table, same)
    assert change.kind == Kind.rename_input
    assert change.meaning == "made of flown, before of miles; its values stay"
    assert evolve(spark, ready.table, same) == evolve(spark, ready.table, Intent.of()) == []
    apply_window(spark, ready.table, day(8), day(9))
    counted = ready.events[ready.events["at"] < "2013-01-09"].groupby("dest")["miles"].sum()
    assert rows(spark, ready, "totals")["miles"].to_dict() == counted.to_dict()


def test_a_table_that_a_killed_call_made_takes_another_name_of_an_input(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry does not know it yet, and it is empty."""
    extended(ready).with_seen()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.evolving.evolve.record_members", stop)
        with pytest.raises(KeyboardInterrupt):
            evolve(spark, ready.table, Intent.of())
    latest = {"latest": {"merge": "max", "of": "later"}}
    ready.respec(state={**SPEC["state"], "seen": {**SEEN, "columns": latest}})
    with pytest.raises(InputError, match="was made of at, the spec says later.*--same seen.latest"):
        evolve(spark, ready.table, Intent.of())
    same = Intent.of(same=["seen.latest"])
    assert [c.table for c in evolve(spark, ready.table, same)] == ["seen"]
    assert evolve(spark, ready.table, Intent.of()) == []
    apply_window(spark, ready.table, day(8), day(9))


@pytest.mark.parametrize("merge", ["hll", "theta"])
def test_a_sketch_of_an_input_with_other_hashes_is_refused(
    spark: SparkSession, ready: World, merge: str
) -> None:
    # No sum of miles is there, whose type would change with them.
    columns = {"trips": {"merge": "count"}, "many": {"merge": merge, "of": "miles"}}
    gone = Intent.of(drops=["totals.miles", "totals.first", "totals.last"])
    evolve(spark, ready.with_columns(columns).table, gone)
    events = ready.events
    # A wider number has the same hashes.
    ready.write_events(events.assign(miles=events["miles"].astype("int64")))
    apply_window(spark, ready.table, day(8), day(9))
    ready.write_events(events.assign(miles=events["miles"].astype(str)))
    before = versions(spark, ready)
    for act in (
        lambda: apply_window(spark, ready.table, day(9), day(10)),
        lambda: evolve(spark, ready.table, Intent.of(same=["totals.many"])),
    ):
        with pytest.raises(InputError, match="has hashes of numbers, the input has texts by now"):
            act()
    assert versions(spark, ready) == before


def test_a_table_of_an_early_version_notes_its_inputs_with_the_next_window(
    spark: SparkSession, ready: World
) -> None:
    path = ready.table.spec.state["totals"].path
    made = state.properties(spark, path)[INPUTS_PROPERTY]
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{INPUTS_PROPERTY}')")
    apply_window(spark, ready.table, day(8), day(9))
    assert state.properties(spark, path)[INPUTS_PROPERTY] == made
    priced = made_of(miles={"merge": "sum", "of": "price"})
    table = extended(ready).with_columns(priced).table
    with pytest.raises(InputError, match="'miles' was made of miles, the spec says price"):
        apply_window(spark, table, day(9), day(10))


def test_two_tables_whose_folders_are_swapped_are_refused(spark: SparkSession, home: World) -> None:
    evolve(spark, home.with_seen().table, Intent.of())
    twin = {**SEEN, "path": "state/twin"}
    home.respec(state={**SPEC["state"], "seen": SEEN, "twin": twin})
    evolve(spark, home.table, Intent.of())
    swapped = {"seen": {**SEEN, "path": "state/twin"}, "twin": {**SEEN, "path": "state/seen"}}
    home.respec(state={**SPEC["state"], **swapped})
    for act in (
        lambda: learn(spark, home.table, day(8)),
        lambda: apply_window(spark, home.table, day(8), day(9)),
        lambda: evolve(spark, home.table, Intent.of()),
    ):
        with pytest.raises(InputError, match="is the folder of state table 'twin', and the spec"):
            act()
