"""Weights of state: rows and bytes for each slot and heavy key, summed over the state tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.state_view import width_sql
from evenkeel.spec.parts import StateTable
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.daily_sketches import hash_frame
from evenkeel_spark.events.heavy_hitters import HASH
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.delta.row_size import size_rows
from evenkeel_spark.tables.delta.state import SLOT, files, read_newest
from evenkeel_spark.tables.iceberg import checks as iceberg
from evenkeel_spark.tables.iceberg.row_size import size_by_metadata
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.rows.row_size import RowSize
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, KeyColumn
from partitioning.function.sql import hash_sql, slot_sql
from partitioning.workload.profile import Floats, Profile, Sketch


@dataclass(frozen=True, eq=False)
class Weight:
    """Rows and bytes of the state, summed over the state tables.

    Parameters
    ----------
    hashes : int64 (K,), ascending: the keys that are weighed one by one
    rows, bytes : float64 (S,), of each slot
    key_rows, key_bytes : float64 (K,), of each key
    copy_rows, copy_bytes : float64 (K,), of these one copy in each table whose rows are copied
    versions : of each table that was weighed
    footer : bytes that a file takes beside its rows, mean over the tables; None: there is no file
    """

    hashes: Hashes
    rows: Floats
    bytes: Floats
    key_rows: Floats
    key_bytes: Floats
    copy_rows: Floats
    copy_bytes: Floats
    versions: dict[str, int]
    footer: float | None

    def onto(
        self,
        sketch: Sketch,
        key: tuple[KeyColumn, ...],
        window: tuple[str, str] = ("", ""),
    ) -> Profile:
        """Combine a sketch's load with these weights, listing every weighed key.

        Parameters
        ----------
        sketch : of the window, or its forecast
        key : of the table
        window : first day, and the day after the last; empty: no days
        """
        none = np.zeros(len(sketch.heavy))
        profile = Profile(
            key=key,
            load=sketch.load,
            bytes=self.bytes,
            rows=self.rows,
            heavy=sketch.heavy,
            heavy_load=sketch.heavy_load,
            heavy_bytes=none,
            heavy_rows=none,
            heavy_names=sketch.heavy_names,
            error=sketch.error,
            window=window,
            events=sketch.rows,
        )
        listed = profile.listing(self.hashes)
        at = np.searchsorted(listed.heavy, self.hashes)

        def spread(values: Floats) -> Floats:
            spread = np.zeros(len(listed.heavy))
            spread[at] = values
            return spread

        return replace(
            listed,
            heavy_rows=spread(self.key_rows),
            heavy_bytes=spread(self.key_bytes),
            heavy_copy_rows=spread(self.copy_rows),
            heavy_copy_bytes=spread(self.copy_bytes),
        )


def row_counts(
    state: DataFrame, function: PartitioningFunction, hashes: Hashes, width: str | None
) -> DataFrame:
    """Count the rows of each slot of the function, and of each listed key.

    Returns
    -------
    Columns slot, HASH (null: any other key), rows, and width, the sum of the SQL `width`.
    """
    listed = F.broadcast(hash_frame(state.sparkSession, hashes))
    own = F.expr(hash_sql(function.key)).alias("own")
    # The row's column knows fewer slots if they have been split, and may be wrong on Iceberg.
    slot = F.expr(slot_sql(function.key, len(function.slots))).alias(SLOT)
    rows = state.select(slot, own, F.expr(width or "0L").alias("width"))
    by = rows.join(listed, F.col("own") == F.col(HASH), "left").groupBy(SLOT, HASH)
    return by.agg(F.count(F.lit(1)).alias("rows"), F.sum("width").alias("width"))


def _footer() -> Column:
    """Aggregate files to the bytes that one takes beside its rows.

    This is where the line through sizes over rows begins. A file has a footer, so no footer is
    larger than the smallest file. If the line tells nothing, that file counts.
    """
    least, start = F.min("size"), F.regr_intercept("size", "rows")
    return F.when((start > 0) & (start < least), start).otherwise(least.cast("double"))


def _row_size(
    spark: SparkSession,
    table: StateTable,
    one: IcebergTable | None,
    mean: float,
    rows: float,
    width: float,
) -> RowSize:
    """Return the size of a row of a state table.

    Parameters
    ----------
    one : it, if it is an Iceberg table
    mean : bytes of a row as written
    rows, width : number of rows, and their bytes, uncompressed, in wide columns
    """
    if width_sql(table) is None:
        return RowSize(mean)
    return size_rows(spark, table) if one is None else size_by_metadata(one, table, rows, width)


def weigh(
    spark: SparkSession, spec: TableSpec, function: PartitioningFunction, hashes: Hashes
) -> Weight:
    """Weigh all state tables as they are now.

    This is one Spark action, and one or two more for each table with wide columns. Rows that are
    written meanwhile may count or not. They come after the versions returned.

    Parameters
    ----------
    spec : of the table
    function : of the current epoch; its slots are weighed
    hashes : int64 (K,), ascending and distinct: keys to weigh one by one

    Raises
    ------
    InputError : a state table is missing or not this table's
    """
    tables = iceberg.adopted_tables(spark, spec) if spec.iceberg else {}
    if not spec.iceberg:
        check_tables(spark, spec)
    versions, parts = {}, []
    none, no_footer = F.lit(None).cast("bigint"), F.lit(None).cast("double").alias("footer")
    for i, (name, table) in enumerate(spec.state.items()):
        if spec.iceberg:
            versions[name] = tables[name].head()
            rows, written = tables[name].rows(), tables[name].files()
        else:
            rows, versions[name] = read_newest(spark, table.path)
            written = files(spark, table.path)
        counts = row_counts(rows, function, hashes, width_sql(table))
        # Another writer's files may have no statistics. If none has, count the rows that are read.
        known = F.sum(F.when(F.col("rows").isNotNull(), F.col("size")))
        sizes = written.agg(F.sum("rows"), F.coalesce(known, F.sum("size")), _footer())
        # Slot -1 holds the table's rows and bytes as written, from which follow the bytes per row.
        parts += [
            counts.select(F.lit(i).alias("table"), "*", F.lit(0).alias("bytes"), no_footer),
            sizes.select(F.lit(i), F.lit(-1), none, sizes[0], F.lit(0), sizes[1], sizes[2]),
        ]
    found = reduce(DataFrame.unionAll, parts).toArrow()
    slot, hashed = found[SLOT].to_numpy(), found[HASH].fill_null(0).to_numpy()
    rows, width, written = (
        found[c].fill_null(0).to_numpy().astype(np.float64) for c in ("rows", "width", "bytes")
    )
    total = slot < 0
    table_of = found["table"].to_numpy()
    size = np.zeros(len(rows))
    for i, (name, table) in enumerate(spec.state.items()):
        every, own = total & (table_of == i), ~total & (table_of == i)
        mean = written[every].sum() / max(rows[every].sum() or rows[own].sum(), 1.0)
        widths = rows[own].sum(), width[own].sum()
        priced = _row_size(spark, table, tables.get(name), mean, *widths)
        size[own] = rows[own] * priced.row + width[own] * priced.byte
    listed = found[HASH].is_valid().to_numpy()
    at = np.searchsorted(hashes, hashed[listed])

    def by_slot(values: Floats) -> Floats:
        return np.bincount(slot[~total], values[~total], minlength=len(function.slots))

    def by_key(values: Floats) -> Floats:
        return np.bincount(at, values[listed], minlength=len(hashes))

    copied = np.array([table.copied for table in spec.state.values()])[table_of]
    copies = (copied & (rows > 0)).astype(np.float64)
    return Weight(
        hashes,
        by_slot(rows),
        by_slot(size),
        by_key(rows),
        by_key(size),
        by_key(copies),
        by_key(copies * size / np.maximum(rows, 1.0)),
        versions,
        pc.mean(found["footer"]).as_py(),
    )
