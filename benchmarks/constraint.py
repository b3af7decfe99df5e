"""What the table's own fence costs a writer. `python -m benchmarks.constraint`.

Appends of the same rows to Delta tables that differ in their CHECK constraint alone: none, the
epoch's, and that of a migration, which admits two functions. They run in turn.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from benchmarks.pairs import compare
from partitioning.function import KeyColumn, PartitioningFunction, numbered_channels, successor
from partitioning.hashing import key_hash
from partitioning.sql import channel_sql, slot_sql
from spark_jobs import constraints, state
from spark_jobs.session import session

SLOTS, CHANNELS, EXPLICIT, KEY = 4096, 10, 500, (KeyColumn("key", "string"),)


def function(seed: int) -> PartitioningFunction:
    """Slots and the 500 first keys at random."""
    rng = np.random.default_rng(seed)
    hashes = key_hash([[str(k) for k in range(EXPLICIT)]], ["string"]).tolist()
    explicit = dict(zip(hashes, rng.integers(0, CHANNELS, EXPLICIT).tolist(), strict=True))
    slots = rng.integers(0, CHANNELS, SLOTS)
    return successor(KEY, None, numbered_channels(CHANNELS), slots, "random", explicit=explicit)


def state_rows(spark: SparkSession, count: int, by: PartitioningFunction) -> DataFrame:
    """Rows of state as a writer has them at hand: routed, with a few columns."""
    rows = spark.range(count).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(rand(1) * 1000 AS BIGINT) AS visits",
        *(f"rand({i}) AS miles{i}" for i in range(4)),
    )
    routed = rows.selectExpr(
        f"{channel_sql(by)} AS {state.CHANNEL}", f"{slot_sql(KEY, SLOTS)} AS {state.SLOT}", "*"
    )
    made = routed.repartitionById(CHANNELS, state.CHANNEL).cache()
    made.count()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    spark = session("constraint benchmark")
    now, then = function(1), function(2)
    rows = state_rows(spark, options.rows, now)
    with tempfile.TemporaryDirectory() as folder:

        def append(name: str) -> None:
            rows.write.format("delta").partitionBy(state.CHANNEL).mode("append").save(
                f"{folder}/{name}"
            )

        rules = {"none": (), "epoch": (now,), "moving": (then, now)}
        for name, functions in rules.items():
            rows.limit(0).write.format("delta").partitionBy(state.CHANNEL).save(f"{folder}/{name}")
            if functions:
                constraints.add(spark, f"{folder}/{name}", name, constraints.rule(*functions))
        for name in ("epoch", "moving"):
            compare(
                f"append of {options.rows:,} rows under the constraint {name}",
                lambda name=name: append(name),
                "under none",
                lambda: append("none"),
                options.runs,
            )
    spark.stop()


if __name__ == "__main__":
    main()
