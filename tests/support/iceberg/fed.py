"""Iceberg tables that Evenkeel makes from events: what pandas says of them, and steps to break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from unittest.mock import patch

import pandas as pd
from pyspark.sql import SparkSession

from evenkeel_spark.tables.iceberg.table import IcebergTable
from tests.conftest import World
from tests.support.iceberg.stages import Crash

NAMES = ("totals", "seen")


def day(number: int) -> date:
    return date(2013, 1, number)


def one(lake: SparkSession, name: str) -> IcebergTable:
    found = IcebergTable(lake, f"lake.db.{name}")
    found.refresh()
    return found


def expected(world: World, until: date) -> pd.DataFrame:
    events = world.events
    events = events[events["at"] < pd.Timestamp(until, tz="UTC")]
    by = events.groupby("dest")
    return pd.DataFrame(
        {
            "trips": by.size(),
            "miles": by["miles"].sum(),
            "first": by["at"].min(),
            "last": by["at"].max(),
            "latest": by["at"].max(),
        }
    )


def check(lake: SparkSession, world: World, until: date) -> None:
    """See that both tables are as pandas says, each row where the current epoch has it."""
    epoch, wanted = world.table.epoch(), expected(world, until)
    for name in NAMES:
        rows = one(lake, name).rows().toPandas()
        assert (rows["channel"] == epoch.lookup(rows["dest"])).all()
        assert (rows["slot"] == epoch.lookup_slot(rows["dest"])).all()
        for column in rows.select_dtypes("datetime"):
            rows[column] = rows[column].dt.tz_localize("UTC")
        found = rows.set_index("dest").sort_index().drop(columns=["slot", "channel"])
        assert found.index.is_unique
        pd.testing.assert_frame_equal(
            found, wanted[list(found.columns)], check_dtype=False, check_index_type=False
        )


@contextmanager
def at(point: str, what: Callable[[], object], number: int = 0) -> Iterator[None]:
    """Do something the time of that number, from 0, that a window comes to a crash point."""
    left = [number]

    def step(name: str) -> None:
        if name == point:
            left[0] -= 1
            if left[0] == -1:
                what()

    with patch("evenkeel_spark.runtime.crash_point.reached", step):
        yield
    assert left[0] < 0, f"{point} was not reached"


def crash() -> None:
    raise Crash
