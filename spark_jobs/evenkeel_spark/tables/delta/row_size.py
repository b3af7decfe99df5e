"""Prices: what rows of state take in files, also where some are far wider than others."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from evenkeel.registry.state_view import wide_columns, width_sql
from evenkeel.spec.table_spec import StateTable
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.delta.commits import READERS

#: Of a row that is priced: its bytes, uncompressed, in wide columns.
WIDTH = "_width"
#: Files that are looked into: all, or the largest half of so many, and of the others each n-th.
FILES = 64


@dataclass(frozen=True)
class RowSize:
    """Bytes in Parquet of a row of a state table.

    Parameters
    ----------
    row : of any row, whatever is in its wide columns
    byte : of each byte, uncompressed, that it has in these
    """

    row: float
    byte: float = 0.0

    def times(self, rows: DataFrame) -> float:
        """Bytes of rows, each with a WIDTH."""
        count, width = rows.agg(F.count(F.lit(1)), F.sum(WIDTH)).collect()[0]
        return self.row * float(count) + self.byte * float(width or 0)


@dataclass(frozen=True)
class _Part:
    """What files hold, with the rows that deletion vectors hide: rows, bytes of wide columns as
    they are compressed and as they were before, and bytes of the others."""

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
    """What a row of a state table takes, by what stands there.

    Where it has wide columns, by the footers of its files and what these columns hold in the same
    files, hidden rows too: a file of wide rows says nothing of one of narrow rows.
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
    """What some files of a table hold.

    Parameters
    ----------
    files : path and bytes of each
    """
    if not files:
        return _Part()
    paths = [path for path, _ in files]
    asked = {name.lower() for name in wide_columns(table)}
    wide_fields = [f for f in state.schema(spark, table.path) if f.name.lower() in asked]
    names = {_in_files(f).lower() for f in wide_fields}
    with ThreadPoolExecutor(READERS) as pool:
        footers = list(pool.map(lambda path: _footer(spark, path), paths))
    wide = sum(size for _, chunks in footers for name, size in chunks if name in names)
    rows = sum(rows for rows, _ in footers)
    rest = sum(size for _, size in files) - wide
    if not wide:
        return _Part(float(rows), rest=float(rest))
    fields = StructType([StructField(_in_files(f), f.dataType) for f in wide_fields])
    # As files, not as a table, which would leave hidden rows out; none of these is a pattern.
    named = (re.sub(r"([\\\[\]{}*?])", r"\\\1", path) for path in paths)
    read = spark.read.schema(fields).parquet(*named).toDF(*(f.name for f in wide_fields))
    width = read.agg(F.sum(F.expr(width_sql(table) or "0"))).collect()[0][0]
    return _Part(float(rows), float(wide), float(width or 0), float(rest))


def _in_files(field: StructField) -> str:
    """A column's name in the table's Parquet files: another one where it was renamed."""
    return str(field.metadata.get("delta.columnMapping.physicalName", field.name))


def _full(folder: str, path: str) -> str:
    """Where a file is that a table's log names."""
    named = unquote(path)
    return named if "://" in named or named.startswith(("/", "file:")) else f"{folder}/{named}"


def _footer(spark: SparkSession, path: str) -> tuple[int, list[tuple[str, int]]]:
    """Rows of a Parquet file, and of each column chunk its column, in lower case, and its bytes, as
    they are compressed."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(where, conf)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        blocks = list(reader.getFooter().getBlocks())
        return sum(int(block.getRowCount()) for block in blocks), [
            (str(chunk.getPath().toArray()[0]).lower(), int(chunk.getTotalSize()))
            for block in blocks
            for chunk in block.getColumns()
        ]
    finally:
        reader.close()
