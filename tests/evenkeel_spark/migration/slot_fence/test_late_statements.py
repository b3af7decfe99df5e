"""Late statements of jobs that were given up: a fence by slot would admit what they write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.verify import verify
from partitioning.errors import FenceError
from partitioning.function.function import PartitioningFunction
from tests.support import delta_rs
from tests.support.delta_rs import ALL, visits
from tests.support.placed import HEAVY, Placed, before_the_statement, end_by, planned

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def without_heavy(function: PartitioningFunction) -> PartitioningFunction:
    """The heavy key is back on its slot's channel, and nothing else moves."""
    none = np.array([], dtype=np.int64)
    return replace(
        function,
        explicit_keys=none,
        explicit_channels=none.astype(function.explicit_channels.dtype),
        epoch=function.epoch + 1,
        parent=function.digest,
    )


@pytest.fixture
def moved(spark: SparkSession, home: Placed) -> Placed:
    """The heavy key has a channel of its own."""
    migration = home.migration("r1")
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    return home


@pytest.mark.parametrize("ended_by", ["roll_back", "repair"])
def test_a_migration_that_was_rolled_back_moves_nothing_more(
    spark: SparkSession, moved: Placed, ended_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = moved.table.epoch().function
    planned(spark, moved, "r2", function=without_heavy(now), profile=None)
    late = moved.migration("r2")
    before_the_statement(monkeypatch, lambda: end_by(spark, moved, "r2", ended_by))
    with pytest.raises(FenceError, match="this run was rolled back"):
        migrate(spark, late)
    # Raises where a row is not where the epoch says.
    assert visits(spark, moved, now) == ALL
    assert repair(spark, moved.table) == []


def test_a_repair_that_sleeps_places_nothing_by_an_epoch_of_before(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = home.table.epoch()
    slot = int(epoch.lookup_slot([HEAVY])[0])
    # A heavy key's row in a wrong slot: the repair is to bring it to the slot's own channel.
    wrong = (slot + 1) % len(epoch.function.slots)
    where = {"slot": wrong, "channel": int(epoch.function.slots[wrong])}
    delta_rs.append(home.path(), epoch, {"new": 3}, **where)

    def another_goes_first() -> None:
        repair(spark, home.table)
        planned(spark, home, "r3", profile=None)
        migration = home.migration("r3")
        migrate(spark, migration)
        verify(spark, migration)
        publish(spark, migration)

    before_the_statement(monkeypatch, another_goes_first, ids=1)
    with pytest.raises(FenceError, match="evenkeel_epoch_1 by now"):
        repair(spark, home.table)
    now = home.table.epoch().function
    assert now.epoch == 1 and visits(spark, home, now) == {**ALL, "new": 3}
