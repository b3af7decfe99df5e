"""Learning against groupBy(key).count(): 20M rows of 1M Zipf keys. `python -m benchmarks.learn`.

Both sides read the same Parquet files from scratch; they run in turn, and the ratio is taken
pair by pair. The group-by's result is thrown away, ours is a sketch.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np

from benchmarks.pairs import compare
from evenkeel.spec import TableSpec
from partitioning.function import KeyColumn
from spark_jobs.generate import zipf_rows
from spark_jobs.learn import HEAVY_SHARE
from spark_jobs.passes import Passes, sketch_days
from spark_jobs.session import session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
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
                "channels": 10,
                "null_keys": "keep",
            }
        )
        share = HEAVY_SHARE / 10
        passes = Passes((KeyColumn("key", "bigint"),), 4096, share, np.empty(0, np.int64))
        compare(
            f"learn {options.rows:,} rows, {options.keys:,} keys",
            lambda: sketch_days(events, spec, passes),
            "groupBy(key).count()",
            lambda: events.groupBy("key").count().write.format("noop").mode("overwrite").save(),
            options.runs,
        )
    spark.stop()


if __name__ == "__main__":
    main()
