"""Input files and what their columns may hold. Reads, and decides nothing.

Parquet (a file or a folder of them), CSV, or plain text of one key a line (its column is `line`).
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
FAR = "there are times outside of the years 1 to 9999"
#: Weights are below this and above 1 / this: their sums and squares stay numbers.
MOST_WEIGHT = 1e100
#: Microseconds since 1970 of what can be told as a date.
EARLIEST, LATEST = (
    (at - datetime(1970, 1, 1)) // timedelta(microseconds=1) for at in (datetime.min, datetime.max)
)
#: Arrow type of a key -> its Spark SQL name.
TYPE_NAMES = {arrow: name for name, arrow in KEY_TYPES.items()}
#: Key types that Arrow spells otherwise.
_ARROW = {str(arrow): name for arrow, name in TYPE_NAMES.items()} | {
    "large_string": "string",
    "large_binary": "binary",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "bigint",
    "date64[ms]": "date",
    # What pandas makes of integers with gaps; refused below unless all are whole.
    "double": "bigint",
}


def read_columns(path: str, key: list[str], extra: list[str], limit: int | None) -> pa.Table:
    """The columns `key` and `extra` of a file, the first `limit` rows.

    Raises
    ------
    InputError : a file that cannot be read, or a column that it does not have
    """
    wanted = list(dict.fromkeys(key + extra))
    file = Path(path)
    try:
        if file.is_dir() or file.suffix in (".parquet", ".pq"):
            data = pyarrow.dataset.dataset(path, format="parquet")
            _check_columns(wanted, data.schema.names, path)
            scan = data.scanner(columns=wanted)
            return scan.to_table() if limit is None else scan.head(limit)
        if file.suffix == ".csv":
            names = pyarrow.csv.open_csv(path).schema.names
            _check_columns(wanted, names, path)
            # Keys as they are written: 007 and 7 are two. An empty field is null.
            convert = pyarrow.csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(key, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            )
            return pyarrow.csv.read_csv(path, convert_options=convert).slice(0, limit)
        _check_columns(wanted, [LINE], path)
        lines = _text(file.read_bytes(), path).split("\n")
        if not lines[-1]:
            lines.pop()
        lines = [line.removesuffix("\r") or None for line in lines[:limit]]
        return pa.table({LINE: pa.array(lines, pa.string())})
    except FileNotFoundError as error:  # Arrow's tells the path and no reason
        raise InputError("there is no such file", path) from error
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot be read ({reason})", path) from error


def is_null(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Where a key is null, NaN included, (n,)."""
    null = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    return null.to_numpy().astype(bool)


def key_column(column: pa.ChunkedArray, name: str) -> pa.Array:
    """A column as a key type.

    Raises
    ------
    InputError : a type or values that cannot be a key
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
            "A key is text, a date or whole numbers",
        ) from error
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def weights(column: pa.ChunkedArray, name: str) -> Floats:
    """A column as loads, (n,).

    Raises
    ------
    InputError : loads that are null, negative, not finite or out of all proportion
    """
    try:
        values = column.cast(pa.float64()).to_numpy().astype(np.float64)
    except pa.ArrowException as error:
        raise InputError(f"type {column.type} is no weight", f"column {name!r}") from error
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        value = values[bad][0]
        raise InputError(
            f"{int(bad.sum()):,} weights are null, negative or not finite; the first is {value:g}",
            f"column {name!r}",
            "Weights are finite and at least 0",
        )
    far = (values > 0) & ~((values > 1 / MOST_WEIGHT) & (values < MOST_WEIGHT))
    if far.any():
        raise InputError(
            f"a weight of {values[far][0]:g} is out of all proportion",
            f"column {name!r}",
            f"Weights over 0 are between {1 / MOST_WEIGHT:g} and {MOST_WEIGHT:g}",
        )
    return values


def times(column: pa.ChunkedArray, name: str) -> npt.NDArray[np.int64]:
    """A column as microseconds since 1970, (n,).

    Raises
    ------
    InputError : another type, rows without a time, or times outside of the years 1 to 9999
    """
    kind = column.type
    try:
        if not (pa.types.is_temporal(kind) or pa.types.is_string(kind)):
            raise pa.ArrowInvalid("not a time")
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        cut = pc.CastOptions(pa.timestamp("us", zone), allow_time_truncate=True)
        micros = column.cast(options=cut).cast(pa.int64())
    except pa.ArrowException as error:
        wrong = f"values of type {kind} are no times"
        raise InputError(
            FAR if pa.types.is_timestamp(kind) else wrong, f"column {name!r}"
        ) from error
    if micros.null_count:
        raise InputError(f"{micros.null_count:,} rows have no time", f"column {name!r}")
    found = micros.to_numpy()
    if len(found) and not (found.min() >= EARLIEST and found.max() <= LATEST):
        raise InputError(FAR, f"column {name!r}")
    return found


def _check_columns(wanted: list[str], found: list[str], path: str) -> None:
    for name in wanted:
        if name not in found:
            raise InputError(f"no column {name!r}", path, f"It has: {', '.join(found)}")


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"line {line} is not UTF-8", path) from error
