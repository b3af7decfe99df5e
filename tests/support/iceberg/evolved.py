"""Iceberg tables whose spec changes: specs of other columns, and what pandas says of these."""

from __future__ import annotations

from datetime import date
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from tests.conftest import SEEN, World
from tests.support.iceberg.fed import NAMES, one


def with_columns(world: World, columns: dict[str, Any], **more: Any) -> World:
    """Give the table totals other columns, and the spec more tables or fewer."""
    state = {"totals": columns, "seen": SEEN["columns"], **more}
    listed = {
        name: {"path": f"lake.db.{name}", "format": "iceberg", "columns": its}
        for name, its in state.items()
        if its
    }
    return world.respec(state=listed)


def totals(lake: SparkSession) -> pd.DataFrame:
    """The rows of totals by key."""
    one(lake, "totals")
    return one(lake, "totals").rows().toPandas().set_index("dest").sort_index()


def heads(lake: SparkSession) -> dict[str, tuple[int, Any, dict[str, str]]]:
    """What a refusal must leave alone: main, columns and properties of each table."""
    return {
        name: ((table := one(lake, name)).head(), table.schema(), table.properties())
        for name in NAMES
    }


def check_totals(lake: SparkSession, world: World, evolved: date, until: date) -> None:
    """See that each column of `OTHERS` is as pandas says.

    Parameters
    ----------
    evolved : first day of the first window that has filled the new columns
    """
    events = world.events
    events = events[events["at"] < pd.Timestamp(until, tz="UTC")]
    since = events[events["at"] >= pd.Timestamp(evolved, tz="UTC")]
    now, by = totals(lake), since.groupby("dest")["miles"]
    assert now["trips"].to_dict() == events.groupby("dest").size().to_dict()
    assert now["flown"].to_dict() == events.groupby("dest")["miles"].sum().to_dict()
    assert now["least"].dropna().astype("int64").to_dict() == by.min().to_dict()
    sets = now["each"].dropna()
    assert {k: set(v) for k, v in sets.items()} == by.agg(set).to_dict()
    newest = since.sort_values("at").groupby("dest")["miles"].last().to_dict()
    assert {k: v["value"] for k, v in now["newest"].dropna().items()} == newest
