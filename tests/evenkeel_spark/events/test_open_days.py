"""A window ends when its last day is over, by the zone that its times have or may have."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.events.open_days import refuse_open_days
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.team_tables import content

pytestmark = pytest.mark.spark

#: The fifth is over at noon UTC on the islands that are the first to see a day, and not in UTC.
NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "last"),
    [("timestamp", 5), ("timestamp_ntz", 6), ("date", 6)],
)
def test_days_are_over_by_their_own_zone(
    spark: SparkSession, world: World, kind: str, last: int
) -> None:
    events = spark.createDataFrame([], f"`{world.table.spec.input.time}` {kind}")
    refuse_open_days(events, world.table.spec, date(2026, 3, last), NOON)
    with pytest.raises(
        InputError, match=f"end of 2026-03-0{last + 1}, and it may be 2026-03-0{last} at"
    ):
        refuse_open_days(events, world.table.spec, date(2026, 3, last + 1), NOON)


def test_no_job_counts_a_day_that_is_not_over(spark: SparkSession, ready: World) -> None:
    """Its later events would never be counted: the next window begins after it."""
    later = datetime.now(UTC).date() + timedelta(days=2)
    before = content(spark, ready, "state/totals")
    with pytest.raises(InputError, match="expected days that are over"):
        apply_window(spark, ready.table, later - timedelta(days=1), later, allow_gap=True)
    assert content(spark, ready, "state/totals") == before
    assert ready.table.registry.files.window(later).find() is None


def test_no_first_state_has_a_day_that_is_not_over(spark: SparkSession, world: World) -> None:
    later = datetime.now(UTC).date() + timedelta(days=2)
    with pytest.raises(InputError, match="expected days that are over"):
        bootstrap(spark, world.table, later)
    assert world.table.registry.numbers() == []
