"""State as its readers want it: one row a key, whichever keys are split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evenkeel.spec.custom_merges import merges
from evenkeel.spec.merges import raising
from evenkeel.spec.parts import StateTable
from evenkeel.spec.table_spec import SLOT
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import quoted
from partitioning.moves.partial_rows import listed_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def merged(table: StateTable) -> dict[str, str]:
    """SQL aggregate of partials by state column."""
    return {name: merges()[c.merge].every(quoted(name)) for name, c in table.columns.items()}


def wide_columns(table: StateTable) -> dict[str, str]:
    """SQL for the bytes, uncompressed, of each state column that may have many in a row."""
    found = {name: merges()[c.merge].width for name, c in table.columns.items()}
    return {name: width(quoted(name)) for name, width in found.items() if width is not None}


def width_sql(table: StateTable) -> str | None:
    """SQL (BIGINT) for the bytes, uncompressed, of all `wide_columns` of a row; None: there is
    none."""
    widths = [f"coalesce({sql}, 0)" for sql in wide_columns(table).values()]
    return f"CAST({' + '.join(widths)} AS BIGINT)" if widths else None


def _cast(sql: str, kind: str, name: str) -> str:
    """SQL for a merged value in the column's type; an error where the type does not hold it."""
    if not kind.lower().startswith("decimal"):
        return f"CAST({sql} AS {kind})"
    # A sum has more digits than what it is of; a CAST would give null where ANSI is off.
    held, more = f"try_cast({sql} AS {kind})", raising(f"{name} is more than {kind} holds")
    return f"IF({sql} IS NOT NULL AND {held} IS NULL, {more}, {held})"


def joined(rows: DataFrame, table: StateTable, key: Sequence[str]) -> DataFrame:
    """Rows of a state table with all rows of a key merged into one: slot, key, state columns."""
    from pyspark.sql import functions as F

    types = kinds(rows.schema)
    columns = [
        F.expr(_cast(sql, types[name], quoted(name))).alias(name)
        for name, sql in merged(table).items()
    ]
    return rows.groupBy(SLOT, *(F.col(quoted(c)) for c in key)).agg(*columns)


def kinds(schema: StructType) -> dict[str, str]:
    """Type of each column as SQL names it, with the names in structs quoted."""
    from pyspark.sql.types import StructField, StructType

    return {c.name: StructType([StructField("x", c.dataType)]).toDDL()[2:] for c in schema}


def one_row_a_key(
    source: str,
    kinds: Mapping[str, str],
    table: StateTable,
    function: PartitioningFunction,
    every: bool = False,
) -> str:
    """SQL (SELECT) for a state table with the partials of split keys merged: slot, key, state
    columns.

    Rows of whole keys pass as they are, without a shuffle; where no key is split, all do. Where one
    is, the table is read a second time for its rows: of files that are sorted by slot little.

    Parameters
    ----------
    source : what to select from: the state table `table`, as it stands by `function`
    kinds : type of each state column, as of `kinds`
    every : merge the rows of all keys, with a shuffle: another function may have split some
    """
    key = [quoted(c.name) for c in function.key]
    shown = [quoted(SLOT), *key, *map(quoted, table.columns)]
    rows = f"SELECT {', '.join(shown)} FROM"
    sums = [f"{_cast(sql, kinds[n], quoted(n))} AS {quoted(n)}" for n, sql in merged(table).items()]
    by = ", ".join([quoted(SLOT), *key])
    if every:
        return f"SELECT {', '.join([by, *sums])} FROM {source} GROUP BY {by}"
    if not len(function.split):
        return f"{rows} {source}"
    split = listed_sql(function.key, len(function.slots), function.split.keys, SLOT)
    one = f"SELECT {', '.join([by, *sums])} FROM state WHERE {split} GROUP BY {by}"
    # Named once, so that both halves are of one version of the table.
    return f"WITH state AS ({rows} {source}) {rows} state WHERE NOT {split} UNION ALL {one}"
