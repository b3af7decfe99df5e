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
from tests.conftest import SPEC, World
from tests.support.worlds.evolved import COLUMNS
from tests.support.worlds.windows import versions

pytestmark = pytest.mark.spark

LESS = {name: c for name, c in COLUMNS.items() if name != "miles"}
FLOWN = {**LESS, "flown": {"merge": "sum", "of": "miles"}}


def columns(found: dict[str, Any]) -> Callable[[World], World]:
    return lambda world: world.with_columns(found)


def without_miles(world: World) -> World:
    return world.write_events(world.events.drop(columns="miles"))


def whole_keys(world: World) -> World:
    events = world.events
    return world.write_events(events.assign(dest=events["dest"].str[1:].astype("int64")))


def same(world: World) -> World:
    return world


def moved(world: World) -> World:
    return world.respec(state={"totals": {**SPEC["state"]["totals"], "path": "state/elsewhere"}})


def lost(world: World) -> World:
    (world.folder / "state/totals").rename(world.folder / "elsewhere")
    return world


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
    "drop form": (same, [], ["totals."], "expected TABLE.COLUMN or TABLE, found 'totals.'"),
    "kept table": (same, [], ["totals"], "cannot drop state table 'totals': the spec still has it"),
    "letters": (
        columns({**LESS, "Miles": {"merge": "sum", "of": "miles"}}),
        ["totals.miles=Miles"],
        [],
        "cannot rename 'miles' to 'Miles': only letters' case differs; rename it to a third name",
    ),
    "kept column": (same, [], ["totals.miles"], "cannot drop column 'miles': the spec still"),
    "type": (
        add(last={"merge": "max", "of": "dest"}),
        [],
        [],
        "'last' is timestamp in the table, and events make string by now",
    ),
    "input": (without_miles, [], [], "there is no column 'miles'"),
    "key": (whole_keys, [], [], "its key is .*bigint.*, the current epoch's is .*string"),
    "slots": (lambda w: w.respec(slots=96), [], [], "has slots = 64, the spec says 96"),
    "path": (moved, [], [], "holds no state table, and 'totals' is known at"),
    "lost": (lost, [], [], "holds no state table, and 'totals' is known at"),
    "theirs": (
        lambda w: w.respec(state={"totals": {"path": "state/totals", "rows": "one"}}),
        [],
        [],
        "the team's own",
    ),
}


@pytest.mark.parametrize("change", ["drop", "rename", "widen"])
def test_a_column_that_a_check_of_the_team_names_is_left_alone(
    spark: SparkSession, ready: World, change: str
) -> None:
    path = ready.table.spec.state["totals"].path
    table, check = f"delta.`{path}`", "ADD CONSTRAINT `their own` CHECK"
    add(least={"merge": "min", "of": "miles"})(ready)
    evolve(spark, ready.table, Intent.of())
    spark.sql(f"ALTER TABLE {table} {check} ((least IS NULL OR least > -1) AND dest <> 'miles')")
    rest = {n: c for n, c in COLUMNS.items() if n != "first"}
    least = {"merge": "min", "of": "miles"}
    renames, drops = (), ("totals.first", "totals.least")
    if change == "rename":
        rest["fewest"], renames, drops = least, ["totals.least=fewest"], ["totals.first"]
    elif change == "widen":
        rest["least"], drops = least, ["totals.first"]
        ready.write_events(ready.events.assign(miles=ready.events["miles"].astype("int64")))
    before = versions(spark, ready)
    ready.with_columns(rest)
    with pytest.raises(InputError, match=f"cannot {change} column 'least': .*their own"):
        evolve(spark, ready.table, Intent.of(renames, drops))
    assert versions(spark, ready) == before
    # A text that has the name of a column is not taken for one.
    spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT `their own`")
    spark.sql(f"ALTER TABLE {table} {check} (dest <> 'least' AND `channel` > -1)")
    assert len(evolve(spark, ready.table, Intent.of(renames, drops))) == 2


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
    if case == "lost":
        assert not (ready.folder / "state/totals").exists()
        (ready.folder / "elsewhere").rename(ready.folder / "state/totals")
    assert versions(spark, ready) == before


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
    with pytest.raises(FenceError, match="withdrawn.* Plan again"):
        task(spark, ready, "migrate")
    task(spark, ready, "roll_back")
    with pytest.raises(FenceError, match="withdrawn.* Plan again"):
        task(spark, ready, "migrate")
    assert versions(spark, ready) == after and not run.migration.exists()
    # Nothing has moved, so the next change is not held up; nor by a plan that nobody can read.
    run.write("plan.json", b"{")
    add()(ready)
    evolve(spark, ready.table, Intent.of((), ["totals.least"]))

    for name in ("learn", "decide", "plan", "validate_plan", "migrate"):
        task(spark, ready, name, "r2")
    before = versions(spark, ready)
    add()(ready)
    with pytest.raises(FenceError, match="state|evenkeel_moving"):
        evolve(spark, ready.table, Intent.of((), ["totals.least"]))
    assert versions(spark, ready) == before
