"""SQL of state tables: their names, and one row a key for readers, even for split keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evenkeel.spec.custom_merges import merges
from evenkeel.spec.merges import raising
from evenkeel.spec.parts import CHANNEL, SLOT, StateTable
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import quoted, string_sql
from partitioning.moves.partial_rows import listed_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


#: Table property with the merge of each state column, as JSON.
COLUMNS_PROPERTY = "evenkeel.columns"


def noted_merge(merge: str) -> str:
    """Return a merge as a table notes it: by its name, and by the SQL of one of your own."""
    version = merges()[merge].version
    return f"{merge}@{version}" if version else merge


def goes_by(noted: str, merge: str) -> bool:
    """Return whether a column that was made as a table notes it is merged by a merge of now.

    Tables of earlier versions note the name alone.
    """
    return noted in (merge, noted_merge(merge))


def check_merges(name: str, table: StateTable, properties: Mapping[str, str]) -> None:
    """Refuse a spec that merges a column in another way than the values in the table were made.

    Partial rows of a split key would be added up to another value.

    Parameters
    ----------
    name : of the state table, in the spec
    properties : of the table. One of an early version does not say how its columns were made

    Raises
    ------
    InputError : names the first column that differs, what it was, and what it is
    """
    made = json.loads(properties.get(COLUMNS_PROPERTY, "{}"))
    for column, asked in table.columns.items():
        if goes_by(was := made.get(column, asked.merge), asked.merge):
            continue
        raise InputError(
            f"column {column!r} was made by merge {was}, the spec says {noted_merge(asked.merge)}",
            f"{name} ({table.path})",
            edited_merge_fix(table, made, column)
            if is_edited(was, asked.merge)
            else "Set it back. For another merge, add a column of a new name, and drop this one by "
            "`evenkeel evolve TABLE`",
        )


def is_edited(noted: str, merge: str) -> bool:
    """Return whether a column was made by a merge of this name, and by other SQL of it."""
    return not goes_by(noted, merge) and noted.partition("@")[0] == merge


def edited_merge_fix(table: StateTable, made: Mapping[str, str | None], column: str) -> str:
    """Return what to do if the SQL of a column's merge was edited.

    Parameters
    ----------
    made : the merge of each column, as the table notes it
    """
    now = json.dumps({**made, column: noted_merge(table.columns[column].merge)})
    return (
        "The SQL of this merge was edited: set it back, here or where the table was made. If both "
        f"give the same values: ALTER TABLE {table_sql(table)} SET TBLPROPERTIES "
        f"('{COLUMNS_PROPERTY}' = {string_sql(now)})"
    )


def sql_name(path: str) -> str:
    """Return a table's folder as Spark SQL names it."""
    return f"delta.{quoted(path)}"


def iceberg_name(path: str) -> str:
    """Return an Iceberg table's name as SQL has it."""
    return ".".join(quoted(part) for part in path.split("."))


def table_sql(table: StateTable) -> str:
    """Return a state table of either format as Spark SQL names it."""
    return iceberg_name(table.path) if table.format == "iceberg" else sql_name(table.path)


def slot_column(epoch: int) -> str:
    """Return the name of the slot's column in Iceberg tables while an epoch is in force.

    The name is the fence: a writer that routes by another epoch names a column that is not there.
    """
    return f"{SLOT}_{epoch}"


def merged(table: StateTable) -> dict[str, str]:
    """Return the SQL aggregate of partial values for each state column."""
    return {name: merges()[c.merge].every(quoted(name)) for name, c in table.columns.items()}


def wide_columns(table: StateTable) -> dict[str, str]:
    """Return the SQL of the bytes, uncompressed, of each state column that may have wide values."""
    found = {name: merges()[c.merge].width for name, c in table.columns.items()}
    return {name: width(quoted(name)) for name, width in found.items() if width is not None}


def width_sql(table: StateTable) -> str | None:
    """Write SQL (BIGINT) for the bytes, uncompressed, of all `wide_columns` of a row.

    None: there is no such column.
    """
    widths = [f"coalesce({sql}, 0)" for sql in wide_columns(table).values()]
    return f"CAST({' + '.join(widths)} AS BIGINT)" if widths else None


def held_sql(sql: str, kind: str, name: str) -> str:
    """Write SQL for a merged value in the column's type. It fails if the type cannot hold it."""
    if not kind.lower().startswith("decimal"):
        return f"CAST({sql} AS {kind})"
    # A sum may have more digits than its column. A plain CAST gives null if ANSI is off.
    held, more = f"try_cast({sql} AS {kind})", raising(f"{name} is more than {kind} holds")
    return f"IF({sql} IS NOT NULL AND {held} IS NULL, {more}, {held})"


def joined(
    rows: DataFrame, table: StateTable, key: Sequence[str], more: Sequence[Column] = ()
) -> DataFrame:
    """Merge all rows of each key of a state table into one: slot, key, state columns.

    Parameters
    ----------
    rows, table, key : of the state table
    more : further aggregates of each key's rows
    """
    from pyspark.sql import functions as F

    types = kinds(rows.schema)
    columns = [
        F.expr(held_sql(sql, types[name], quoted(name))).alias(name)
        for name, sql in merged(table).items()
    ]
    return rows.groupBy(SLOT, *(F.col(quoted(c)) for c in key)).agg(*columns, *more)


def kinds(schema: StructType) -> dict[str, str]:
    """Return the type of each column as SQL names it, with the names in structs quoted."""
    return {c.name: sql_type(c.dataType) for c in schema}


def sql_type(kind: DataType) -> str:
    """Return a type as SQL names it, with the names in structs quoted."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField("x", kind)]).toDDL()[2:]


def one_row_a_key(
    source: str,
    kinds: Mapping[str, str],
    table: StateTable,
    function: PartitioningFunction,
    every: bool = False,
) -> str:
    """Write SQL (SELECT) for a state table with one row a key: slot, key, state columns.

    Rows of whole keys pass through without a shuffle. If any key is split, the table is read a
    second time for rows of split keys, which is little of files that are sorted by slot.

    Parameters
    ----------
    source : what to select from: the state table, placed by `function`
    kinds : type of each column, as from `kinds`
    table : its part of the spec
    function : of the epoch
    every : merge the rows of all keys, with a shuffle, because another function may have split
        some
    """
    if table.plain or table.format == "iceberg":
        # Keys of Iceberg tables are never split.
        return f"SELECT {', '.join(quoted(n) for n in kinds if n != CHANNEL)} FROM {source}"
    key = [quoted(c.name) for c in function.key]
    shown = [quoted(SLOT), *key, *map(quoted, table.columns)]
    rows = f"SELECT {', '.join(shown)} FROM"
    sums = [
        f"{held_sql(sql, kinds[n], quoted(n))} AS {quoted(n)}" for n, sql in merged(table).items()
    ]
    by = ", ".join([quoted(SLOT), *key])
    if every:
        return f"SELECT {', '.join([by, *sums])} FROM {source} GROUP BY {by}"
    if not len(function.split):
        return f"{rows} {source}"
    split = listed_sql(function.key, function.row_slots, function.split.keys, SLOT)
    one = f"SELECT {', '.join([by, *sums])} FROM state WHERE {split} GROUP BY {by}"
    # Name the table once, so that both halves read the same version.
    return f"WITH state AS ({rows} {source}) {rows} state WHERE NOT {split} UNION ALL {one}"
