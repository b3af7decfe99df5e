"""The input: events as a checked DataFrame, cut to a window, with their key and slot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenkeel.spec.custom_merges import MERGES_VARIABLE, merges
from evenkeel.spec.merges import MERGES, TIMES, Merge
from evenkeel.spec.parts import StateColumn
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.csv_files import read_csv
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.tables.delta.state import read_fixed
from evenkeel_spark.tables.filesystem import table_around
from evenkeel_spark.tables.rows.comparable import comparable
from evenkeel_spark.tables.spark_errors import first_line
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.function.sql import quoted

_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)


def col(name: str) -> Column:
    """Return a column by its name, which may have dots."""
    return F.col(quoted(name))


def read_events(
    spark: SparkSession, spec: TableSpec, function: PartitioningFunction | None = None
) -> DataFrame:
    """Read the columns of the input that the spec names, and the one by which `function` splits.

    Keys of a CSV file are read as strings. Otherwise their hash could depend on what the digits of
    other rows look like.

    Raises
    ------
    InputError : the input is missing or unreadable, or a column is missing or of a wrong type
    """
    source = spec.input
    if source.format != "delta" and (around := table_around(spark, source.path)):
        kind, folder = around
        set_path = f"input.path to {folder} and " if folder != source.path.rstrip("/") else ""
        fix = f"Set {set_path}input.format to delta in the spec"
        raise InputError(
            f"expected {source.format} files, found a {kind} table: rows that it has removed would "
            "count",
            source.path,
            fix if kind == "Delta" else "Write its rows to a folder of Parquet, and name that",
        )
    try:
        with reading(spec):
            if source.format == "csv":
                events = read_csv(spark, spec)
            elif source.format == "delta":
                events = read_fixed(spark, source.path)
            else:
                events = spark.read.format(source.format).load(source.path)
    except AnalysisException as error:
        raise InputError(
            f"there is no {source.format} input ({first_line(error)})",
            source.path,
            "Correct input.path or input.format in the spec",
        ) from error
    wanted = spec.input_columns
    row = function.row if function is not None and len(function.split) else None
    if row is not None and row.name not in events.columns:
        what = f"expected column {row.name!r}, by which keys are split, found none"
        fix = f"Bring it back; or set split.by, and run rebalance_{spec.table} with force"
        raise InputError(what, source.path, fix)
    if row is not None:
        wanted.setdefault(row.name, "split.by")
    if missing := [f"{c!r} ({field})" for c, field in wanted.items() if c not in events.columns]:
        raise InputError(
            f"there is no column {', '.join(missing)}",
            source.path,
            f"Its columns: {', '.join(events.columns[:40])}",
        )
    _check_types(events, spec)
    if row is not None and (kind := events.schema[row.name].dataType.simpleString()) != row.type:
        raise InputError(
            f"column {row.name!r} is {kind}, keys are split by it as {row.type}",
            source.path,
            f"Convert the input back; or run rebalance_{spec.table} with force",
        )
    return events.select(*(col(c) for c in wanted))


def typed_key(events: DataFrame, spec: TableSpec) -> tuple[KeyColumn, ...]:
    """Return the key's columns with the types of the input. Raise InputError if one cannot hash."""
    try:
        return tuple(KeyColumn(c, events.schema[c].dataType.simpleString()) for c in spec.key)
    except InputError as error:
        raise InputError(error.what, f"{spec.input.path}, {error.where}", error.fix) from None


def row_column(events: DataFrame, spec: TableSpec) -> KeyColumn | None:
    """Return the column by which the spec allows keys to be split, with the type of the input.

    None: the spec splits no key.

    Raises
    ------
    InputError : it has a type that cannot be hashed
    """
    if spec.split is None:
        return None
    try:
        return KeyColumn(spec.split.by, events.schema[spec.split.by].dataType.simpleString())
    except InputError as error:
        raise InputError(
            error.what, f"{spec.input.path}, split.by, {error.where}", error.fix
        ) from None


def check_key(events: DataFrame, spec: TableSpec, key: Sequence[KeyColumn]) -> None:
    """Refuse an input whose key has other types than the epoch's function was made for."""
    found = typed_key(events, spec)
    if tuple(found) != tuple(key):
        raise InputError(
            f"its key is ({_shown(found)}), the current epoch's is ({_shown(key)})",
            spec.input.path,
            "A key's columns and types never change: convert the input",
        )


def between(events: DataFrame, spec: TableSpec, start: date | None, end: date | None) -> DataFrame:
    """Return the events of the UTC days [start, end). None: open.

    It compares the raw column, so that Parquet can prune by it.
    """
    time = need_time(spec)
    kind = events.schema[time].dataType.simpleString()
    for day, compare in ((start, Column.__ge__), (end, Column.__lt__)):
        if day is not None:
            events = events.where(compare(col(time), F.lit(day.isoformat()).cast(kind)))
    return events


def need_time(spec: TableSpec) -> str:
    """Return the name of the time column. Raise InputError if the spec has none."""
    if spec.input.time is None:
        raise InputError("input.time is not set", f"spec of {spec.table}", "Name its time column")
    return spec.input.time


