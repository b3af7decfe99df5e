"""What cannot be done: one clear error, and no table was touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.registry.verdict import ROLL_BACK, newest_attempt
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from partitioning.errors import FenceError, InputError
from tests.chaos.home import RUN, task
from tests.conftest import SEEN, SPEC, World
from tests.support.worlds.windows import versions

pytestmark = pytest.mark.spark

COLUMNS = SPEC["state"]["totals"]["columns"]
LESS = {name: c for name, c in COLUMNS.items() if name != "miles"}
FLOWN = {**LESS, "flown": {"merge": "sum", "of": "miles"}}


def columns(found: dict[str, Any]) -> Callable[[World], World]:
    state = {"totals": {**SPEC["state"]["totals"], "columns": found}}
    return lambda world: world.respec(state=state)


def without_miles(world: World) -> World:
    return world.write_events(world.events.drop(columns="miles"))


def whole_keys(world: World) -> World:
    events = world.events
    return world.write_events(events.assign(dest=events["dest"].str[1:].astype("int64")))


def same(world: World) -> World:
    return world


def moved(world: World) -> World:
    return world.respec(state={"totals": {**SPEC["state"]["totals"], "path": "state/elsewhere"}})


def by_another_name(world: World) -> World:
    return world.respec(state={"sums": SPEC["state"]["totals"]})


def occupied(world: World) -> World:
    (world.folder / "state/seen").mkdir()
    (world.folder / "state/seen/notes.txt").write_text("mine")
    return world.with_seen()


def add(**more: Any) -> Callable[[World], World]:
    return columns({**COLUMNS, **more})


REFUSED = {
    "no name": (columns(LESS), [], [], "'miles', made by merge sum, is not in the spec"),
    "both": (columns(FLOWN), [], [], "give --drop totals.miles, or --rename totals.miles=NEW"),
    "merge": (
        add(miles={"merge": "max", "of": "miles"}),
        [],
        [],
        "by merge sum, the spec says max",
    ),
    "renamed merge": (
        columns({**LESS, "flown": {"merge": "max", "of": "miles"}}),
        ["totals.miles=flown"],
        [],
        "'flown' was made by merge sum, the spec says max",
    ),
    "no old": (columns(FLOWN), ["totals.miels=flown"], [], "there is no state column 'miels'"),
    "no new": (columns(FLOWN), ["totals.miles=fly"], [], "the spec has no column 'fly'"),
    "still old": (add(), ["totals.miles=trips"], [], "the spec still has column 'miles'"),
    "two": (columns(LESS), ["totals.miles=trips"], [], "there is a column 'trips' already"),
    "form": (same, ["miles=flown"], [], "expected TABLE.OLD=NEW, found 'miles=flown'"),
    "drop form": (same, [], ["totals.a.b"], "expected TABLE or TABLE.COLUMN"),
    "kept column": (same, [], ["totals.miles"], "cannot drop column 'miles': the spec still"),
    "kept table": (same, [], ["totals"], "cannot drop state table 'totals': the spec still"),
    "type": (
        add(last={"merge": "max", "of": "dest"}),
        [],
        [],
        "'last' is timestamp in the table, and events make string by now",
    ),
    "input": (without_miles, [], [], "there is no column 'miles'"),
    "key": (whole_keys, [], [], "its key is .*bigint.*, the current epoch's is .*string"),
    "slots": (lambda w: w.respec(slots=96), [], [], "made with slots = 64, the spec says 96"),
    "path": (moved, [], [], "state table 'totals' is at .*state/totals"),
    "name": (by_another_name, [], ["totals"], "expected an empty folder for a new state table"),
    "folder": (occupied, [], [], "expected an empty folder for a new state table"),
    "theirs": (
        lambda w: w.respec(state={"totals": {"path": "state/totals", "rows": "one"}}),
        [],
        [],
        "the team's own",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_change_that_cannot_be_made_is_refused_before_anything(
    spark: SparkSession, ready: World, case: str
) -> None:
    change, renames, drops, message = REFUSED[case]
    before = versions(spark, ready)
    change(ready)
    with pytest.raises(InputError, match=message):
        evolve(spark, ready.table, Intent.of(renames, drops))
    ready.respec(state=SPEC["state"])
    assert versions(spark, ready) == before
    assert not ready.table.registry.files.evolved.exists()


def test_tables_with_other_windows_are_refused(spark: SparkSession, ready: World) -> None:
    """A new table could not begin where both of them end."""
    from evenkeel_spark.jobs.apply_window import apply_window
    from tests.support.worlds.windows import day

    evolve(spark, ready.with_seen().table, Intent.of())
    alone = ready.respec(state=SPEC["state"]).table
    apply_window(spark, alone, day(8), day(9))
    third = {**SEEN, "path": "state/third"}
    ready.respec(state={**SPEC["state"], "seen": SEEN, "third": third})
    told = "found totals up to 2013-01-09, seen up to 2013-01-08"
    with pytest.raises(InputError, match=told):
        evolve(spark, ready.table, Intent.of())
    assert not (ready.folder / "state/third").exists()


def test_state_that_moves_is_left_alone_and_a_plan_that_waits_is_withdrawn(
    spark: SparkSession, ready: World
) -> None:
    for name in ("learn", "decide", "plan", "validate_plan"):
        task(spark, ready, name)
    run = ready.table.registry.run(RUN)
    digest = run.plan.read().digest
    before = versions(spark, ready)
    add(least={"merge": "min", "of": "miles"})(ready)
    evolve(spark, ready.table, Intent.of(), dry_run=True)
    assert newest_attempt(run, digest).verdict is None and versions(spark, ready) == before
    evolve(spark, ready.table, Intent.of())
    assert newest_attempt(run, digest).verdict == ROLL_BACK
    after = versions(spark, ready)
    with pytest.raises(FenceError, match="Plan again"):
        task(spark, ready, "migrate")
    assert versions(spark, ready) == after

    for name in ("learn", "decide", "plan", "validate_plan", "migrate"):
        task(spark, ready, name, "r2")
    before = versions(spark, ready)
    add()(ready)
    with pytest.raises(FenceError, match="state|evenkeel_moving"):
        evolve(spark, ready.table, Intent.of((), ["totals.least"]))
    assert versions(spark, ready) == before
