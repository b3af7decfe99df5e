"""An Iceberg table that is watched: its micro-batches, and what pandas says of its state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pyspark.sql import SparkSession

from evenkeel_spark.tables.iceberg.table import IcebergTable
from tests.support.worlds.live import EVERY, SPEC, Live

#: Number of the first micro-batch of the second day. The state has the events of the first day.
SECOND_DAY = 24 * 60 // EVERY
#: Numbers of the micro-batches that follow the even one: the first two are hot.
ONE, TWO, THREE = (SECOND_DAY + n for n in (1, 2, 3))
#: Days after the first and the second.
FIRST_ENDS, SECOND_ENDS = date(2013, 1, 2), date(2013, 1, 3)
MADE = {
    "totals": {
        "path": "lake.db.totals",
        "format": "iceberg",
        "columns": SPEC["state"]["totals"]["columns"],
    }
}
TEAM = {
    "orders": {"path": "lake.db.orders", "format": "iceberg", "rows": "many"},
    "profiles": {"path": "lake.db.profiles", "format": "iceberg", "rows": "one"},
}


@dataclass(frozen=True)
class Watched(Live):
    """A watched Iceberg table."""

    def write_spec(self, state: dict[str, Any]) -> Watched:
        spec = {**SPEC, "state": state}
        del spec["split"]
        Path(self.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
        return self

    def check(self, spark: SparkSession, until: date = FIRST_ENDS) -> None:
        """See that the state is that of all events before a day, and stands as the epoch says."""
        files = sorted((self.folder / "events").glob("*.parquet"))
        events = pd.concat([pd.read_parquet(f) for f in files])
        wanted = events[events["at"] < pd.Timestamp(until, tz="UTC")].groupby("dest")
        epoch, table = self.table.epoch(), IcebergTable(spark, MADE["totals"]["path"])
        table.refresh()
        rows = table.rows().toPandas().set_index("dest").sort_index()
        assert (table.epoch(), list(table.refs())) == (epoch.number, ["main"])
        assert rows.index.is_unique and len(rows) == wanted.ngroups
        assert (rows["trips"] == wanted.size()).all()
        assert (rows["miles"] == wanted["miles"].sum()).all()
        assert (rows["channel"] == epoch.lookup(rows.index)).all()
        assert (rows["slot"] == epoch.lookup_slot(rows.index)).all()