def day_of(spec: TableSpec) -> Column:
    """Return the UTC day (DATE) of each event."""
    return col(need_time(spec)).cast("date")


def load_of(spec: TableSpec) -> Column:
    """Return the aggregate of the events' load (DOUBLE)."""
    load = F.count(F.lit(1)) if spec.load is None else F.sum(col(spec.load).cast("double"))
    return load.cast("double")


def day_number(day: date) -> int:
    """Return the days since 1970, as in Delta's transaction ids and in sketches."""
    return (day - date(1970, 1, 1)).days


def null_key(spec: TableSpec) -> Column:
    """Return whether any column of the key is null."""
    found = F.lit(False)
    for name in spec.key:
        found = found | col(name).isNull()
    return found


def without_null_keys(events: DataFrame, spec: TableSpec) -> DataFrame:
    """Drop events with a null in the key if the spec says so."""
    return events.where(~null_key(spec)) if spec.null_keys == "drop" else events


def refuse_null_keys(count: int, spec: TableSpec) -> None:
    """Raise InputError if there are null keys and the spec refuses them."""
    if count and spec.null_keys == "refuse":
        raise InputError(
            f"{count} events have a null in the key ({', '.join(spec.key)})",
            spec.input.path,
            "Correct them, or set null_keys to drop or keep in the spec",
        )


def refuse_null_times(events: DataFrame, spec: TableSpec) -> None:
    """Refuse an input with events that have no time, unless the spec drops them.

    No window would ever have them. This costs a Spark job; Parquet and Delta skip files without
    nulls.

    Raises
    ------
    InputError : says how many there are
    """
    if spec.input.time is None or spec.null_times == "drop":
        return
    with reading(spec):
        count = events.where(col(spec.input.time).isNull()).count()
    if count:
        raise InputError(
            f"{count} events have a null for their time ({spec.input.time}): no window has them",
            spec.input.path,
            "Correct them, or set null_times to drop in the spec",
        )


def with_times(events: DataFrame, spec: TableSpec) -> DataFrame:
    """Leave out events that have no time, once `refuse_null_times` has let them pass.

    Events of a caller's own stream may lack the column. Their time is then not asked for.
    """
    time = spec.input.time
    if time is None or time not in events.columns:
        return events
    refuse_null_times(events, spec)
    return events.where(col(time).isNotNull())


def _check_types(events: DataFrame, spec: TableSpec) -> None:
    def kind(name: str) -> T.DataType:
        return events.schema[name].dataType

    def refuse(name: str, allowed: str) -> InputError:
        return InputError(
            f"column {name!r} is {kind(name).simpleString()}",
            spec.input.path,
            f"Allowed: {allowed}",
        )

    typed_key(events, spec)
    row_column(events, spec)
    if spec.input.time is not None and not isinstance(kind(spec.input.time), _TIMES):
        raise refuse(spec.input.time, "date or timestamp, for input.time")
    if spec.load is not None and not isinstance(kind(spec.load), T.NumericType):
        raise refuse(spec.load, "a number, for load")
    for table, state in spec.state.items():
        for name, column in state.columns.items():
            where, merge = f"state.{table}.columns.{name}", merges()[column.merge]
            if column.of is not None and not merge.takes(kind(column.of).simpleString()):
                raise refuse(column.of, f"{merge.types_text}, for {column.merge} ({where})")
            if column.merge not in MERGES:
                _check_own(events, column, merge)
            by = spec.last_by(column) if column.merge == "last" else None
            if by is not None and kind(by).simpleString() not in TIMES:
                raise refuse(by, f"a date, timestamp or whole number, for `by` ({where})")


def _check_own(events: DataFrame, column: StateColumn, merge: Merge) -> None:
    """Refuse a custom merge that is no SQL for its column, or changes a partial value's type."""
    where = f"merge {column.merge!r} of {MERGES_VARIABLE}"
    try:
        folded = events.agg(F.expr(merge.fold(quoted(column.of or ""), "")).alias("x"))
        kinds = {
            "fold": folded.schema["x"].dataType,
            "pair": folded.select(F.expr((merge.bare or merge.pair)("x", "x"))).schema[0].dataType,
            "every": folded.agg(F.expr(merge.every("x"))).schema[0].dataType,
        }
    except (AnalysisException, ParseException) as error:
        what = f"does not do for column {column.of!r} ({first_line(error)})"
        raise InputError(what, where, "Correct its SQL") from error
    # Fields of structs may be null or not.
    if len({kind.simpleString() for kind in kinds.values()}) > 1:
        types = ", ".join(f"{n} {k.simpleString()}" for n, k in kinds.items())
        raise InputError(f"changes the type of column {column.of!r}: {types}", where, "Add casts")
    if not comparable(kinds["fold"]):
        raise InputError(
            f"makes {kinds['fold'].simpleString()} of column {column.of!r}: rows with a map or a "
            "variant cannot be compared",
            where,
            "Make an array of structs of it, or a string",
        )


def _shown(key: Sequence[KeyColumn]) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in key)
