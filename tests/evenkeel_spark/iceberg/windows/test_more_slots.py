"""Iceberg tables whose slots are split: no row is written but those that change their channel."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs.apply_window import apply_window
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.iceberg.fed import at, check, crash, day
from tests.support.iceberg.stages import Crash
from tests.support.iceberg.tables import planned

pytestmark = pytest.mark.spark


def test_slots_are_split_between_windows(lake: SparkSession, kept: World) -> None:
    kept.respec(slots=128)
    apply_window(lake, kept.table, day(8), day(10))
    migration = planned(lake, kept, "r1", capacities=(1, 1, 0, 1))
    assert (len(migration.after.slots), migration.after.row_slots) == (128, 64)
    assert (migration.after.slots[:64] != migration.after.slots[64:]).any()
    migrate(lake, migration)
    roll_back(lake, migration)
    check(lake, kept, day(10))
    migrate(lake, migration)
    with pytest.raises(Crash), at("followed", crash):
        verify(lake, migration)
    verify(lake, migration)
    assert len(kept.table.epoch().function.slots) == 128
    check(lake, kept, day(10))
    apply_window(lake, kept.table, day(10), day(12))
    check(lake, kept, day(12))
    repair(lake, kept.table)
    check(lake, kept, day(12))
    for slots in (64, 192):
        kept.respec(slots=slots)
        with pytest.raises(InputError, match=f"has slots = 128, the spec says {slots}"):
            planned(lake, kept, "r2")
    check(lake, kept, day(12))
