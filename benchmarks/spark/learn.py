"""Compare learning with groupBy(key).count(): 20M rows of 1M Zipf keys.

`python -m benchmarks.spark.learn` reads the same Parquet files from scratch on both sides. They
run in
turn, and each ratio is of one pair. The group-by's result is thrown away; ours is a sketch. With
another `--sketch` than exact, the other side is exact learning.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.spark.pairs import compare
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.daily_sketches import Passes, sketch_days
from evenkeel_spark.events.heavy_hitters import COUNTED
from evenkeel_spark.jobs.generate import zipf_rows
from evenkeel_spark.runtime.session import session
from evenkeel_spark.runtime.task_metrics import job_group, stages
from partitioning.function.hashing import KeyColumn
from partitioning.workload.profile import HEAVY_SHARE


def shuffled(spark: SparkSession, action: Callable[[], object]) -> int:
    """Count the records that an action's tasks read from shuffles."""
    with job_group(spark, "shuffled") as group:
        action()
    return sum(task.records for stage in stages(spark, group, 10_000) for task in stage)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--channels", type=int, default=10)
    parser.add_argument("--sketch", choices=("exact", "approx_top_k", *COUNTED), default="exact")
    options = parser.parse_args()
    spark = session("learn benchmark")
    with tempfile.TemporaryDirectory() as folder:
        events = zipf_rows(spark, options.rows, options.keys, 1.0)
        events.write.mode("overwrite").parquet(f"{folder}/events")
        events = spark.read.parquet(f"{folder}/events")
        spec = TableSpec.model_validate(
            {
                "table": "benchmark",
                "key": ["key"],
                "input": {"path": folder},
                "state": {"s": {"path": folder, "columns": {"n": {"merge": "count"}}}},
                "registry": folder,
                "channels": options.channels,
                "null_keys": "keep",
            }
        )
        ours, exact = (
            Passes(
                (KeyColumn("key", "bigint"),),
                4096,
                HEAVY_SHARE / options.channels,
                np.empty(0, np.int64),
                sketch,
            )
            for sketch in (options.sketch, "exact")
        )

        def grouped() -> object:
            return events.groupBy("key").count().write.format("noop").mode("overwrite").save()

        size = f"{options.rows:,} rows, {options.keys:,} keys, {options.channels} channels"
        us, them = (partial(sketch_days, events, spec, passes) for passes in (ours, exact))
        other = "exact"
        if options.sketch == "exact":
            them, other = grouped, "groupBy(key).count()"
        compare(f"learn {size}, {options.sketch}", us, other, them, options.runs)
        told = (f"{n}: {shuffled(spark, s):,}" for n, s in ((options.sketch, us), (other, them)))
        print(f"  records shuffled: {'; '.join(told)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
