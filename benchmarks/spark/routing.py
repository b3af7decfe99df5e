"""Compare routing by our function with pmod(hash) in a Spark job.

`python -m benchmarks.spark.routing` counts 20M rows by channel on both sides. Parquet input shows
what a
job does, and input from memory shows the cost of the expression alone. The sides run in turn, and
each ratio is of one pair. pmod(hash) is the same code in every comparison. Ours is new in each, so
it is compiled before it is measured.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.spark.pairs import compare
from evenkeel.registry.epochs import Epoch
from evenkeel_spark.jobs.generate import zipf_rows
from evenkeel_spark.runtime.session import session
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import KeyColumn, key_hash

CHANNELS, SLOTS = 10, 4096


def function(explicit: int, split: int, kind: str, seed: int = 7) -> PartitioningFunction:
    """Build a function of 4,096 random slots, with split keys and pinned keys.

    The `split` most frequent keys are shared by 5 channels each. The `explicit` next ones are
    pinned.
    """
    rng = np.random.default_rng(seed)
    keys = [str(k) if kind == "string" else k for k in range(split + explicit)]
    hashes = key_hash([keys], [kind]).tolist()
    owners = {h: rng.permutation(CHANNELS)[:5].tolist() for h in hashes[:split]}
    built = successor(
        (KeyColumn("key", kind),),
        None,
        numbered_channels(CHANNELS),
        rng.integers(0, CHANNELS, SLOTS),
        "random",
        explicit=dict(zip(hashes[split:], rng.integers(0, CHANNELS, explicit), strict=True)),
        split={h: dict(zip(c, rng.random(5), strict=True)) for h, c in owners.items()},
    )
    return replace(built, row=KeyColumn("row", "bigint"))


def count_by(rows: DataFrame, channel: Column) -> object:
    return rows.groupBy(channel.alias("channel")).count().collect()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--kinds", default="string,bigint")
    options = parser.parse_args()
    spark = session("routing benchmark")
    base = F.expr(f"pmod(hash(key), {CHANNELS})")
    for kind in options.kinds.split(","):
        with tempfile.TemporaryDirectory() as folder:
            ranks = zipf_rows(spark, options.rows, 1_000_000, 1.0)
            events = ranks.select(
                F.col("key").cast(kind), F.monotonically_increasing_id().alias("row")
            )
            events.write.mode("overwrite").parquet(f"{folder}/events")
            events = spark.read.parquet(f"{folder}/events")
            memory = spark.read.parquet(f"{folder}/events").cache()
            memory.count()
            for explicit, split in ((0, 0), (500, 0), (500, 20)):
                channel = Epoch(0, function(explicit, split, kind), None, {}, "").route("key")
                for place, rows in (("Parquet", events), ("memory", memory)):
                    compare(
                        f"{kind} keys from {place}, 4,096 slots, {explicit} named, {split} split",
                        lambda rows=rows, channel=channel: count_by(rows, channel),
                        "pmod(hash)",
                        lambda rows=rows: count_by(rows, base),
                        options.runs,
                        unmeasured=3,
                    )
            memory.unpersist(blocking=True)
    spark.stop()


if __name__ == "__main__":
    main()
