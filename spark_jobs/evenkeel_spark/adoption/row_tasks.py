"""Spread the rows of a rewrite over tasks: each writes one range of slots of one channel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel_spark.events.channel_tasks import one_task_each
from partitioning.function.sql import array_sql

#: Bytes of a table that one task writes, before the next task shares its channel. Less: more tasks
#: at once, and files that the job maintain joins again at its next run.
TASK_BYTES = 1 << 29
#: Bytes of a file, at most: maintain's OPTIMIZE writes files up to this size (Delta's own default).
FILE_BYTES = 1 << 30
_TASK = "_evenkeel_task"


def tasks_of(channels: int, rows: Mapping[int, int], size: int) -> npt.NDArray[np.int32]:
    """Return the number of tasks of each channel, int32 (channels,), at least 1.

    Parameters
    ----------
    rows : of each channel that has any
    size : bytes of all rows
    """
    count = np.zeros(channels)
    count[list(rows)] = list(rows.values())
    share = count / max(1.0, count.sum()) * size
    return np.maximum(1, share // TASK_BYTES).astype(np.int32)


def by_slot_range(rows: DataFrame, tasks: npt.NDArray[np.int32], slots: int) -> DataFrame:
    """Bring the rows of each channel into its tasks, a range of slots each."""
    first = np.cumsum(tasks) - tasks
    place = f"element_at({array_sql(first)}, {CHANNEL} + 1)"
    if tasks.max() > 1:
        share = f"CAST({SLOT} AS BIGINT) * element_at({array_sql(tasks)}, {CHANNEL} + 1)"
        place += f" + CAST({share} DIV {slots} AS INT)"
    return one_task_each(rows.withColumn(_TASK, F.expr(place)), int(tasks.sum()), _TASK)


def rows_of_a_file(rows: int, size: int) -> int:
    """Return how many rows a file may have, by the mean size of a row."""
    return max(1, rows * FILE_BYTES // max(1, size))
