"""Make up a week of events for a spec of this folder: `spark-submit made_up.py SPEC`.

The first key has half of the events. Tables of a team's own are written, too.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from pyspark.sql import SparkSession

EVENTS, KEYS, DAYS = 2000, 200, 7


def made_up(spec: dict[str, Any]) -> pd.DataFrame:
    """Return events with the columns that a spec names, one row each."""
    rng = np.random.default_rng(3)
    keys = np.where(rng.random(EVENTS) < 0.5, 0, rng.integers(1, KEYS, EVENTS))
    frame = pd.DataFrame({name: [f"{name} {k}" for k in keys] for name in spec["key"]})
    days = np.sort(rng.integers(0, DAYS, EVENTS))
    # No two events at one time, so that a key has one last event.
    seconds = days * 86_400 + np.arange(EVENTS)
    times = pd.Series([datetime(2026, 1, 1) + timedelta(seconds=int(s)) for s in seconds])
    frame[spec["input"]["time"]] = times.dt.date if spec["input"]["time"] == "day" else times
    parts = spec["state"].values()
    columns = [column for part in parts for column in part.get("columns", {}).values()]
    for column in columns:
        if column["merge"] == "copy":
            frame[column["of"]] = [f"{column['of']} of {k}" for k in keys]
    for name in sorted({c["of"] for c in columns if "of" in c} - {*frame}):
        frame[name] = rng.integers(1, 100, EVENTS)
    if "split" in spec:
        frame[spec["split"]["by"]] = [f"id {i}" for i in range(EVENTS)]
    if "load" in spec:
        frame[spec["load"]] = np.where(keys == 0, 9.0, 1.0)
    for name in sorted({n for part in parts for n in part.get("partitions", [])} - {*frame}):
        frame[name] = times.dt.strftime("%Y-%m")
    return frame


def write(spark: SparkSession, spec: dict[str, Any], events: pd.DataFrame) -> None:
    """Write events where a spec reads them, and one row a key to a team's tables of such rows."""
    given = spec["input"]
    spark.createDataFrame(events).write.format(given.get("format", "parquet")).save(given["path"])
    for part in spec["state"].values():
        if part.get("rows") == "one":
            time = given["time"]
            rows = events.groupby(spec["key"], as_index=False).agg(since=(time, "min"))
            spark.createDataFrame(rows).write.format("delta").save(part["path"])


if __name__ == "__main__":
    made = yaml.safe_load(Path(sys.argv[1]).read_text())
    write(SparkSession.builder.getOrCreate(), made, made_up(made))
