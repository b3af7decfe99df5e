"""Specs of a replay: for the user's own data, or those of this checkout, in the replay's folder."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path

import yaml

from evenkeel.local_env import ROOT
from evenkeel.table import Table
from partitioning.errors import InputError


def own_spec(
    path: str,
    key: str | None,
    time: str | None,
    days: int,
    folder: Path,
    null_keys: str = "refuse",
) -> Path:
    """Write a spec for the user's own data, and return its path.

    The state of a key is its number of events and the time of its last event.

    Parameters
    ----------
    path : Parquet or CSV, a file or a folder
    key : key columns, separated by commas
    time : date or timestamp column
    days : days per window
    folder : folder for the spec, the state and the registry
    null_keys : what to do with events whose key has a null: refuse, drop or keep

    Raises
    ------
    InputError : `key` or `time` is missing, or `path` does not exist
    """
    if not key or not time:
        raise InputError(
            "DATA needs KEY and TIME", fix="Name the key column and the date or time column"
        )
    data = Path(path).resolve()
    if not data.exists():
        raise InputError("there is no such file or folder", str(data), "Correct DATA")
    name = re.sub(r"\W+", "_", data.stem, flags=re.ASCII).strip("_")[:50] or "own"
    name = name if name[0].isalpha() else f"t_{name}"
    spec = {
        "table": name,
        "key": [k.strip() for k in key.split(",")],
        "null_keys": null_keys,
        "input": {
            "path": str(data),
            "format": "csv" if _is_csv(data) else "parquet",
            "time": time,
        },
        "window": days,
        "decay": None,  # for the window as it was: a round serves as many days
        "state": {
            name: {
                "path": f"../state/{name}",
                "columns": {
                    "events": {"merge": "count"},
                    "last_seen": {"merge": "max", "of": time},
                },
            }
        },
        "registry": f"../registry/{name}",
        "channels": 10,
        "trigger": 1.05,
        "max_imbalance": 1.02,
    }
    # Its own folder, because all specs in a folder become tables of one Airflow.
    file = folder / f"tables-{name}" / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return file


def shipped_spec(name: str, folder: Path) -> Path:
    """Return the path of a spec of this checkout, whose files are all in a replay's folder.

    Parameters
    ----------
    name : of the table
    folder : of the replay; another one than the checkout's `.run` gets a copy of the spec
    """
    spec = ROOT / "tables" / f"{name}.yaml"
    if folder == ROOT / ".run" or not spec.is_file():
        return spec
    file = folder / "tables" / spec.name
    file.parent.mkdir(exist_ok=True)
    file.write_text(spec.read_text(encoding="utf-8").replace("../.run/", "../"), encoding="utf-8")
    return file


def _is_csv(data: Path) -> bool:
    files = data.rglob("*") if data.is_dir() else [data]
    return any(f.suffix.lower() in (".csv", ".gz", ".txt") and f.name[0] not in "._" for f in files)


def input_days(table: Table) -> tuple[date, date]:
    """Return the first and last day of a table's input, read without Spark.

    Today (UTC) and later days are ignored. One wrong year must not become the last day, and jobs
    refuse a day that is not over.

    Raises
    ------
    InputError : the time column is not a date, a timestamp or text of a CSV, cannot be read as
        dates, or has no day that is over
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from evenkeel.backtest.inputs import OUTSIDE_OF_YEARS

    source, column = table.spec.input, table.spec.input.time
    try:
        data = ds.dataset(source.path, format=source.format)
        scanned = data.to_table(columns=[column])
        kind = scanned[column].type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        of_days = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        if not (of_days or pa.types.is_null(kind) or (text and source.format == "csv")):
            if source.format == "csv":
                fix = "Write it as 2013-01-31 or 2013-01-31T05:00:00"
            else:
                fix = "Store it as a date or timestamp" + (", or use CSV" if text else "")
            raise InputError(
                f"{column} must be a date or timestamp, found {'text' if text else kind}",
                source.path,
                fix,
            )
        times = scanned[column]
        today = datetime.now(UTC).date()
        if of_days:
            zone = UTC if getattr(kind, "tz", None) else None
            midnight = datetime(today.year, today.month, today.day, tzinfo=zone)
            ahead = today if pa.types.is_date(kind) else midnight
            times = times.filter(pc.less(times, pa.scalar(ahead, kind)))
            if not len(times) and scanned[column].null_count < len(scanned):
                raise InputError(
                    f"{column} has no day that is over (UTC)", source.path, "Check the years in it"
                )
        ends = pc.min_max(times).as_py()
        first, last = (_day(ends[name]) for name in ("min", "max"))
    except OverflowError as error:
        raise InputError(
            f"{column}: {OUTSIDE_OF_YEARS}", source.path, "Correct these dates"
        ) from error
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{column} cannot be read as dates ({reason})",
            source.path,
            "See that the file is whole, and store the column as a date or timestamp",
        ) from error
    if first is None or last is None:
        raise InputError(f"{column} has no dates", source.path, "Name the date or time column")
    return first, last


def _day(value: datetime | date | str | None) -> date | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        # A day is a UTC day everywhere.
        return (value.astimezone(UTC) if value.tzinfo else value).date()
    return value
