"""What bootstrap makes of the events, as pandas has it."""

from __future__ import annotations

from datetime import date

import pandas as pd

END = date(2013, 1, 8)


def rows(spark, path: str) -> pd.DataFrame:
    return spark.read.format("delta").load(path).toPandas()


def expected(events: pd.DataFrame) -> pd.DataFrame:
    grouped = events.groupby("dest")
    return pd.DataFrame(
        {
            "trips": grouped.size(),
            "miles": grouped["miles"].sum().astype("int64"),
            "first": grouped["at"].min(),
            "last": grouped["at"].max(),
        }
    )
