"""Join skewed events to one row a key: by hash, by adaptive execution's skew join, by our channels.

`python -m benchmarks.skew.skewed_join` has a key with a third of all events (Zipf 1.5), and 16
cores. Here adaptive execution may split a partition of the events, and repeats the keys' rows for
each part. Its limits in bytes are those of large data, so they are scaled to this sample. Ours has
whole keys first, and then split keys, whose rows are repeated in each channel that shares the key.

Tasks run one after another on one core. They are then dealt to 16 cores in their order, each to
the core that is free first. A figure is the rows that the fullest core reads, over the mean of a
plain join. So repeated rows count as work.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.papers.flexd.stateful_job import Sample, function, sample
from benchmarks.skew.skewed_job import ADAPTIVE, CHANNELS, KEYS, on_one_core
from benchmarks.skew.skewed_job import PLAIN as SETTINGS
from evenkeel.registry.epochs import Epoch
from evenkeel_spark.runtime.task_metrics import job_group, stages
from partitioning.function.hashing import key_hash

PLAIN = {
    **SETTINGS,
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
#: About a sixteenth of this sample's shuffle, as 64 MB is of 1 GB.
SCALED = {
    ADAPTIVE: "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16MB",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "32MB",
}
#: More tasks than any side has.
MOST = 1_000


def customers(spark: SparkSession) -> DataFrame:
    """Return one row a key."""
    return spark.range(1, KEYS + 1).select(
        F.col("id").alias("key"), F.sha2(F.col("id").cast("string"), 512).alias("name")
    )


def ours(spark: SparkSession, known: Sample, options: Mapping[str, bool]) -> DataFrame:
    """Join by channel and key; a split key's customer is in each of its channels."""
    built = function(known, CHANNELS, "frontier", options)
    epoch = Epoch(0, built, None, {}, "")
    events = known.events.withColumn("channel", epoch.route("key"))
    whole = Epoch(0, built.unsplit, None, {}, "").route("key")
    keys = customers(spark)
    placed = keys.withColumn("channel", whole)
    if len(built.split):
        ids = keys.select("key").toArrow()["key"].to_numpy()
        number = built.split.find(key_hash([ids], ["bigint"]))
        at, owner, _ = built.split.owners(number[number >= 0])
        copies = spark.createDataFrame(
            [
                (int(key), int(channel))
                for key, channel in zip(ids[number >= 0][at], owner, strict=True)
            ],
            "key BIGINT, channel INT",
        )
        several = copies.select("key").distinct()
        placed = placed.join(F.broadcast(several), "key", "left_anti").unionByName(
            keys.join(F.broadcast(copies), "key")
        )
    sides = (part.repartitionById(CHANNELS, "channel") for part in (events, placed))
    left, right = sides
    return left.join(right, ["channel", "key"])


def fullest(rows: list[int], cores: int) -> int:
    """Deal tasks in their order to the core that is free first; return the rows of the fullest."""
    loads = [0] * cores
    for each in rows:
        heapq.heapreplace(loads, loads[0] + each)
    return max(loads)


def tasks_of(spark: SparkSession, joined: DataFrame, rows: int) -> list[int]:
    """Run a join, and return the rows that each of its tasks read."""
    work = F.xxhash64(F.sha2(F.concat("payload", "name"), 512)).alias("checksum")
    with job_group(spark, "skewed join") as group:
        joined.select("key", work).write.format("noop").mode("overwrite").save()
    read = [[task.records for task in found] for found in stages(spark, group, MOST)]
    (tasks,) = (found for found in read if sum(found) >= rows)
    return tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--zipf", type=float, default=1.5)
    options = parser.parse_args()
    spark = on_one_core("skewed join benchmark")
    with tempfile.TemporaryDirectory() as folder:
        known = sample(spark, folder, options.rows, KEYS, options.zipf, 0)
        (heaviest,) = known.events.groupBy("key").count().selectExpr("max(count)").collect()[0]
        print(
            f"Zipf {options.zipf}, {options.rows:,} events of {KEYS:,} keys on {CHANNELS} cores; "
            f"the first key has {heaviest / options.rows:.1%}",
            flush=True,
        )
        plain = known.events.join(customers(spark), "key")
        total = options.rows + KEYS
        for label, settings, joined in (
            ("plain join", {}, plain),
            ("adaptive", SCALED, plain),
            ("ours, whole keys", {}, ours(spark, known, {})),
            ("ours, split keys", {}, ours(spark, known, {"splitting": True})),
        ):
            for name, value in {**PLAIN, **settings}.items():
                spark.conf.set(name, value)
            tasks = tasks_of(spark, joined, options.rows)
            print(
                f"  {label:18} fullest core over mean: rows "
                f"{fullest(tasks, CHANNELS) * CHANNELS / total:.3f}; {len(tasks)} tasks, "
                f"{sum(tasks) - total:,} rows repeated",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main()
