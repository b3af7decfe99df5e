"""Fold a stream's events by key as a Spark job, each channel in a task of its own.

A row costs the same wherever it goes. If keys are split, a further stage merges their parts by key.
Tasks run one after another on one core; Spark reports the CPU seconds of each. So N cores would
take as long as the slowest channel, and then the slowest merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import Epoch
from evenkeel_spark.jobs.generate import zipf_rows
from evenkeel_spark.runtime.task_metrics import TaskWork, job_group, stages
from partitioning.function.channels import numbered_channels
from partitioning.function.function import DEFAULT_SLOTS, PartitioningFunction
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.strategies import STRATEGIES
from partitioning.streams.zipf_stream import KEY
from partitioning.workload.metrics import imbalance
from partitioning.workload.profile import HEAVY_SHARE, Profile, profile_of_keys

ROW = KeyColumn("row", "bigint")


@dataclass(frozen=True)
class Measured:
    """One run: rows a second of N cores, seconds, and imbalance.

    The seconds are of the slowest channel and of the slowest merge; the imbalance is of the
    channels' rows and of their seconds.
    """

    throughput: float
    channel: float
    merge: float
    rows: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Sample:
    """A stream's events to fold, and what learning its other sample knows, by N."""

    events: DataFrame
    hashes: np.ndarray[Any, Any]
    load: np.ndarray[Any, Any]
    rows: int

    def profile(self, count: int) -> Profile:
        """List keys as learn does: from a hundredth of a channel's fair load."""
        least = HEAVY_SHARE / count * float(self.load.sum())
        return profile_of_keys(KEY, self.hashes, self.load, DEFAULT_SLOTS, threshold=least)


def sample(spark: SparkSession, folder: str, rows: int, keys: int, z: float, names: int) -> Sample:
    """Write a Zipf stream whose keys are called by `names` to a folder."""

    def drawn(seed: int) -> DataFrame:
        ranks = zipf_rows(spark, rows, keys, z, seed)
        return ranks.select((F.col("key") + names * keys).alias("key"))

    counts = drawn(2 * names).groupBy("key").count().orderBy("key").toArrow()
    events = drawn(2 * names + 1).withColumn(ROW.name, F.monotonically_increasing_id())
    events = events.withColumn("payload", F.sha2(F.col(ROW.name).cast("string"), 512))
    events.write.mode("overwrite").parquet(folder)
    return Sample(
        spark.read.parquet(folder),
        key_hash([counts["key"].to_numpy()], ["bigint"]),
        counts["count"].to_numpy().astype(np.float64),
        rows,
    )


def function(
    known: Sample, count: int, name: str, options: Mapping[str, Any]
) -> PartitioningFunction:
    """Build the strategy's first function; it tells rows of split keys apart by their number."""
    built = STRATEGIES[name](known.profile(count), None, numbered_channels(count), **options)
    return replace(built, row=ROW)


def fold(
    spark: SparkSession, placed: DataFrame, by: Sequence[str], most: int, merged: bool = False
) -> list[list[TaskWork]]:
    """Fold events in place by these columns, at a cost for each row.

    Returns the tasks of each stage that has no more than `most`.
    """
    checksum = F.xxhash64(F.sha2(F.sha2(F.sha2("payload", 512), 512), 512))
    state = placed.groupBy(*by).agg(F.count("*").alias("events"), F.max(checksum).alias("checksum"))
    if merged:
        parts = [F.sum("events").alias("events"), F.max("checksum").alias("checksum")]
        state = state.groupBy("key").agg(*parts)
    with job_group(spark, "throughput") as group:
        state.write.format("noop").mode("overwrite").save()
    return list(stages(spark, group, most))


def run(spark: SparkSession, known: Sample, built: PartitioningFunction) -> Measured:
    """Fold the events, and take the times of the tasks."""
    count, rows = len(built.channels), known.rows
    spark.conf.set("spark.sql.shuffle.partitions", str(count))  # of the merge
    routed = known.events.withColumn("channel", Epoch(0, built, None, {}, "").route("key"))
    split = len(built.split) > 0
    placed = routed.repartitionById(count, "channel")
    tasks_of = fold(spark, placed, ("channel", "key"), count, split)
    found = [tasks for tasks in tasks_of if len(tasks) == count]
    (slow,) = (tasks for tasks in found if sum(t.records for t in tasks) == rows)
    merges = [tasks for tasks in found if 0 < sum(t.records for t in tasks) < rows]
    if len(merges) != split:
        raise RuntimeError(f"{len(merges)} stages merge parts of keys, not {int(split)}")
    seconds = np.array([t.cpu_seconds for t in slow])
    merge = max((t.cpu_seconds for tasks in merges for t in tasks), default=0.0)
    ones = np.ones(count)
    return Measured(
        rows / (float(seconds.max()) + merge),
        float(seconds.max()),
        merge,
        imbalance(np.array([t.records for t in slow], dtype=np.float64), ones),
        imbalance(seconds, ones),
    )
