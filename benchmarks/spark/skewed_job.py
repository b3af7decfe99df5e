"""Compare a skewed stateful job on our channels with repartition(N, key) and adaptive execution.

`python -m benchmarks.spark.skewed_job` folds 1M Zipf keys by key on 16 channels, with a cost in
proportion to rows. Our function is learned from another sample of the stream. Tasks run one after
another on one core, and Spark reports the CPU seconds of each. So many cores would take as long as
the slowest task. Adaptive execution joins small partitions. It may split large ones, but not if all
rows of a key must meet in one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from benchmarks.papers.flexd.stateful_job import Sample, fold, function, sample
from evenkeel.registry.epochs import Epoch
from evenkeel_spark.runtime.session import session
from partitioning.workload.metrics import imbalance

CHANNELS, KEYS = 16, 1_000_000


def measured(
    spark: SparkSession, placed: DataFrame, by: tuple[str, ...], rows: int
) -> tuple[float, float, float]:
    """Return rows and CPU seconds of the slowest task over the mean of 16, and its seconds."""
    found = fold(spark, placed, by, CHANNELS)
    (tasks,) = (t for t in found if sum(task.records for task in t) == rows)
    idle = np.zeros(CHANNELS - len(tasks))
    ones, seconds = np.ones(CHANNELS), np.array([t.cpu_seconds for t in tasks])
    records = np.array([t.records for t in tasks], dtype=np.float64)
    return (
        imbalance(np.concatenate([records, idle]), ones),
        imbalance(np.concatenate([seconds, idle]), ones),
        float(seconds.max()),
    )


def sides(known: Sample) -> dict[str, tuple[str, Callable[[], DataFrame], tuple[str, ...]]]:
    """Return by label: whether execution adapts, where events go, and what they are folded by."""
    route = Epoch(0, function(known, CHANNELS, "frontier", {}), None, {}, "").route("key")
    events = known.events
    placed = events.withColumn("channel", route)
    return {
        "ours": ("false", lambda: placed.repartitionById(CHANNELS, "channel"), ("channel", "key")),
        "repartition(16, key)": ("false", lambda: events.repartition(CHANNELS, "key"), ("key",)),
        "adaptive": ("true", lambda: events.repartition("key"), ("key",)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    spark = session(
        "skewed job benchmark",
        spark_master="local[1]",
        spark_sql_shuffle_partitions=str(CHANNELS),
    )
    with tempfile.TemporaryDirectory() as folder:
        for z in (0.9, 1.2):
            known = sample(spark, f"{folder}/{z}", options.rows, KEYS, z, 0)
            (heaviest,) = known.events.groupBy("key").count().selectExpr("max(count)").collect()[0]
            floor = max(1.0, heaviest * CHANNELS / options.rows)
            print(f"Zipf {z}, {options.rows:,} rows, {KEYS:,} keys: floor {floor:.3f}", flush=True)
            every, found = sides(known), {}
            for turn in range(options.runs + 1):
                for label, (adapts, placed, by) in every.items():
                    spark.conf.set("spark.sql.adaptive.enabled", adapts)
                    result = measured(spark, placed(), by, options.rows)
                    # The first turn is for the JVM to warm up.
                    if turn:
                        found.setdefault(label, []).append(result)
            for label, runs in found.items():
                rows, cpu, slowest = (statistics.median(part) for part in zip(*runs, strict=True))
                print(
                    f"  {label:22} slowest over mean: rows {rows:.3f}, seconds {cpu:.3f}; "
                    f"on {CHANNELS} cores {slowest:.2f} s",
                    flush=True,
                )
    spark.stop()


if __name__ == "__main__":
    main()
