"""Cut an input into windows, with the exact load of every key in each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenkeel.backtest.inputs import (
    TYPE_NAMES,
    is_null,
    key_column,
    microseconds,
    read_columns,
    weights,
)
from partitioning.errors import InputError
from partitioning.function.hashing import Hashes, KeyColumn, key_hash
from partitioning.workload.profile import Floats

#: Microseconds.
DAY_MICROSECONDS = 86_400_000_000
_UNITS_OF_TIME = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, eq=False)
class Window:
    """Keys and rows of one window.

    Parameters
    ----------
    label : its number from 0, or its start (ISO)
    hashes, load : int64 and float64 (n,): its keys by hash, ascending, and the load of each
    rows : input rows
    stream : int32 (rows,): position in `hashes` of each row's key, by time or in input order
    weights : float64 (rows,): load of each row; None: 1 per row
    """

    label: str
    hashes: Hashes
    load: Floats
    rows: int
    stream: npt.NDArray[np.int32]
    weights: Floats | None


@dataclass(frozen=True, eq=False)
class Series:
    """Windows in order, each with load.

    Parameters
    ----------
    hashes : int64 (K,), ascending: hashes of all keys
    notes : sentences about rows and windows that were left out
    cut_off : the input seems to end in the middle of its last window
    """

    key: tuple[KeyColumn, ...]
    hashes: Hashes
    windows: tuple[Window, ...]
    notes: tuple[str, ...]
    cut_off: bool = False

    @property
    def keys(self) -> int:
        """K, the number of distinct keys."""
        return len(self.hashes)


def salted(series: Series, salt: int) -> Series:
    """Return the series with other hashes of its keys; a salt of 0 changes nothing.

    A single hash is a single draw of which keys share a slot. Several salts tell chance from gain.
    """
    if not salt:
        return series
    salts = np.full(series.keys, salt, dtype=np.int64)
    hashes = key_hash([series.hashes, salts], ["bigint", "bigint"])
    windows = []
    for window in series.windows:
        own = hashes[np.searchsorted(series.hashes, window.hashes)]
        order = np.argsort(own)
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        stream = place[window.stream]
        windows.append(replace(window, hashes=own[order], load=window.load[order], stream=stream))
    return replace(series, hashes=np.sort(hashes), windows=tuple(windows))


#: Upper limit for `rows` and `limit`: above any file, and still a valid index.
MAX_ROWS = 1 << 62


def read_series(
    path: str,
    key: Sequence[str],
    *,
    weight: str | None = None,
    rows: int | None = None,
    time: str | None = None,
    every: str | None = None,
    limit: int | None = None,
) -> Series:
    """Cut a file into windows of `rows` rows, or of the time span `every` (default 1d).

    Rows with a null key are left out, as in the job learn. The last rows are left out if they do
    not fill a window of `rows`, and so is a window without load. Windows of time start at midnight
    of the first day, in UTC if the times have a zone.

    Parameters
    ----------
    weight : column of each row's load; None: 1 per row
    time : column of the time
    limit : most rows to read

    Raises
    ------
    InputError : a file, column, type or value is wrong, or there are fewer than 2 windows
    """
    _check_windows(rows, time, every, limit)
    rows, limit = (None if n is None else min(n, MAX_ROWS) for n in (rows, limit))
    span = _span(every or "1d") if time is not None else 0
    extra = [c for c in (weight, time) if c is not None]
    table = read_columns(path, list(key), extra, limit)
    notes: list[str] = []

    kept = ~np.any([is_null(table.column(c)) for c in key], axis=0)
    if not kept.all():
        notes.append(f"rows with a null key, left out: {int((~kept).sum()):,}")
        table = table.filter(pa.array(kept))
    columns = [key_column(table.column(c), c) for c in key]
    spec = tuple(KeyColumn(c, TYPE_NAMES[a.type]) for c, a in zip(key, columns, strict=True))
    ids, hashes = _distinct(columns, [c.type for c in spec])
    load = None if weight is None else weights(table.column(weight), weight)

    if rows is not None:
        rest = len(ids) % rows
        if rest and len(ids) > rows:
            notes.append(f"the last {rest:,} rows do not fill a window and are left out")
        at, order = np.arange(len(ids)) // rows, np.arange(len(ids))
        at[len(ids) - rest :] = -1
        name: Callable[[int], str] = str
    else:
        assert time is not None
        micros = microseconds(table.column(time), time)
        start = int(micros.min()) // DAY_MICROSECONDS * DAY_MICROSECONDS if len(micros) else 0
        at, order = (micros - start) // span, np.argsort(micros, kind="stable")
        name = _names(start, span)
    windows = _cut(at, order, ids, hashes, load, name)
    found = {number: w for number, w in windows if w.load.any()}
    notes += _gaps(list(found), name)
    cut_off = [] if rows is not None else _cut_off(at, micros - start - at * span, span, name)
    if len(found) < 2:
        whole = "" if rows is None else f" of {rows:,} rows"
        raise InputError(
            f"{len(found)} windows{whole} have load, in {len(ids):,} rows with a key",
            path,
            "A backtest needs at least 2: one to learn from, one to score on",
        )
    return Series(spec, hashes, tuple(found.values()), (*notes, *cut_off), bool(cut_off))


def _check_windows(
    rows: int | None, time: str | None, every: str | None, limit: int | None
) -> None:
    """Refuse options that do not say which windows to cut, or say it twice."""
    if (rows is None) == (time is None):
        raise InputError("windows need either --rows or --time", fix="Give one of the two")
    for name, value in (("rows", rows), ("limit", limit)):
        if value is not None and value < 1:
            raise InputError(f"must be at least 1, got {value}", f"--{name}", "Give at least 1")
    if time is None and every is not None:
        raise InputError("goes with --time, got --rows", "--every", "Give --time, not --rows")


def _gaps(numbers: list[int], name: Callable[[int], str]) -> list[str]:
    """Return a note that names the first windows between these that have no load; []: none."""
    passed = max(numbers, default=0) - min(numbers, default=0) + 1 - len(numbers)
    if not numbers or not passed:
        return []
    gaps = (range(a + 1, b) for a, b in pairwise(numbers))
    shown = ", ".join(map(name, islice(chain.from_iterable(gaps), 5)))
    more = ", ..." if passed > 5 else ""
    return [f"{passed:,} windows have no load and are left out: {shown}{more}"]


def _cut_off(
    at: npt.NDArray[np.int64],
    since: npt.NDArray[np.int64],
    span: int,
    name: Callable[[int], str],
) -> list[str]:
    """Return a note if the input seems to end in the middle of its last window; []: it does not.

    The sign is that its last half has no rows, and that no other window falls silent as early.

    Parameters
    ----------
    at, since : int64 (rows,): window of each row, and microseconds from the window's start
    span : microseconds
    """
    numbers, own = np.unique(at, return_inverse=True)
    last = np.zeros(len(numbers), dtype=np.int64)
    np.maximum.at(last, own, since)
    if len(numbers) < 2 or last[-1] >= min(span / 2, last[:-1].min()):
        return []
    share = last[-1] / span
    return [
        f"the last window, {name(int(numbers[-1]))}, has rows in its first {share:.0%} alone. "
        "If the input was cut off there, take its last rows out: they are scored as a whole window"
    ]


def _distinct(columns: list[pa.Array], types: list[str]) -> tuple[npt.NDArray[np.int64], Hashes]:
    """Return the number of each row's key (n,), and the hash of each number, ascending (K,)."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    first = np.empty(0, dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode()
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * max(len(encoded.dictionary), 1) + own
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    picked = pa.array(first)
    hashes, merged = np.unique(
        key_hash([c.take(picked) for c in columns], types), return_inverse=True
    )
    return merged[codes], hashes


