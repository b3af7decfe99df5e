"""What rows of a state table will cost to write, told before they are written."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.state_view import width_sql
from spark_jobs import state
from spark_jobs.fence import Migration
from spark_jobs.joining import WIDE, WRITTEN


@dataclass(frozen=True)
class RowPrice:
    """What the mean row of a state table weighs.

    mean : bytes of Parquet
    wide : bytes, uncompressed, in columns whose values may be large; 0: it has none
    """

    mean: float
    wide: float

    @classmethod
    def of(cls, spark: SparkSession, migration: Migration, name: str) -> RowPrice:
        """Of the table as it stands."""
        path, width = migration.path(name), width_sql(migration.table.spec.state[name])
        wide = 0.0
        if width is not None:
            found = spark.read.format("delta").load(path).agg(F.avg(F.expr(width))).first()
            wide = float((found and found[0]) or 0.0)
        return cls(state.table_bytes_per_row(spark, path), wide)

    def weigh(self, left: DataFrame) -> tuple[int, float]:
        """How many rows a statement writes, and their bytes: a row that has more than the mean in
        its wide columns costs as much more, as well as such bytes are compressed in the mean row.

        Parameters
        ----------
        left : as `Joining.left` and `Passage.writes` find them
        """
        found = left.agg(F.count_if(WRITTEN), F.sum(WIDE)).first()
        assert found is not None
        rows, wide = int(found[0]), float(found[1] or 0)
        if not self.wide:
            return rows, rows * self.mean
        return rows, rows * self.mean + min(1.0, self.mean / self.wide) * (wide - rows * self.wide)
