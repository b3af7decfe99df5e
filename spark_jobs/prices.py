"""Prices: what rows of state take in files, also where some are far wider than others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.spec import StateTable
from evenkeel.state_view import wide_columns, width_sql
from spark_jobs import state

#: Of a row that is priced: its bytes, uncompressed, in wide columns.
WIDTH = "_width"
#: Files, the largest ones, whose footers tell what part of a table its wide columns are.
FOOTERS = 8


@dataclass(frozen=True)
class Price:
    """Bytes in Parquet of a row of a state table.

    Parameters
    ----------
    row : of any row, whatever is in its wide columns
    byte : of each byte, uncompressed, that it has in these
    """

    row: float
    byte: float = 0.0

    @classmethod
    def of(cls, each: float, share: float, width: float) -> Price:
        """From the mean bytes of a row, the share of these that wide columns take, and the mean
        bytes, uncompressed, in these."""
        return cls(each * (1 - share), each * share / width) if width > 0 else cls(each)

    def times(self, rows: DataFrame) -> float:
        """Bytes of rows, each with a WIDTH."""
        count, width = rows.agg(F.count(F.lit(1)), F.sum(WIDTH)).collect()[0]
        return self.row * float(count) + self.byte * float(width or 0)


def price(spark: SparkSession, table: StateTable) -> Price:
    """What a row of a state table takes, by what stands there; one job where columns are wide."""
    each, width = state.table_bytes_per_row(spark, table.path), width_sql(table)
    if width is None:
        return Price(each)
    mean = state.read_newest(spark, table.path)[0].agg(F.avg(F.expr(width))).collect()[0][0]
    return Price.of(each, wide_share(spark, table), mean or 0.0)


def wide_share(spark: SparkSession, table: StateTable) -> float:
    """Share of a table's bytes that its wide columns take, compressed as they are, by the footers
    of its largest files."""
    names = {name.lower() for name in wide_columns(table)}
    if not names:
        return 0.0
    largest = state.files(spark, table.path).orderBy(F.desc("size"), "path").limit(FOOTERS)
    sizes = [
        (name in names, size)
        for file in largest.collect()
        for name, size in _chunks(spark, table.path, unquote(file["path"]))
    ]
    whole = sum(size for _, size in sizes)
    return sum(size for wide, size in sizes if wide) / whole if whole else 0.0


def _chunks(spark: SparkSession, folder: str, file: str) -> Collection[tuple[str, int]]:
    """Column, in lower case, and compressed bytes of each column chunk of a Parquet file."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(folder, file)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(where, conf)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        return [
            (str(chunk.getPath().toArray()[0]).lower(), int(chunk.getTotalSize()))
            for block in reader.getFooter().getBlocks()
            for chunk in block.getColumns()
        ]
    finally:
        reader.close()
