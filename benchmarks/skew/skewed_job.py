"""Compare a skewed stateful job on our channels with repartition(N, key) and adaptive execution.

`python -m benchmarks.skew.skewed_job` folds 1M Zipf keys by key on 16 channels, with a cost in
proportion to rows. Our function is learned from another sample of the stream. Tasks run one after
another on one core, and Spark reports the CPU seconds of each. So many cores would take as long as
the slowest task.

Adaptive execution joins small partitions until there is one for each core. It may split large ones
of a join, but not here, as all rows of a key must meet in one task. "adaptive" is told that there
are 16 cores. "adaptive, one core" is told nothing, and joins more. `skewed_join` has a join that it
splits.

"groupBy(key)" is the events of the keys that each task of a plain aggregation has. Spark combines
events of a key before that shuffle, so only an aggregation that it cannot combine waits for them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.papers.flexd.stateful_job import Sample, fold, function, sample
from evenkeel.registry.epochs import Epoch
from evenkeel_spark.runtime.session import session
from partitioning.workload.metrics import imbalance

CHANNELS, KEYS = 16, 1_000_000
ADAPTIVE = "spark.sql.adaptive.enabled"
LEAST = "spark.sql.adaptive.coalescePartitions.minPartitionNum"
PLAIN = {
    ADAPTIVE: "false",
    LEAST: str(CHANNELS),
    # A session's own setting would give way to the defaults of this machine, which say 8.
    "spark.sql.shuffle.partitions": str(CHANNELS),
}


def measured(
    spark: SparkSession, placed: DataFrame, by: tuple[str, ...], rows: int
) -> tuple[float, float, float, int]:
    """Return rows and CPU seconds of the slowest task over the mean of 16, its seconds, and tasks.

    Fewer tasks than 16 leave cores idle.
    """
    found = fold(spark, placed, by, CHANNELS)
    (tasks,) = (t for t in found if sum(task.records for task in t) == rows)
    idle = np.zeros(CHANNELS - len(tasks))
    ones, seconds = np.ones(CHANNELS), np.array([t.cpu_seconds for t in tasks])
    records = np.array([t.records for t in tasks], dtype=np.float64)
    return (
        imbalance(np.concatenate([records, idle]), ones),
        imbalance(np.concatenate([seconds, idle]), ones),
        float(seconds.max()),
        len(tasks),
    )


def on_one_core(name: str) -> SparkSession:
    """Start Spark on one core, whatever the defaults of this machine say."""
    return session(name, **{"spark.master": "local[1]"})


def grouped(spark: SparkSession, events: DataFrame) -> float:
    """Return the events of the fullest task over the mean, where `groupBy(key)` puts the keys."""
    for name, value in PLAIN.items():
        spark.conf.set(name, value)
    found = events.groupBy("key").agg(F.count("*").alias("events"))
    tasks = found.select(F.spark_partition_id().alias("task"), "events").toArrow()
    at, count = (tasks[name].to_numpy() for name in ("task", "events"))
    return imbalance(np.bincount(at, count, CHANNELS).astype(np.float64), np.ones(CHANNELS))


def sides(
    known: Sample,
) -> dict[str, tuple[dict[str, str], Callable[[], DataFrame], tuple[str, ...]]]:
    """Return by label: settings, where events go, and what they are folded by."""
    route = Epoch(0, function(known, CHANNELS, "frontier", {}), None, {}, "").route("key")
    events = known.events
    placed = events.withColumn("channel", route)
    adaptive = PLAIN | {ADAPTIVE: "true"}
    return {
        "ours": (PLAIN, lambda: placed.repartitionById(CHANNELS, "channel"), ("channel", "key")),
        "repartition(16, key)": (PLAIN, lambda: events.repartition(CHANNELS, "key"), ("key",)),
        "adaptive": (adaptive, lambda: events.repartition("key"), ("key",)),
        "adaptive, one core": (
            adaptive | {LEAST: "1"},
            lambda: events.repartition("key"),
            ("key",),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--zipf", type=float, nargs="+", default=[0.9, 1.2])
    options = parser.parse_args()
    spark = on_one_core("skewed job benchmark")
    with tempfile.TemporaryDirectory() as folder:
        for z in options.zipf:
            known = sample(spark, f"{folder}/{z}", options.rows, KEYS, z, 0)
            (heaviest,) = known.events.groupBy("key").count().selectExpr("max(count)").collect()[0]
            floor = max(1.0, heaviest * CHANNELS / options.rows)
            print(f"Zipf {z}, {options.rows:,} rows, {KEYS:,} keys: floor {floor:.3f}", flush=True)
            hashed = grouped(spark, known.events)
            print(f"  {'groupBy(key)':22} slowest over mean: rows {hashed:.3f}", flush=True)
            every, found = sides(known), {}
            for turn in range(options.runs + 1):
                for label, (settings, placed, by) in every.items():
                    for name, value in settings.items():
                        spark.conf.set(name, value)
                    result = measured(spark, placed(), by, options.rows)
                    # The first turn is for the JVM to warm up.
                    if turn:
                        found.setdefault(label, []).append(result)
            for label, runs in found.items():
                rows, cpu, slowest, tasks = (
                    statistics.median(part) for part in zip(*runs, strict=True)
                )
                print(
                    f"  {label:22} slowest over mean: rows {rows:.3f}, seconds {cpu:.3f}; "
                    f"on {CHANNELS} cores {slowest:.2f} s; {tasks:.0f} tasks",
                    flush=True,
                )
    spark.stop()


if __name__ == "__main__":
    main()
