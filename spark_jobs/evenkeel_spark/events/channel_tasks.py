"""One task for each channel's rows, on old and new versions of Spark."""

from __future__ import annotations

from functools import lru_cache
from itertools import count

import mmh3
import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel_spark.tables.delta.state import CHANNEL
from partitioning.function.sql import array_sql

#: Column that an older Spark partitions by: a number whose hash is the channel's task.
PLACE = "_evenkeel_place"
#: Seed of Spark's hash for partitions (Murmur3, x86, 32 bits).
_SEED = 42


def one_task_a_channel(rows: DataFrame, channels: int) -> DataFrame:
    """Bring the rows of channel i into task i.

    Spark 4.1 has `repartitionById`. Before it, rows are partitioned by the hash of a number that
    is chosen for each channel, in the column PLACE. Group by PLACE too, and no second shuffle is
    needed; drop it before rows are written.
    """
    return one_task_each(rows, channels, CHANNEL)


def one_task_each(rows: DataFrame, tasks: int, column: str) -> DataFrame:
    """Bring the rows with the number i in a column (INT, from 0) into task i, as above."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(tasks, column)
    place = f"element_at({array_sql(np.array(places(tasks)))}, {column} + 1)"
    return rows.withColumn(PLACE, F.expr(place)).repartition(tasks, PLACE)


@lru_cache(maxsize=8)
def places(channels: int) -> tuple[int, ...]:
    """Return for each channel the least number that Spark's hash brings to its task.

    The search takes about `channels * ln(channels)` steps: 0.6 s for 100,000 channels.
    """
    found: dict[int, int] = {}
    for number in count():
        if len(found) == channels:
            break
        task = mmh3.hash(number.to_bytes(4, "little"), _SEED, signed=True) % channels
        found.setdefault(task, number)
    return tuple(found[channel] for channel in range(channels))
