"""The keys that may be heavy, by a sketch: the only ones that `passes` then groups by key.

Where there are so many channels that nearly every fine slot may hold a heavy key, grouping shuffles
nearly all keys. A sketch of each partition leaves that of the few which it names. approx_top_k is
Spark's own and counts events; Space Saving and lossy counting are ours and run in Python workers,
which must find this package.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from partitioning.errors import InputError
from partitioning.workload.sketches import Counted, LossyCounting, SpaceSaving

DAY, LOAD, HASH = "_day", "_load", "_hash"
#: Of approx_top_k: a table of this many entries misses no item of over 3.5 / entries of all rows
#: (Anderson et al., "A high-performance algorithm for identifying frequent items in data streams",
#: IMC 2017, in Apache DataSketches), it is filled up to so much, and Spark tracks at most so many.
MISSED, FILLED, TRACKED = 3.5, 0.75, 1_000_000
#: Ours, by the spec's name.
COUNTED: dict[str, type[Counted]] = {"space_saving": SpaceSaving, "lossy_counting": LossyCounting}
#: What any sketch may miss of a key, as a share of the load from which it must be found.
SLACK = 0.5
#: Rows that are taken in at once, at least: a batch costs as much as the counters that there are.
ROWS_AT_ONCE = 1 << 17


def entries(share: float) -> int:
    """Of approx_top_k's table: a power of two, such that what it may miss is SLACK of `share`, or
    more where Spark does not track as many."""
    most = 2 ** int(math.log2(TRACKED / FILLED))
    return int(min(2 ** math.ceil(math.log2(MISSED / SLACK / share)), most))


def found_from(share: float, sketch: str) -> float:
    """Share of a day's load from which a sketch misses no key: `share`, or more."""
    return max(share, MISSED / SLACK / entries(share)) if sketch == "approx_top_k" else share


def frequent_keys(
    events: DataFrame, sketch: str, share: float, least: Mapping[int, float]
) -> DataFrame:
    """The keys, HASH, that have `least` on any day, and some that have at least half of that.

    Parameters
    ----------
    events : DAY, HASH, LOAD (finite, none below 0)
    sketch : "approx_top_k", "space_saving" or "lossy_counting"; the first and the last count events
    share : what `least` is of a day's load; see `found_from`
    least : load, by day
    """
    if sketch == "approx_top_k":
        counted = _top(events, share)
    else:
        schema = f"{DAY} int, {HASH} bigint, {LOAD} double"
        counted = events.select(DAY, HASH, LOAD).mapInArrow(
            _counting(COUNTED[sketch], SLACK / 2 * share), schema
        )
        counted = counted.groupBy(DAY, HASH).agg(F.sum(LOAD).alias(LOAD))
    # What each partition misses is at most a share of its load, so all together of the day's.
    days = F.create_map(*(F.lit(v) for day in least.items() for v in day))
    return counted.where(F.col(LOAD) >= days[F.col(DAY)] * SLACK).select(HASH)


@contextmanager
def python_workers(sketch: str) -> Iterator[None]:
    """Turns Spark's failure to run ours, where executors lack Python or a package, into one
    InputError."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        lack = re.search(r"No module named '[^']+'|Cannot run program \"[^\"]+\"", str(error))
        if sketch not in COUNTED or lack is None:
            raise
        raise InputError(
            f"sketch: {sketch} runs in Python on every executor, which one cannot ({lack[0]})",
            "executors",
            "Install this package there and name its Python in PYSPARK_PYTHON, or take exact",
        ) from error


def _top(events: DataFrame, share: float) -> DataFrame:
    """What approx_top_k counts of each day: DAY, HASH, LOAD."""
    # Its last argument is the items it tracks: of that, Spark makes the table's size.
    tracked = int(entries(share) * FILLED)
    # No more keys than this can have enough.
    most = min(math.ceil(1 / (SLACK * share)), tracked)
    top = events.groupBy(DAY).agg(F.expr(f"approx_top_k({HASH}, {most}, {tracked})").alias("top"))
    return top.select(DAY, F.inline("top")).select(
        DAY, F.col("item").alias(HASH), F.col("count").alias(LOAD)
    )


def _counting(
    kind: type[Counted], epsilon: float
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task of Spark's: a partition's sketch of each day, and of it the keys with over `epsilon`
    of the load; so it misses at most twice that."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sketches: defaultdict[int, Counted] = defaultdict(lambda: kind(epsilon))
        for table in _pieces(batches, max(ROWS_AT_ONCE, math.ceil(1 / epsilon))):
            days, hashes, load = (table[name].to_numpy() for name in (DAY, HASH, LOAD))
            for day in np.unique(days).tolist():
                mine = days == day
                sketches[day].update(hashes[mine], load[mine])
        for day, sketch in sketches.items():
            told = sketch.counts > epsilon * sketch.total
            at = np.full(told.sum(), day, np.int32)
            columns = (at, sketch.keys[told], sketch.counts[told])
            yield pa.RecordBatch.from_arrays(
                [pa.array(column) for column in columns], names=[DAY, HASH, LOAD]
            )

    return task


def _pieces(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in pieces of at least `rows`, but for the last."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= rows:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
