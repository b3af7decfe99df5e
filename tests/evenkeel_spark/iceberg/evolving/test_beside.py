"""Iceberg tables that change beside windows and runs: nothing is merged by a spec of before."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from evenkeel.registry.verdict import ROLL_BACK, newest_attempt
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.tables.iceberg.commits import SUMMARY, commits_back
from evenkeel_spark.windows.iceberg.snapshots import known_placed
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.iceberg.catalogs import lake_in
from tests.support.iceberg.evolved import check_totals, heads, totals, with_columns
from tests.support.iceberg.fed import at, crash, day, one
from tests.support.iceberg.stages import Crash, meanwhile
from tests.support.iceberg.tables import planned
from tests.support.worlds.evolved import COLUMNS, INTENT, OTHERS

pytestmark = pytest.mark.spark

LEAST = {"least": {"merge": "min", "of": "miles"}}
FLOWN = {"flown" if name == "miles" else name: c for name, c in COLUMNS.items()}
#: Columns to change to, and what the spec cannot say.
CHANGES = {
    "add": ({**COLUMNS, **LEAST}, Intent.of()),
    "rename": (FLOWN, Intent.of(["totals.miles=flown"])),
    "drop": ({n: c for n, c in COLUMNS.items() if n != "first"}, Intent.of((), ["totals.first"])),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("point", ["branched", "merged"])
def test_a_window_by_the_spec_of_before_is_not_merged(
    spark: SparkSession, lake: SparkSession, kept: World, change: str, point: str
) -> None:
    """It would count as applied, and a column that is new would lack it for ever."""
    other, old = lake_in(spark, kept.folder), kept.table
    columns, intent = CHANGES[change]

    def late() -> None:
        evolve(other, with_columns(kept, columns).table, intent)

    before = totals(lake)
    with meanwhile(point, late), pytest.raises(FenceError, match="those of another spec by now"):
        apply_window(lake, old, day(8), day(10))
    now = totals(lake)
    assert now["trips"].to_dict() == before["trips"].to_dict()
    assert list(one(lake, "totals").refs()) == ["main"]
    apply_window(lake, kept.table, day(8), day(10))
    now, events = totals(lake), kept.events[kept.events["at"] < "2013-01-10"]
    assert now["trips"].to_dict() == events.groupby("dest").size().to_dict()
    miles = events.groupby("dest")["miles"].sum().to_dict()
    assert now["flown" if change == "rename" else "miles"].to_dict() == miles
    if change == "add":
        last = events[events["at"] >= "2013-01-08"].groupby("dest")["miles"].min()
        assert now["least"].dropna().astype("int64").to_dict() == last.to_dict()


@pytest.mark.parametrize("same", [False, True], ids=["columns", "inputs alone"])
def test_a_window_that_comes_in_first_is_seen(
    spark: SparkSession, lake: SparkSession, kept: World, same: bool
) -> None:
    """The change looks again: it must not be made upon what it has not seen."""
    other, old = lake_in(spark, kept.folder), kept.table
    columns, intent = OTHERS, INTENT
    if same:
        columns, intent = COLUMNS, Intent.of((), (), ["totals.miles"])
        kept.write_events(kept.events.assign(distance=kept.events["miles"]))
        columns = {**COLUMNS, "miles": {"merge": "sum", "of": "distance"}}
    with_columns(kept, columns)
    with meanwhile("begun", lambda: apply_window(other, old, day(8), day(9))):
        assert evolve(lake, kept.table, intent)
    assert _steps(lake) == ["evolve", "apply_window", "bootstrap"]
    assert evolve(lake, kept.table, intent) == []
    apply_window(lake, kept.table, day(9), day(11))
    if not same:
        check_totals(lake, kept, day(9), day(11))
    else:
        events = kept.events[kept.events["at"] < "2013-01-11"]
        assert totals(lake)["miles"].to_dict() == events.groupby("dest")["miles"].sum().to_dict()


def test_two_changes_at_once_are_one(spark: SparkSession, lake: SparkSession, kept: World) -> None:
    other, table = lake_in(spark, kept.folder), with_columns(kept, OTHERS).table
    with meanwhile("begun", lambda: evolve(other, table, INTENT)):
        evolve(lake, table, INTENT)
    assert _steps(lake) == ["evolve", "bootstrap"]
    apply_window(lake, table, day(8), day(9))
    check_totals(lake, kept, day(8), day(9))


def test_state_that_moves_is_left_alone_and_a_plan_that_waits_is_withdrawn(
    spark: SparkSession, lake: SparkSession, kept: World
) -> None:
    migration = planned(lake, kept, "r1", capacities=(1, 1, 1, 0.3))
    run, digest = migration.run, migration.plan.digest
    with_columns(kept, OTHERS)
    evolve(lake, kept.table, INTENT, dry_run=True)
    assert newest_attempt(run, digest).verdict is None
    evolve(lake, kept.table, INTENT)
    assert newest_attempt(run, digest).verdict == ROLL_BACK
    before = heads(lake)
    # A job of the run that began before has the old spec, and a later one has the new spec.
    with pytest.raises(InputError, match="evenkeel evolve"):
        migrate(lake, migration)
    now = approved_migration(kept.table, "r1", digest)
    with pytest.raises(FenceError, match="withdrawn"):
        migrate(lake, now)
    roll_back(lake, now)
    assert heads(lake) == before

    later = planned(lake, kept, "r2", capacities=(1, 1, 1, 0.3))
    rest, drop = {n: c for n, c in OTHERS.items() if n != "least"}, Intent.of((), ["totals.least"])
    with_columns(kept, rest)

    def too_late() -> None:
        with pytest.raises(FenceError, match="begun to move"):
            evolve(lake_in(spark, kept.folder), kept.table, drop)

    with meanwhile("branched", too_late):
        migrate(lake, later)
    with pytest.raises(FenceError, match="begun to move"):
        evolve(lake, kept.table, drop)
    with_columns(kept, OTHERS)
    with pytest.raises(Crash), at("closed", crash):
        verify(lake, later)
    with_columns(kept, rest)
    with pytest.raises(FenceError, match="begun to move|is under way"):
        evolve(lake, kept.table, drop)
    with_columns(kept, OTHERS)
    verify(lake, later)
    assert kept.table.epoch().number == 1
    with_columns(kept, rest)
    assert len(evolve(lake, kept.table, drop)) == 1
    assert repair(lake, kept.table) == []


def test_a_table_that_is_half_moved_is_refused_also_if_no_run_tells(
    lake: SparkSession, kept: World
) -> None:
    one(lake, "seen").rename("slot_0", "slot_1")
    before = heads(lake)
    with_columns(kept, OTHERS)
    with pytest.raises(FenceError, match=r"seen .*has the column slot_1, expected slot_0"):
        evolve(lake, kept.table, INTENT)
    assert heads(lake) == before


def test_a_run_that_begins_while_columns_change_ends_by_the_new_spec(
    spark: SparkSession, lake: SparkSession, kept: World
) -> None:
    """It has planned after the look at all runs, and moves rows before the commit."""
    other, begun = lake_in(spark, kept.folder), []
    table = with_columns(kept, OTHERS).table

    def run() -> None:
        with_columns(kept, COLUMNS)
        begun.append(planned(other, kept, "r1", capacities=(1, 1, 1, 0.3)))
        migrate(other, begun[0])

    with meanwhile("begun", run), pytest.raises(FenceError, match="begun to move"):
        evolve(lake, table, INTENT)
    # The commit came in, as it harms no move: that is made again from where main is by now.
    assert "flown" in totals(lake)
    with pytest.raises(InputError, match="evenkeel evolve"):
        verify(lake, begun[0])
    with_columns(kept, OTHERS)
    verify(lake, approved_migration(kept.table, "r1", begun[0].plan.digest))
    assert kept.table.epoch().number == 1 and evolve(lake, kept.table, INTENT) == []
    apply_window(lake, kept.table, day(8), day(9))
    check_totals(lake, kept, day(8), day(9))


def test_main_that_goes_back_keeps_its_columns_and_gets_its_windows_again(
    lake: SparkSession, kept: World
) -> None:
    start = one(lake, "totals").head()
    apply_window(lake, kept.table, day(8), day(9))
    evolve(lake, with_columns(kept, OTHERS).table, INTENT)
    apply_window(lake, kept.table, day(9), day(10))
    check_totals(lake, kept, day(9), day(10))
    one(lake, "totals").call("rollback_to_snapshot", {"snapshot_id": str(start)})
    assert evolve(lake, kept.table, INTENT) == [] and repair(lake, kept.table) == []
    with pytest.raises(InputError, match="--start 2013-01-08 --end 2013-01-09"):
        apply_window(lake, kept.table, day(10), day(11))
    apply_window(lake, kept.table, day(8), day(9))
    apply_window(lake, kept.table, day(9), day(10))
    # The window of before the change fills the new columns, too.
    check_totals(lake, kept, day(8), day(10))


def test_a_window_by_the_spec_of_before_is_not_merged_after_main_has_gone_back(
    spark: SparkSession, lake: SparkSession, kept: World
) -> None:
    other, old, start = lake_in(spark, kept.folder), kept.table, one(lake, "totals").head()

    def change_and_go_back() -> None:
        evolve(other, with_columns(kept, {**COLUMNS, **LEAST}).table, Intent.of())
        one(other, "totals").call("rollback_to_snapshot", {"snapshot_id": str(start)})

    with (
        meanwhile("merged", change_and_go_back),
        pytest.raises(FenceError, match="those of another spec by now"),
    ):
        apply_window(lake, old, day(8), day(10))
    assert one(lake, "totals").head() == start and list(one(lake, "totals").refs()) == ["main"]


def test_a_changed_table_is_known_to_be_placed_without_a_look_at_its_rows(
    lake: SparkSession, kept: World
) -> None:
    evolve(lake, with_columns(kept, OTHERS).table, INTENT)
    found = one(lake, "totals")
    assert known_placed(found, found.head(), kept.table.epoch().function)
    assert _steps(lake)[:2] == ["evolve", "bootstrap"]


def _steps(lake: SparkSession) -> list[str | None]:
    table = one(lake, "totals")
    made = commits_back(lake, table.sql, table.head())
    return [commit.summary.get(f"{SUMMARY}step") for commit in made]
