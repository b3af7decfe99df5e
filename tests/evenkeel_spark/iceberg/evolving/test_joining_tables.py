"""Iceberg tables join a spec whose epochs go on, and leave it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from unittest.mock import patch

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.evolving.iceberg.tables import IcebergEvolving
from evenkeel_spark.evolving.joining import record_members
from evenkeel_spark.evolving.port import NewTable
from evenkeel_spark.evolving.state_tables import StateTables
from evenkeel_spark.iceberg import migrate as module
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import known_tables
from partitioning.errors import FenceError, InputError
from tests.conftest import SEEN, World
from tests.support.iceberg.catalogs import lake_in
from tests.support.iceberg.evolved import heads, with_columns
from tests.support.iceberg.fed import at, crash, day, one
from tests.support.iceberg.stages import Crash, meanwhile
from tests.support.iceberg.tables import planned, rebalanced
from tests.support.worlds.evolved import COLUMNS

pytestmark = pytest.mark.spark

NEW, GONE = SEEN["columns"], Intent.of((), ["seen"])


def newest(lake: SparkSession) -> dict[str, pd.Timestamp]:
    rows = one(lake, "newest").rows().toPandas().set_index("dest")["latest"]
    return dict(rows.dt.tz_localize("UTC"))


def latest(world: World, first: str, until: str) -> dict[str, pd.Timestamp]:
    events = world.events
    events = events[(events["at"] >= first) & (events["at"] < until)]
    return dict(events.groupby("dest")["at"].max())


def move(lake: SparkSession, world: World, run: str, first: float = 1) -> None:
    rebalanced(lake, world, run, capacities=(first, 1, 1, 0.3))


def test_a_table_joins_and_leaves_while_windows_and_epochs_go_on(
    lake: SparkSession, kept: World
) -> None:
    before = heads(lake)
    with_columns(kept, COLUMNS, newest=NEW)
    with pytest.raises(InputError, match="epoch 0 knows no state table .newest.*evenkeel evolve"):
        apply_window(lake, kept.table, day(8), day(9))
    (planned_change,) = evolve(lake, kept.table, Intent.of(), dry_run=True)
    assert (planned_change.kind, planned_change.table) == (Kind.add_table, "newest")
    assert "windows from 2013-01-08 on fill it" in planned_change.meaning
    assert not IcebergTable(lake, "lake.db.newest").exists()
    evolve(lake, kept.table, Intent.of())
    assert heads(lake) == before and evolve(lake, kept.table, Intent.of()) == []
    apply_window(lake, kept.table, day(8), day(9))
    assert newest(lake) == latest(kept, "2013-01-08", "2013-01-09")
    move(lake, kept, "r1")
    assert set(kept.table.epoch().tables) == {"totals", "seen", "newest"}
    apply_window(lake, kept.table, day(9), day(10))
    assert newest(lake) == latest(kept, "2013-01-08", "2013-01-10")
    rows = one(lake, "newest").rows().toPandas()
    assert (rows["channel"] == kept.table.epoch().lookup(rows["dest"])).all()
    assert set(kept.table.snapshot(lake).rows) == {"totals", "seen", "newest"}

    there = one(lake, "seen").rows().count()
    with_columns(kept, COLUMNS, seen=None, newest=NEW)
    with pytest.raises(InputError, match="nothing says what became of it.* --drop seen"):
        evolve(lake, kept.table, Intent.of())
    (left,) = evolve(lake, kept.table, GONE)
    assert left.kind == Kind.drop_table and "its properties go" in left.meaning
    found = one(lake, "seen")
    assert not [n for n in found.properties() if "evenkeel" in n] and found.rows().count() == there
    assert evolve(lake, kept.table, GONE) == []
    apply_window(lake, kept.table, day(10), day(11))
    assert repair(lake, kept.table) == [] and one(lake, "seen").rows().count() == there
    move(lake, kept, "r2", 0.3)
    assert set(kept.table.epoch().tables) == {"totals", "newest"}


def taken(lake: SparkSession, world: World) -> None:
    lake.sql("CREATE TABLE lake.db.newest (dest STRING) USING iceberg")


def half_applied(lake: SparkSession, world: World) -> None:
    with_columns(world, COLUMNS)
    with pytest.raises(Crash), at("followed", crash):
        apply_window(lake, world.table, day(8), day(9))
    with_columns(world, COLUMNS, newest=NEW)


def lost(lake: SparkSession, world: World) -> None:
    lake.sql("DROP TABLE lake.db.seen")


#: What somebody does first, and the error.
REFUSED: dict[str, tuple[Callable[[SparkSession, World], None], str]] = {
    "taken": (taken, "expected no table of this name for a new state table, found one"),
    "half applied": (half_applied, "expected other state tables that have the same windows"),
    "lost": (lost, "there is no such table"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_cannot_join_is_refused_before_anything(
    lake: SparkSession, kept: World, case: str
) -> None:
    first, message = REFUSED[case]
    with_columns(kept, COLUMNS, newest=NEW)
    first(lake, kept)
    before = one(lake, "totals").head()
    with pytest.raises(InputError, match=message):
        evolve(lake, kept.table, Intent.of())
    assert one(lake, "totals").head() == before
    assert set(known_tables(kept.table.registry)) == {"totals", "seen"}


def test_a_table_that_was_dropped_by_hand_is_missed_until_somebody_lets_it_go(
    lake: SparkSession, kept: World
) -> None:
    lake.sql("DROP TABLE lake.db.seen")
    with_columns(kept, COLUMNS, seen=None)
    with pytest.raises(InputError, match="has state table 'seen'.* --drop seen"):
        apply_window(lake, kept.table, day(8), day(9))
    (left,) = evolve(lake, kept.table, GONE)
    assert "not touched, because it is lost" in left.meaning
    apply_window(lake, kept.table, day(8), day(9))


def test_a_window_that_has_begun_does_not_come_to_a_table_that_has_left(
    spark: SparkSession, lake: SparkSession, kept: World
) -> None:
    other, old = lake_in(spark, kept.folder), kept.table
    rows = one(lake, "seen").rows().toPandas().set_index("dest")["latest"].to_dict()

    def leave() -> None:
        evolve(other, with_columns(kept, COLUMNS, seen=None).table, GONE)

    # Once it is in the first table, and waits to come to the second.
    with at("merged", leave, 1), pytest.raises((FenceError, InputError), match="seen"):
        apply_window(lake, old, day(8), day(9))
    now = one(lake, "seen").rows().toPandas().set_index("dest")["latest"].to_dict()
    assert now == rows
    # It is in the table that stays.
    apply_window(lake, kept.table, day(8), day(9))
    apply_window(lake, kept.table, day(9), day(10))


def test_a_table_whose_state_moves_is_not_let_go(lake: SparkSession, kept: World) -> None:
    migration = planned(lake, kept, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    with_columns(kept, COLUMNS, seen=None)
    with pytest.raises(FenceError, match="begun to move"):
        evolve(lake, kept.table, GONE)
    with_columns(kept, COLUMNS)
    with pytest.raises(Crash), at("closed", crash, 1):
        verify(lake, migration)
    with_columns(kept, COLUMNS, seen=None)
    with pytest.raises(FenceError, match="has the column slot_1: state moves, or is half moved"):
        evolve(lake, kept.table, GONE)
    with_columns(kept, COLUMNS)
    verify(lake, migration)
    evolve(lake, with_columns(kept, COLUMNS, seen=None).table, GONE)
    assert set(known_tables(kept.table.registry)) == {"totals"}


def test_a_run_that_starts_between_its_looks_moves_nothing_without_a_table_that_joined(
    lake: SparkSession, kept: World
) -> None:
    migration = planned(lake, kept, "r1", capacities=(1, 1, 1, 0.3))
    real = module.mark_started

    def mark_then_join(given: Migration) -> None:
        real(given)
        table = with_columns(kept, COLUMNS, newest=NEW).table
        columns = StructType.fromDDL("channel int, slot int, dest string, latest timestamp")
        port = IcebergEvolving(lake, table)
        port.create(NewTable("newest", columns, {"at": "timestamp"}, day(8)), given.before)
        record_members(table, StateTables([], {"newest": False}, {}, {}, day(8)), given.before)

    before = heads(lake)
    with (
        patch.object(module, "mark_started", mark_then_join),
        pytest.raises(InputError, match="has state table 'newest', and the spec has not"),
    ):
        migrate(lake, migration)
    assert heads(lake) == before and one(lake, "seen").branches() == []
    # If that call was killed here, the run still can be given up, and the call made again.
    roll_back(lake, migration)
    assert evolve(lake, kept.table, Intent.of()) == []
    assert set(known_tables(kept.table.registry)) == {"totals", "seen", "newest"}


def test_a_table_that_never_joined_is_under_the_epoch_of_now(
    lake: SparkSession, kept: World
) -> None:
    """A call was killed before the registry knew the table; then an epoch was published."""
    with_columns(kept, COLUMNS, newest=NEW)
    with pytest.raises(Crash), at("created", crash):
        evolve(lake, kept.table, Intent.of())
    move(lake, with_columns(kept, COLUMNS), "r1")
    assert one(lake, "newest").epoch() == 0
    (found,) = evolve(lake, with_columns(kept, COLUMNS, newest=NEW).table, Intent.of())
    assert "there already" in found.meaning and one(lake, "newest").epoch() == 1
    apply_window(lake, kept.table, day(8), day(9))
    assert newest(lake) == latest(kept, "2013-01-08", "2013-01-09")


def test_two_calls_at_once_make_a_table_once(
    spark: SparkSession, lake: SparkSession, kept: World
) -> None:
    other, table = lake_in(spark, kept.folder), with_columns(kept, COLUMNS, newest=NEW).table
    with meanwhile("created", lambda: evolve(other, table, Intent.of())):
        evolve(lake, table, Intent.of())
    apply_window(lake, table, day(8), day(9))
    assert newest(lake) == latest(kept, "2013-01-08", "2013-01-09")


@pytest.mark.parametrize("made_by", ["bootstrap", "evolve"])
def test_a_table_that_is_put_back_before_it_was_let_go_stays(
    lake: SparkSession, kept: World, made_by: str
) -> None:
    name, its = ("seen", SEEN["columns"]) if made_by == "bootstrap" else ("newest", NEW)
    evolve(lake, with_columns(kept, COLUMNS, newest=NEW).table, Intent.of())
    rest = {"newest": NEW, name: None}
    with patch.object(IcebergEvolving, "let_go", side_effect=Crash), pytest.raises(Crash):
        evolve(lake, with_columns(kept, COLUMNS, **rest).table, Intent.of((), [name]))
    assert name not in known_tables(kept.table.registry)
    (change,) = evolve(lake, with_columns(kept, COLUMNS, newest=NEW).table, Intent.of())
    assert its and (change.kind, change.table) == (Kind.add_table, name)
    assert set(known_tables(kept.table.registry)) == {"totals", "seen", "newest"}
    assert evolve(lake, kept.table, Intent.of()) == []
    apply_window(lake, kept.table, day(8), day(9))
    move(lake, kept, "r1")
    assert set(kept.table.epoch().tables) == {"totals", "seen", "newest"}


def test_a_table_that_comes_back_with_rows_is_placed_by_the_epoch_of_now(
    lake: SparkSession, kept: World
) -> None:
    """The registry was brought back from before the table had joined."""
    shutil.copytree(kept.folder / "registry", kept.folder / "kept")
    evolve(lake, with_columns(kept, COLUMNS, newest=NEW).table, Intent.of())
    apply_window(lake, kept.table, day(8), day(9))
    rows = newest(lake)
    shutil.rmtree(kept.folder / "registry")
    (kept.folder / "kept").rename(kept.folder / "registry")
    move(lake, with_columns(kept, COLUMNS), "r1")
    (found,) = evolve(lake, with_columns(kept, COLUMNS, newest=NEW).table, Intent.of())
    assert "there already" in found.meaning and newest(lake) == rows
    placed = one(lake, "newest").rows().toPandas()
    assert (placed["channel"] == kept.table.epoch().lookup(placed["dest"])).all()
    one(lake, "newest").rename("slot_1", "slot_2")
    with pytest.raises((FenceError, InputError), match="slot_2"):
        evolve(lake, kept.table, Intent.of())
