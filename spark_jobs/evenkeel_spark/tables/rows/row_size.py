"""Bytes of state rows, also if some rows are far wider than others."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: Column with a row's bytes, uncompressed, in wide columns.
WIDTH = "_width"


@dataclass(frozen=True)
class RowSize:
    """Bytes in Parquet of a row of a state table.

    Parameters
    ----------
    row : bytes of any row, without its wide columns
    byte : bytes in Parquet for each uncompressed byte in its wide columns
    """

    row: float
    byte: float = 0.0

    def times(self, rows: DataFrame) -> float:
        """Return the bytes of rows, each with a WIDTH."""
        count, width = rows.agg(F.count(F.lit(1)), F.sum(WIDTH)).collect()[0]
        return self.row * float(count) + self.byte * float(width or 0)
