"""Measure the cost of the table's CHECK constraint for a writer.

`python -m benchmarks.spark.constraint` appends the same rows to Delta tables that differ only in
their
constraint. One has none, one has the epoch's, and one has that of a migration, which admits two
functions. Two more have the same with `fence: slot`. They run in turn.
"""

from __future__ import annotations

import argparse
import tempfile

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.pairs import compare
from benchmarks.spark.routing import CHANNELS, SLOTS, function
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta import constraints, state
from partitioning.function.function import PartitioningFunction
from partitioning.function.slot_fence import slot_fence_sql
from partitioning.function.sql import channel_sql, slot_sql

EXPLICIT = 500


def state_rows(spark: SparkSession, count: int, by: PartitioningFunction) -> DataFrame:
    """Build routed rows of state with a few columns, as a writer has them in memory."""
    rows = spark.range(count).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(rand(1) * 1000 AS BIGINT) AS visits",
        *(f"rand({i}) AS miles{i}" for i in range(4)),
    )
    routed = rows.selectExpr(
        f"{channel_sql(by)} AS {state.CHANNEL}", f"{slot_sql(by.key, SLOTS)} AS {state.SLOT}", "*"
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
    now, then = (function(EXPLICIT, 0, "string", seed) for seed in (1, 2))
    rows = state_rows(spark, options.rows, now)
    with tempfile.TemporaryDirectory() as folder:

        def append(name: str) -> None:
            rows.write.format("delta").partitionBy(state.CHANNEL).mode("append").save(
                f"{folder}/{name}"
            )

        rules = {
            "none": None,
            "epoch": constraints.rule(now),
            "moving": constraints.rule(then, now),
            "epoch_by_slot": slot_fence_sql(now),
            "moving_by_slot": slot_fence_sql(then, now),
        }
        for name, rule in rules.items():
            rows.limit(0).write.format("delta").partitionBy(state.CHANNEL).save(f"{folder}/{name}")
            if rule is not None:
                constraints.add(spark, f"{folder}/{name}", name, rule)
        for name in [name for name, rule in rules.items() if rule is not None]:
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
