"""Bytes of rows of an Iceberg table, also if some are far wider than others."""

from __future__ import annotations

from pyspark.sql import functions as F

from evenkeel.registry.state_view import wide_columns
from evenkeel.spec.parts import StateTable
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.rows.row_size import RowSize
from partitioning.function.sql import quoted


def size_by_metadata(table: IcebergTable, part: StateTable, rows: float, width: float) -> RowSize:
    """Estimate the size of a row from what the table's metadata tell of its files.

    They count deleted rows, too, which are taken to be as wide as the others.

    Parameters
    ----------
    part : its part of the spec
    rows, width : number of rows of main, and their bytes, uncompressed, in wide columns
    """
    files = table.spark.sql(f"SELECT * FROM {table.sql}.files WHERE content = 0")
    told, asked = files.select("readable_metrics.*").columns, wide_columns(part)
    # An array is told by its elements, as `column.element`.
    named = [n for n in told if any(n == c or n.startswith(f"{c}.") for c in asked)]
    sizes = [F.col(f"readable_metrics.{quoted(name)}.column_size") for name in named]
    wide = sum((F.coalesce(size, F.lit(0)) for size in sizes), F.lit(0))
    found = files.agg(F.sum("record_count"), F.sum("file_size_in_bytes"), F.sum(wide)).collect()[0]
    written, size, in_wide = (float(value or 0) for value in found)
    if not (written and rows and width):
        return RowSize(size / max(written, 1.0))
    return RowSize((size - in_wide) / written, in_wide / (width * written / rows))
