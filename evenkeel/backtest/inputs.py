"""Read the input of a backtest, and check its columns.

Input is Parquet (a file or a folder), CSV, or text with one key per line (column `line`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset

from partitioning.errors import InputError
from partitioning.function.hashing import KEY_TYPES
from partitioning.workload.profile import Floats

LINE = "line"
OUTSIDE_OF_YEARS = "a time is outside of the years 1 to 9999"
#: Weights must be below this and above 1 / this, so that sums and squares stay finite.
MAX_WEIGHT = 1e100
#: Microseconds since 1970 of the first and last time that Python can show as a date.
EARLIEST, LATEST = (
    (at - datetime(1970, 1, 1)) // timedelta(microseconds=1) for at in (datetime.min, datetime.max)
)
#: Arrow type of a key -> its Spark SQL name.
TYPE_NAMES = {arrow: name for name, arrow in KEY_TYPES.items()}
#: Arrow's name of a type -> key type, for names that differ.
_ARROW = {str(arrow): name for arrow, name in TYPE_NAMES.items()} | {
    "large_string": "string",
    "large_binary": "binary",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "bigint",
    "date64[ms]": "date",
    # pandas stores integers with gaps as doubles. Fractions are refused below.
    "double": "bigint",
}


def read_columns(path: str, key: list[str], extra: list[str], limit: int | None) -> pa.Table:
    """Read the columns `key` and `extra` of a file, its first `limit` rows.

    Raises
    ------
    InputError : the file cannot be read, or lacks a column
    """
    wanted = list(dict.fromkeys(key + extra))
    file = Path(path)
    kind = file.suffix.lower()
    try:
        if (file / "_delta_log").is_dir():
            raise InputError(
                "expected Parquet files, found a Delta table, whose folder has removed rows, too",
                path,
                "Write a sample first: df.select(KEY, TIME).write.parquet('sample')",
            )
        if file.is_dir() or kind in (".parquet", ".pq"):
            data = pyarrow.dataset.dataset(path, format="parquet")
            _check_columns(wanted, data.schema.names, path)
            scan = data.scanner(columns=wanted)
            return scan.to_table() if limit is None else scan.head(limit)
        if kind == ".csv":
            names = pyarrow.csv.open_csv(path).schema.names
            _check_columns(wanted, names, path)
            # Keep keys as they are written: 007 and 7 are two keys. An empty field is null.
            convert = pyarrow.csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(key, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            )
            return pyarrow.csv.read_csv(path, convert_options=convert).slice(0, limit)
        lines = _text(file.read_bytes(), path).split("\n")
        _check_columns(wanted, [LINE], path)
        if not lines[-1]:
            lines.pop()
        lines = [line.removesuffix("\r") or None for line in lines[:limit]]
        return pa.table({LINE: pa.array(lines, pa.string())})
    except FileNotFoundError as error:  # Arrow's error has the path but no reason
        raise InputError("there is no such file", path, "Correct the path") from error
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"cannot be read ({reason})", path, "Give Parquet, CSV, or text with a key a line"
        ) from error


def is_null(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return whether each key is null or NaN, bool (n,)."""
    null = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    return null.to_numpy().astype(bool)


def key_column(column: pa.ChunkedArray, name: str) -> pa.Array:
    """Convert a column to a key type.

    Raises
    ------
    InputError : its type or a value cannot be a key
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = _ARROW.get(str(column.type))
    if kind is None:
        raise InputError(
            f"type {column.type} cannot be a key",
            f"column {name!r}",
            f"Allowed: {', '.join(KEY_TYPES)}",
        )
    try:
        array = column.cast(KEY_TYPES[kind]).combine_chunks()
    except pa.ArrowInvalid as error:
        raise InputError(
            f"values of type {column.type} do not all fit {kind} ({error})",
            f"column {name!r}",
            "Store the key as text, a date or whole numbers",
        ) from error
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def weights(column: pa.ChunkedArray, name: str) -> Floats:
    """Convert a column to loads, float64 (n,).

    Raises
    ------
    InputError : a load is null, negative, not finite, or too small or large to add up
    """
    try:
        values = column.cast(pa.float64()).to_numpy().astype(np.float64)
    except pa.ArrowException as error:
        raise InputError(
            f"weights must be numbers, got type {column.type}",
            f"column {name!r}",
            "Name another column by --weight, or none: then each row counts 1",
        ) from error
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        value = values[bad][0]
        raise InputError(
            f"{int(bad.sum()):,} weights are null, negative or not finite; the first is {value:g}",
            f"column {name!r}",
            "Weights must be finite and at least 0",
        )
    far = (values > 0) & ~((values > 1 / MAX_WEIGHT) & (values < MAX_WEIGHT))
    if far.any():
        raise InputError(
            f"a weight of {values[far][0]:g} is out of range",
            f"column {name!r}",
            f"Weights must be 0, or between {1 / MAX_WEIGHT:g} and {MAX_WEIGHT:g}",
        )
    return values


def microseconds(column: pa.ChunkedArray, name: str) -> npt.NDArray[np.int64]:
    """Convert a column to microseconds since 1970, int64 (n,).

    Raises
    ------
    InputError : its type is not a time, a row has no time, or a time is outside of years 1 to 9999
    """
    kind = column.type
    try:
        if not (pa.types.is_temporal(kind) or pa.types.is_string(kind)):
            raise pa.ArrowInvalid("not a time")
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        cut = pc.CastOptions(pa.timestamp("us", zone), allow_time_truncate=True)
        micros = column.cast(options=cut).cast(pa.int64())
    except pa.ArrowException as error:
        wrong = f"times must be dates, timestamps or ISO text, got type {kind}"
        raise InputError(
            OUTSIDE_OF_YEARS if pa.types.is_timestamp(kind) else wrong,
            f"column {name!r}",
            "Name another column by --time, or correct the data",
        ) from error
    if micros.null_count:
        raise InputError(
            f"{micros.null_count:,} rows have no time", f"column {name!r}", "Remove these rows"
        )
    found = micros.to_numpy()
    if len(found) and not (found.min() >= EARLIEST and found.max() <= LATEST):
        raise InputError(OUTSIDE_OF_YEARS, f"column {name!r}", "Correct the data")
    return found


def _check_columns(wanted: list[str], found: list[str], path: str) -> None:
    for name in wanted:
        if name not in found:
            raise InputError(f"no column {name!r}", path, f"Columns found: {', '.join(found)}")


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"line {line} is not UTF-8", path, "Convert it to UTF-8") from error
