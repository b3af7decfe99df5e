"""State that Evenkeel makes from events in Iceberg tables: each event counts once."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel_spark.events.reader import read_events
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.windows.iceberg import making, merging
from partitioning.errors import DamagedError, FenceError, InputError
from tests.conftest import World
from tests.support.iceberg.catalogs import KINDS, lake_in
from tests.support.iceberg.fed import NAMES, at, check, crash, day, one
from tests.support.iceberg.stages import Crash
from tests.support.iceberg.tables import planned, rebalanced

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_windows_give_what_pandas_gives_and_twice_is_once(lake: SparkSession, kept: World) -> None:
    check(lake, kept, day(8))
    assert not bootstrap(lake, kept.table, day(8))
    record = apply_window(lake, kept.table, day(8), day(10))
    events = kept.events
    assert record.rows == ((events["at"] >= "2013-01-08") & (events["at"] < "2013-01-10")).sum()
    assert record.epoch == 0 and sum(c.rows for c in record.channels) == record.rows
    check(lake, kept, day(10))
    heads = {name: one(lake, name).head() for name in NAMES}
    assert apply_window(lake, kept.table, day(8), day(10)) == record
    assert {name: one(lake, name).head() for name in NAMES} == heads
    apply_window(lake, kept.table, day(10), day(15))
    check(lake, kept, day(15))
    assert [list(one(lake, name).refs()) for name in NAMES] == [["main"], ["main"]]
    shown = kept.table.state("totals", spark=lake).toPandas()
    assert shown["trips"].sum() == len(events)
    with pytest.raises(InputError, match="count events twice"):
        apply_window(lake, kept.table, day(9), day(12))
    with pytest.raises(InputError, match="leave out the days between"):
        apply_window(lake, kept.table, day(16), day(17))


@pytest.mark.parametrize("name", ["lake.db.totals-v2", "lake.db.a team's"])
def test_a_name_that_sql_quotes_serves_as_any_other(
    lake: SparkSession, fed: World, name: str
) -> None:
    file = Path(fed.spec_path)
    spec = yaml.safe_load(file.read_text())
    spec["state"]["totals"]["path"] = name
    file.write_text(yaml.safe_dump(spec, sort_keys=False))
    bootstrap(lake, fed.table, day(8))
    apply_window(lake, fed.table, day(8), day(10))
    rebalanced(lake, fed, "r1", capacities=(1, 1, 1, 0.3))
    shown = fed.table.state("totals", spark=lake).toPandas()
    assert shown["trips"].sum() == (fed.events["at"] < "2013-01-10").sum()


def test_state_that_begins_empty_gets_all_windows(lake: SparkSession, fed: World) -> None:
    assert bootstrap(lake, fed.table)
    apply_window(lake, fed.table, day(1), day(3))
    check(lake, fed, day(3))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("point", ["branched", "merged", "followed"])
def test_a_window_is_killed(lake: SparkSession, kept: World, point: str, number: int) -> None:
    with pytest.raises(Crash), at(point, crash, number):
        apply_window(lake, kept.table, day(8), day(10))
    if bool(number) != (point == "followed"):
        # It is in one table: the next one must not come before it is in both.
        with pytest.raises(InputError, match="--start 2013-01-08 --end 2013-01-10"):
            apply_window(lake, kept.table, day(10), day(12))
    apply_window(lake, kept.table, day(8), day(10))
    check(lake, kept, day(10))
    apply_window(lake, kept.table, day(10), day(12))
    check(lake, kept, day(12))
    for name in NAMES:
        assert list(one(lake, name).refs()) == ["main"]


@pytest.mark.parametrize(("point", "number"), [("created", 0), ("created", 1), ("published", 0)])
def test_a_bootstrap_is_killed(lake: SparkSession, fed: World, point: str, number: int) -> None:
    with pytest.raises(Crash), at(point, crash, number):
        bootstrap(lake, fed.table, day(8))
    if point == "created":
        # Another one must not complete it.
        with pytest.raises(DamagedError, match="another bootstrap"):
            bootstrap(lake, fed.table, day(7))
        # A catalog may compact a table that is there.
        one(lake, NAMES[0]).call("rewrite_data_files", {"options": "map('rewrite-all', 'true')"})
    bootstrap(lake, fed.table, day(8))
    check(lake, fed, day(8))


def test_two_bootstraps_at_once_make_one_state(
    spark: SparkSession, lake: SparkSession, fed: World, tmp_path: Path
) -> None:
    real, other = making.rows_until, [lake_in(spark, tmp_path)]

    def after_another(*given):
        if other:
            bootstrap(other.pop(), fed.table, day(8))
        return real(*given)

    with patch.object(making, "rows_until", after_another):
        bootstrap(lake, fed.table, day(8))
    check(lake, fed, day(8))
    assert fed.table.registry.numbers() == [0]


def test_two_bootstraps_at_once_make_no_tables_of_different_values(
    spark: SparkSession, lake: SparkSession, fed: World, tmp_path: Path
) -> None:
    """An amount is corrected when the other one has made its first table, and died."""
    real, other = making.rows_until, [lake_in(spark, tmp_path)]

    def after_another(*given):
        if other:
            with at("created", crash), pytest.raises(Crash):
                bootstrap(other.pop(), fed.table, day(8))
            fed.write_events(fed.events.assign(miles=fed.events["miles"] + 1))
            given = (read_events(lake, fed.table.spec), *given[1:])
        return real(*given)

    with patch.object(making, "rows_until", after_another):
        for _ in range(2):
            with pytest.raises(DamagedError, match="from other events than there are now"):
                bootstrap(lake, fed.table, day(8))
    assert fed.table.registry.numbers() == []


@pytest.mark.parametrize("point", ["branched", "merged"])
def test_two_runs_of_a_window_at_once_count_once(
    spark: SparkSession, lake: SparkSession, kept: World, point: str, tmp_path: Path
) -> None:
    other = lake_in(spark, tmp_path)
    with at(point, lambda: apply_window(other, kept.table, day(8), day(10))):
        apply_window(lake, kept.table, day(8), day(10))
    check(lake, kept, day(10))


def test_another_window_beside_it_is_refused(
    spark: SparkSession, lake: SparkSession, kept: World, tmp_path: Path
) -> None:
    other = lake_in(spark, tmp_path)
    with (
        at("merged", lambda: apply_window(other, kept.table, day(8), day(12))),
        pytest.raises(FenceError, match="up to 2013-01-12"),
    ):
        apply_window(lake, kept.table, day(8), day(10))
    check(lake, kept, day(12))


def test_a_window_beside_a_migration(
    spark: SparkSession, lake: SparkSession, kept: World, tmp_path: Path
) -> None:
    migration = planned(lake, kept, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    # It comes between the move and its publication: the rows are moved again.
    apply_window(lake, kept.table, day(8), day(9))
    verify(lake, migration)
    assert kept.table.epoch().number == 1
    check(lake, kept, day(9))
    later = planned(lake, kept, "r2", capacities=(0.3, 1, 1, 1))
    other = lake_in(spark, tmp_path)

    def move() -> None:
        migrate(other, later)
        verify(other, later)

    # An epoch is published while the window is on its branch: it has been folded by the old one.
    with at("merged", move), pytest.raises(FenceError, match="slot_2"):
        apply_window(lake, kept.table, day(9), day(11))
    assert kept.table.epoch().number == 2
    check(lake, kept, day(9))
    apply_window(lake, kept.table, day(9), day(11))
    check(lake, kept, day(11))


def executed(lake: SparkSession) -> str:
    """Return the plan of the newest MERGE into totals, as it was run."""
    listed = lake._jsparkSession.sharedState().statusStore().executionsList()
    plans = [listed.apply(i).physicalPlanDescription() for i in range(listed.size())]
    return [p for p in plans if "WriteDelta" in p and "lake.db.totals" in p][-1]


def exchanges_of_state(plan: str) -> int:
    """Count the Exchanges above the scan of the state in the tree of a plan."""
    lines = plan.splitlines()
    scan = next(i for i, line in enumerate(lines) if "BatchScan lake.db.totals" in line)
    depth, found = re.search(r"\w", lines[scan]).start(), 0
    for line in lines[scan - 1 :: -1]:
        start = re.search(r"\w|$", line).start()
        if start < depth:
            depth, found = start, found + ("Exchange" in line)
    return found


def test_no_row_of_the_state_is_shuffled(lake: SparkSession, kept: World) -> None:
    # Small tables would be sent to every task. A checkout's Spark does not adapt; others do.
    own = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "true"}
    settings = {**merging.JOIN_BY_CHANNEL, **own}
    with patch.object(merging, "JOIN_BY_CHANNEL", settings):
        apply_window(lake, kept.table, day(8), day(10))
    assert exchanges_of_state(plan := executed(lake)) == 0, plan
    # Else it would sort the state.
    assert "ShuffledHashJoin" in plan.split("Initial Plan")[0], plan
    check(lake, kept, day(10))
    off = dict.fromkeys(merging.JOIN_BY_CHANNEL, "false")
    with patch.object(merging, "JOIN_BY_CHANNEL", {**settings, **off}):
        apply_window(lake, kept.table, day(10), day(12))
    assert exchanges_of_state(plan := executed(lake)) > 0, plan