def _span(every: str) -> int:
    """Parse a time span, such as 1d, to microseconds."""
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", every)
    if not found or not int(found[1]):
        raise InputError(
            f"must be a number and s, m, h, d or w, got {every!r}", "--every", "Give, say, 1d"
        )
    return int(timedelta(**{_UNITS_OF_TIME[found[2]]: int(found[1])}) / timedelta(microseconds=1))


def _names(start: int, span: int) -> Callable[[int], str]:
    def name(number: int) -> str:
        at = datetime(1970, 1, 1) + timedelta(microseconds=start + number * span)
        return str(at.date()) if span % DAY_MICROSECONDS == 0 else at.isoformat()

    return name


def _cut(
    at: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
    hashes: Hashes,
    load: Floats | None,
    name: Callable[[int], str],
) -> Iterator[tuple[int, Window]]:
    """Yield (number, window) for windows with rows, in `order`; rows at -1 belong to no window."""
    order = order[np.argsort(at[order], kind="stable")]
    numbers, first = np.unique(at[order], return_index=True)
    for number, mine in zip(numbers.tolist(), np.split(order, first[1:]), strict=False):
        if number >= 0:
            keys, inverse = np.unique(ids[mine], return_inverse=True)
            own = None if load is None else load[mine]
            sums = np.bincount(inverse, own, minlength=len(keys)).astype(np.float64)
            stream = inverse.astype(np.int32)
            yield number, Window(name(number), hashes[keys], sums, len(mine), stream, own)
