"""The events of each day, drawn from the seed, and the state that they must lead to (pandas)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Row

from tests.soak.asked import Asked

FIRST = date(2013, 1, 1)
#: Days of input that stay; those of a backup and of windows that are applied again are among them.
INPUT_DAYS = 30
KEYS, EVENTS = 120, 400
#: A new hot key begins so often, and stays so many days with this share of all events.
_HOT_EVERY, _HOT_DAYS, _HOT_SHARE = 40, 15, 0.4
_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("dest", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("miles", pa.int32()),
        ("fare", pa.decimal128(12, 2)),
        ("plane", pa.string()),
    ]
)
#: How several rows of a split key become one, by hand.
_JOINED = {
    **dict.fromkeys(("trips", "miles", "fares", "paid"), sum),
    **dict.fromkeys(("first", "shortest"), min),
    **dict.fromkeys(("latest", "last", "longest"), max),
    "planes": lambda many: sorted(set().union(*many)),
}

#: Content of a state table: each key's columns.
Content = dict[str, dict[str, Any]]


def the_day(number: int) -> date:
    """The day of that number, from 0."""
    return FIRST + timedelta(days=number)


def events(seed: int, day: int) -> pd.DataFrame:
    """The events of one day, always the same.

    Ranks drift in waves of 20 to 200 days; once in a while one key is hot.
    """
    shape = np.random.default_rng([seed, 1])
    period, phase = shape.uniform(20, 200, KEYS), shape.uniform(0, 2 * np.pi, KEYS)
    waves = 0.8 * np.sin(2 * np.pi * day / period + phase)
    share = np.exp(waves - np.log(np.arange(1, KEYS + 1)))
    share /= share.sum()
    block, since = divmod(day, _HOT_EVERY)
    hot = int(np.random.default_rng([seed, 2, block]).integers(KEYS))
    if since >= _HOT_EVERY - _HOT_DAYS:
        share *= 1 - _HOT_SHARE
        share[hot] += _HOT_SHARE
    rng = np.random.default_rng([seed, 3, day])
    begin = datetime.combine(the_day(day), datetime.min.time())
    cents = rng.integers(0, 10**6, EVENTS)
    return pd.DataFrame(
        {
            "id": day * EVENTS + np.arange(EVENTS),
            "dest": [f"D{k:03d}" for k in rng.choice(KEYS, EVENTS, p=share)],
            "at": pd.to_datetime(begin).tz_localize("UTC")
            + pd.to_timedelta(np.sort(rng.integers(0, 86400, EVENTS)), unit="s"),
            "miles": rng.integers(1, 3000, EVENTS).astype(np.int32),
            "fare": [Decimal(int(c)).scaleb(-2) for c in cents],
            "plane": [f"N{p}" for p in rng.integers(0, 40, EVENTS)],
        }
    )


def write_day(folder: Path, seed: int, day: int, gone: Collection[str]) -> None:
    """Leave the day's events as a file, whole or not at all, without keys that were forgotten."""
    folder.mkdir(parents=True, exist_ok=True)
    made, unfinished = folder / f"{the_day(day)}.parquet", folder / f".{day}.unfinished"
    kept = events(seed, day).query("dest not in @gone")
    pq.write_table(pa.Table.from_pandas(kept, _SCHEMA, preserve_index=False), unfinished)
    unfinished.replace(made)


def truth(seed: int, days: int, asked: Asked) -> dict[str, Content]:
    """What each state table must hold after so many days: one fold of all events."""
    each = [events(seed, day).assign(day=day) for day in range(days)]
    every = pd.concat(each).query("dest not in @asked.gone")
    by = every.groupby("dest")
    totals = by.agg(
        **{
            "trips": ("id", "count"),
            "miles": ("miles", "sum"),
            asked.fares: ("fare", "sum"),
            "first": ("at", "min"),
        }
    )
    if asked.longest is not None:
        late = every[every["day"] >= asked.longest].groupby("dest")["miles"].max()
        totals["longest"] = (
            late.reindex(totals.index).astype(object).where(lambda m: m.notna(), None)
        )
    seen = by.agg(latest=("at", "max"), planes=("plane", lambda p: sorted(set(p))))
    found = {"totals": totals, "seen": seen}
    if asked.third is not None:
        name, since = asked.third
        late = every[every["day"] >= since].groupby("dest")
        found[name] = late.agg(last=("id", "max"), shortest=("miles", "min"))
    return {
        name: {str(key): _plain(row) for key, row in rows.iterrows()}
        for name, rows in found.items()
    }


def content(rows: list[Row]) -> Content:
    """State as found: rows of a key joined by hand, without slot and channel."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        values = row.asDict()
        parts.setdefault(values.pop("dest"), []).append(
            {name: value for name, value in values.items() if name in _JOINED}
        )
    joined = {
        key: {name: _one(name, [one[name] for one in many]) for name in many[0]}
        for key, many in parts.items()
    }
    return {key: _plain(row) for key, row in joined.items()}


def _one(name: str, values: list[Any]) -> Any:
    """What several rows of a key have in a column, as one; None: none has a value."""
    known = [value for value in values if value is not None]
    return _JOINED[name](known) if known else None


def difference(found: Content, expected: Content) -> str | None:
    """The first difference, in words; None: there is none."""
    for key in sorted(found.keys() | expected.keys()):
        if key not in found:
            return f"{key} is missing"
        if key not in expected:
            return f"{key} came from nowhere"
        for name, wanted in expected[key].items():
            if found[key][name] != wanted:
                return f"{key}.{name}: expected {wanted}, found {found[key][name]}"
    return None


def _plain(row: Any) -> dict[str, Any]:
    """Values that compare: times in seconds (events have whole ones), whole numbers as int."""
    plain = {}
    for name, value in dict(row).items():
        if isinstance(value, datetime):
            value = round(value.timestamp())
        elif isinstance(value, np.integer):
            value = int(value)
        plain[name] = value
    return plain
