"""What cannot be done to Iceberg tables: one clear error, and no table was touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.iceberg.evolved import heads, totals, with_columns
from tests.support.iceberg.fed import day, one
from tests.support.worlds.evolved import COLUMNS

pytestmark = pytest.mark.spark

LESS = {name: c for name, c in COLUMNS.items() if name != "miles"}
FLOWN = {**LESS, "flown": {"merge": "sum", "of": "miles"}}
MINUS_FIRST = {name: c for name, c in COLUMNS.items() if name != "first"}


def columns(found: dict[str, Any], **more: Any) -> Callable[[World], World]:
    return lambda world: with_columns(world, found, **more)


def add(**more: Any) -> Callable[[World], World]:
    return columns({**COLUMNS, **more})


def wider_key(world: World) -> World:
    events = world.events
    return world.write_events(events.assign(dest=events["dest"].str[1:].astype("int64")))


#: What changes, options, and the error.
REFUSED: dict[str, tuple[Callable[[World], World], list[str], list[str], str]] = {
    "no name": (columns(LESS), [], [], "'miles', made by merge sum, is not in the spec"),
    "both": (columns(FLOWN), [], [], "give --drop totals.miles, or --rename totals.miles=NEW"),
    "merge": (
        add(miles={"merge": "max", "of": "miles"}),
        [],
        [],
        "by merge sum, the spec says max",
    ),
    "no old": (columns(FLOWN), ["totals.miels=flown"], [], "there is no state column 'miels'"),
    "kept": (add(), [], ["totals.miles"], "cannot drop column 'miles': the spec still has it"),
    "type": (
        add(last={"merge": "max", "of": "dest"}),
        [],
        [],
        "'last' is timestamp in the table, and events make string by now: Iceberg cannot widen",
    ),
    "input": (
        add(miles={"merge": "sum", "of": "weight"}),
        [],
        [],
        "'miles' is bigint in the table, and events make double by now: Iceberg cannot widen",
    ),
    "other input": (
        add(last={"merge": "max", "of": "first"}),
        [],
        [],
        "there is no column 'first'",
    ),
    "key": (wider_key, [], [], "its key is .*bigint.*, the current epoch's is .*string"),
    "slots": (lambda w: w.respec(slots=96), [], [], "has slots = 64, the spec says 96"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_change_that_cannot_be_made_is_refused_before_anything(
    lake: SparkSession, kept: World, case: str
) -> None:
    change, renames, drops, message = REFUSED[case]
    before = heads(lake)
    change(kept)
    with pytest.raises(InputError, match=message):
        evolve(lake, kept.table, Intent.of(renames, drops))
    assert heads(lake) == before


#: Statements by which something of the table names a column, what it is called, and its way out.
IN_USE = {
    "order": ("WRITE LOCALLY ORDERED BY first", "sort order", "WRITE UNORDERED"),
    "partition": ("ADD PARTITION FIELD days(first)", "partition field first_day", None),
}


@pytest.mark.parametrize("what", IN_USE)
def test_a_column_that_the_table_itself_names_is_not_dropped(
    lake: SparkSession, kept: World, what: str
) -> None:
    statement, called, undo = IN_USE[what]
    table = one(lake, "totals")
    table.alter(statement)
    before = heads(lake)
    with_columns(kept, MINUS_FIRST)
    gone = Intent.of((), ["totals.first"])
    with pytest.raises(InputError, match=f"cannot drop column 'first': .*{called}"):
        evolve(lake, kept.table, gone)
    if undo is None:
        table.alter("DROP PARTITION FIELD days(first)")
        # Files of before are listed by it.
        with pytest.raises(InputError, match="cannot drop column 'first'"):
            evolve(lake, kept.table, gone)
    assert heads(lake)["totals"][:2] == before["totals"][:2]
    # Another name is no harm: all of these know it by its number.
    with_columns(kept, {"begun" if n == "first" else n: c for n, c in COLUMNS.items()})
    evolve(lake, kept.table, Intent.of(["totals.first=begun"]))
    apply_window(lake, kept.table, day(8), day(9))
    events = kept.events[kept.events["at"] < "2013-01-09"].groupby("dest")["at"]
    assert totals(lake)["begun"].dt.tz_localize("UTC").to_dict() == events.min().to_dict()
    if undo is not None:
        one(lake, "totals").alter(undo.replace("first", "begun"))
        with_columns(kept, MINUS_FIRST)
        assert len(evolve(lake, kept.table, Intent.of((), ["totals.begun"]))) == 1
        assert "begun" not in totals(lake)


def test_an_identifier_field_is_not_dropped(lake: SparkSession, kept: World) -> None:
    # SQL sets only required columns, and makes none of ours required.
    change = one(lake, "totals").loaded().updateSchema().allowIncompatibleChanges()
    change.requireColumn("first").setIdentifierFields(["first"]).commit()
    before = heads(lake)
    with_columns(kept, MINUS_FIRST)
    gone = Intent.of((), ["totals.first"])
    with pytest.raises(InputError, match="cannot drop column 'first': an identifier field"):
        evolve(lake, kept.table, gone)
    assert heads(lake) == before
    one(lake, "totals").alter("DROP IDENTIFIER FIELDS first")
    assert len(evolve(lake, kept.table, gone)) == 1


def test_a_column_in_other_letters_is_in_the_way(lake: SparkSession, kept: World) -> None:
    one(lake, "totals").alter("ADD COLUMN Least INT")
    before = heads(lake)
    add(least={"merge": "min", "of": "miles"})(kept)
    with pytest.raises(InputError, match="cannot add column 'least': there is one of this name"):
        evolve(lake, kept.table, Intent.of())
    assert heads(lake) == before


def test_a_column_that_somebody_has_added_by_hand_is_taken_up(
    lake: SparkSession, kept: World
) -> None:
    table = one(lake, "totals")
    table.alter("ADD COLUMN least INT")
    lake.sql(f"UPDATE {table.sql} SET least = 0 WHERE dest = 'D000'")
    add(least={"merge": "min", "of": "miles"})(kept)
    (found,) = evolve(lake, kept.table, Intent.of())
    assert "there already" in found.meaning
    apply_window(lake, kept.table, day(8), day(9))
    least = totals(lake)["least"].dropna()
    assert least["D000"] == 0 and (least.drop("D000") > 0).all()


def test_a_column_that_somebody_has_renamed_or_dropped_by_hand(
    lake: SparkSession, kept: World
) -> None:
    table = one(lake, "totals")
    table.alter("RENAME COLUMN miles TO flown")
    table.alter("DROP COLUMN first")
    add(trips={"merge": "count"})(kept)
    with pytest.raises(InputError, match=r"expected column 'miles'.*--drop totals.miles"):
        evolve(lake, kept.table, Intent.of())
    columns({n: c for n, c in FLOWN.items() if n != "first"})(kept)
    assert len(evolve(lake, kept.table, Intent.of(["totals.miles=flown"], ["totals.first"]))) == 2
    apply_window(lake, kept.table, day(8), day(9))
    events = kept.events[kept.events["at"] < "2013-01-09"].groupby("dest")["miles"]
    assert totals(lake)["flown"].to_dict() == events.sum().to_dict()
