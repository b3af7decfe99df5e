"""Parquet files of an input: each has all columns that are read of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import between, col, refuse_null_times
from evenkeel_spark.tables.delta.commits import READERS
from evenkeel_spark.tables.parquet_footer import footer
from partitioning.errors import InputError

#: Stands for the names that a file has between an array and its items: two, one or none.
_ITEMS = ""


def between_whole(
    events: DataFrame, spec: TableSpec, start: date | None, end: date | None
) -> DataFrame:
    """Return the events of the UTC days [start, end), from files that have all of their columns.

    Raises
    ------
    InputError : as for `check_file_columns`
    """
    events = between(events, spec, start, end)
    check_file_columns(events, spec)
    return events


def refuse_unknown_times(events: DataFrame, spec: TableSpec) -> None:
    """Refuse events without a time, or, where the spec drops them, files without the time's column.

    In such a file each event would be dropped: the column was renamed at its source.

    Raises
    ------
    InputError : as for `refuse_null_times` and `check_file_columns`
    """
    refuse_null_times(events, spec)
    if spec.input.time is not None and spec.null_times == "drop":
        time = col(spec.input.time)
        check_file_columns(events.where(time.isNull()).select(time), spec)


def check_file_columns(events: DataFrame, spec: TableSpec) -> None:
    """Refuse a Parquet file that lacks a column which is read: Spark would give nulls for it.

    A column that was renamed at its source would be merged as nulls, and its window would count as
    added. The same holds for a field of a struct, also of structs in arrays. Files without any of
    these events do not matter: a column may have come later.

    Parameters
    ----------
    events : those that are to be read, cut to their days

    Raises
    ------
    InputError : names the first such file, and what it lacks
    """
    if spec.input.format != "parquet":
        return
    with reading(spec):
        named = events.select(F.input_file_name()).distinct().collect()
        files = sorted(unquote(row[0]) for row in named if row[0])
        with ThreadPoolExecutor(READERS) as pool:
            footers = list(pool.map(partial(footer, events.sparkSession), files))
    for file, (_, columns) in zip(files, footers, strict=True):
        # Folders of a partition have a name and a value, and are below the input's.
        below = _parts(file)[len(_parts(spec.input.path)) : -1]
        folders = {part.partition("=")[0].lower() for part in below if "=" in part}
        there = {name[:depth] for name, _ in columns for depth in range(1, len(name) + 1)}
        there |= {(name,) for name in folders}
        wanted = {tuple(n.lower() for n in name): name for name in _names(events.schema)}
        if lacking := [name for name in wanted if not _has(there, name)]:
            depth = max(len(name) + name.count(_ITEMS) for name in lacking)
            shown = [".".join(filter(None, wanted[name])) for name in lacking]
            has = sorted(".".join(name) for name in there if len(name) <= depth)
            raise InputError(
                f"lacks column {', '.join(map(repr, shown))}, which other files of the input "
                f"have; it has {', '.join(has[:40])}",
                file,
                "Write the column into it by its old name, also where all of its values are null",
            )


def _parts(url: str) -> list[str]:
    """Return the names of a path, without its store."""
    return re.sub(r"^\w[\w+.-]*:(//[^/]*)?", "", url).strip("/").split("/")


def _names(fields: StructType) -> Iterator[tuple[str, ...]]:
    """Yield the name of each column, and of each field of a struct below it."""
    for field in fields:
        yield (field.name,)
        yield from ((field.name, *below) for below in _below(field.dataType))


def _below(kind: DataType) -> Iterator[tuple[str, ...]]:
    if isinstance(kind, StructType):
        yield from _names(kind)
    elif isinstance(kind, ArrayType):
        yield from ((_ITEMS, *below) for below in _below(kind.elementType))


def _has(there: Collection[tuple[str, ...]], name: tuple[str, ...]) -> bool:
    return name in there or (_ITEMS in name and any(_fits(name, other) for other in there))


def _fits(name: tuple[str, ...], there: tuple[str, ...]) -> bool:
    """Return whether a file's name of a field is this one; arrays add names of their own."""
    if not name or not there:
        return name == there
    if name[0] == _ITEMS:
        return any(_fits(name[1:], there[names:]) for names in (0, 1, 2))
    return name[0] == there[0] and _fits(name[1:], there[1:])
