"""Keys that may be heavy, found by a sketch: only these are then grouped by key.

With so many channels that nearly every fine slot may hold a heavy key, grouping shuffles nearly all
keys. A sketch of each partition shuffles only the few keys that it names. approx_top_k is Spark's
own and counts events. Space Saving and lossy counting are ours. They run in Python workers, which
must be able to import this package.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import InputError
from partitioning.workload.sketches import KeyCounter, LossyCounting, SpaceSaving

DAY, LOAD, HASH = "_evenkeel_day", "_evenkeel_load", "_evenkeel_hash"
#: Constants of approx_top_k. Its table misses no item with more than MISSED / entries of all rows.
#: Source: Anderson et al., "A high-performance algorithm for identifying frequent items in data
#: streams", IMC 2017, in Apache DataSketches. FILLED is the part of the table that it fills. Spark
#: tracks at most TRACKED items.
MISSED, FILLED, TRACKED = 3.5, 0.75, 1_000_000
#: Our own sketches, by the spec's name.
COUNTED: dict[str, type[KeyCounter]] = {
    "space_saving": SpaceSaving,
    "lossy_counting": LossyCounting,
}
#: Part of a heavy key's least load that a sketch may miss. Higher: smaller tables, more candidates.
SLACK = 0.5
#: Least rows of a batch. Each batch costs time in proportion to the counters, so more is faster.
ROWS_AT_ONCE = 1 << 17


def entries(share: float) -> int:
    """Return the size of approx_top_k's table, a power of two.

    It may miss SLACK of `share`, or more if Spark does not track that many items.
    """
    most = 2 ** int(math.log2(TRACKED / FILLED))
    return int(min(2 ** math.ceil(math.log2(MISSED / SLACK / share)), most))


def found_from(share: float, sketch: str) -> float:
    """Return the part of a day's load from which on a sketch misses no key: `share` or more."""
    return max(share, MISSED / SLACK / entries(share)) if sketch == "approx_top_k" else share


def frequent_keys(
    events: DataFrame, sketch: str, share: float, least: Mapping[int, float]
) -> DataFrame:
    """Return the keys that have `least` on any day, and some that have at least half of it.

    Parameters
    ----------
    events : DAY, HASH, LOAD (finite, none below 0)
    sketch : "approx_top_k", "space_saving" or "lossy_counting"; the first and the last count events
    share : part of a day's load that `least` is; see `found_from`
    least : load, by day

    Returns
    -------
    Column HASH.
    """
    if sketch == "approx_top_k":
        counted = _top(events, share)
    else:
        schema = f"{DAY} int, {HASH} bigint, {LOAD} double"
        counted = events.select(DAY, HASH, LOAD).mapInArrow(
            _counting(COUNTED[sketch], SLACK / 2 * share), schema
        )
        counted = counted.groupBy(DAY, HASH).agg(F.sum(LOAD).alias(LOAD))
    # Each partition misses at most a part of its own load, so all miss that part of the day's.
    return counted.where(F.col(LOAD) >= of_day(least) * SLACK).select(HASH)


def of_day(values: Mapping[int, float]) -> Column:
    """Return the value of each row's DAY."""
    return F.create_map(*(F.lit(part) for day in values.items() for part in day))[F.col(DAY)]


@contextmanager
def python_workers(sketch: str) -> Iterator[None]:
    """Turn Spark's failure to run our sketches into an InputError.

    It fails if an executor lacks Python or a package.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        lack = re.search(r"No module named '[^']+'|Cannot run program \"[^\"]+\"", str(error))
        if sketch not in COUNTED or lack is None:
            raise
        raise InputError(
            f"sketch: {sketch} needs Python on every executor, and one lacks it ({lack[0]})",
            "executors",
            "Install this package there and name its Python in PYSPARK_PYTHON, or take exact",
        ) from error


def _top(events: DataFrame, share: float) -> DataFrame:
    """Count each day's keys by approx_top_k: DAY, HASH, LOAD."""
    # The last argument is the number of tracked items, from which Spark computes the table's size.
    tracked = int(entries(share) * FILLED)
    # No more keys than this can have enough load.
    most = min(math.ceil(1 / (SLACK * share)), tracked)
    top = events.groupBy(DAY).agg(F.expr(f"approx_top_k({HASH}, {most}, {tracked})").alias("top"))
    return top.select(DAY, F.inline("top")).select(
        DAY, F.col("item").alias(HASH), F.col("count").alias(LOAD)
    )


def _counting(
    kind: type[KeyCounter], epsilon: float
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a Spark task that sketches each day of a partition.

    It yields the keys with over `epsilon` of the load, so it misses at most twice that.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sketches: defaultdict[int, KeyCounter] = defaultdict(lambda: kind(epsilon))
        for table in _pieces(batches, max(ROWS_AT_ONCE, math.ceil(1 / epsilon))):
            days, hashes, load = (table[name].to_numpy() for name in (DAY, HASH, LOAD))
            for day in np.unique(days).tolist():
                mine = days == day
                sketches[day].update(hashes[mine], load[mine])
        for day, sketch in sketches.items():
            listed = sketch.counts > epsilon * sketch.total
            at = np.full(listed.sum(), day, np.int32)
            columns = (at, sketch.keys[listed], sketch.counts[listed])
            yield pa.RecordBatch.from_arrays(
                [pa.array(column) for column in columns], names=[DAY, HASH, LOAD]
            )

    return task


def _pieces(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join batches to pieces of at least `rows` rows, except for the last."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= rows:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
