"""Bytes of state rows in Parquet files, also if some rows are far wider than others."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from evenkeel.registry.state_view import wide_columns, width_sql
from evenkeel.spec.parts import StateTable
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.delta.commits import READERS
from evenkeel_spark.tables.parquet_footer import footer
from evenkeel_spark.tables.rows.row_size import RowSize

#: Most files to read. A table with more is sampled: the largest 32, and every n-th of the others.
#: A higher number gives better estimates, and costs one footer each.
FILES = 64


@dataclass(frozen=True)
class _Part:
    """Content of some files, with the rows that deletion vectors hide.

    Parameters
    ----------
    rows : number of rows
    wide : bytes of wide columns, compressed
    width : bytes of wide columns, uncompressed
    rest : bytes of all other columns, compressed
    """

    rows: float = 0.0
    wide: float = 0.0
    width: float = 0.0
    rest: float = 0.0

    def __add__(self, other: _Part) -> _Part:
        return _Part(
            self.rows + other.rows,
            self.wide + other.wide,
            self.width + other.width,
            self.rest + other.rest,
        )

    def __mul__(self, weight: float) -> _Part:
        return _Part(*(weight * v for v in (self.rows, self.wide, self.width, self.rest)))


def size_rows(spark: SparkSession, table: StateTable) -> RowSize:
    """Estimate the size of a row of a state table from the table's files.

    For wide columns, compare the footers of files with the values in the same files, hidden rows
    too: the size of a wide row says nothing about a narrow one.
    """
    if width_sql(table) is None:
        return RowSize(state.table_bytes_per_row(spark, table.path))
    found = state.files(spark, table.path).select("path", "size").orderBy(F.desc("size"), "path")
    files = [(_full(table.path, file["path"]), int(file["size"])) for file in found.collect()]
    most = FILES if len(files) <= FILES else FILES // 2
    part, rest = _part(spark, table, files[:most]), files[most:]
    if rest:
        step = -(-len(rest) // (FILES // 2))
        some = rest[step // 2 :: step]
        part += _part(spark, table, some) * (len(rest) / len(some))
    if not part.width:
        return RowSize((part.rest + part.wide) / part.rows if part.rows else 0.0)
    return RowSize(part.rest / part.rows, part.wide / part.width)


def _part(spark: SparkSession, table: StateTable, files: list[tuple[str, int]]) -> _Part:
    """Add up some files of a table.

    Parameters
    ----------
    files : path and bytes of each
    """
    if not files:
        return _Part()
    paths = [path for path, _ in files]
    asked = {name.lower() for name in wide_columns(table)}
    wide_fields = [f for f in state.schema(spark, table.path) if f.name.lower() in asked]
    names = {state.name_in_files(f).lower() for f in wide_fields}
    with ThreadPoolExecutor(READERS) as pool:
        footers = list(pool.map(lambda path: footer(spark, path), paths))
    wide = sum(size for _, chunks in footers for (name, *_), size in chunks if name in names)
    rows = sum(rows for rows, _ in footers)
    rest = sum(size for _, size in files) - wide
    if not wide:
        return _Part(float(rows), rest=float(rest))
    fields = StructType([StructField(state.name_in_files(f), f.dataType) for f in wide_fields])
    # Read plain files: reading the table would leave hidden rows out. Escape glob characters.
    named = (re.sub(r"([\\\[\]{}*?])", r"\\\1", path) for path in paths)
    read = spark.read.schema(fields).parquet(*named).toDF(*(f.name for f in wide_fields))
    width = read.agg(F.sum(F.expr(width_sql(table) or "0"))).collect()[0][0]
    return _Part(float(rows), float(wide), float(width or 0), float(rest))


def _full(folder: str, path: str) -> str:
    """Return the full path of a file that a table's log names."""
    named = unquote(path)
    return named if "://" in named or named.startswith(("/", "file:")) else f"{folder}/{named}"
