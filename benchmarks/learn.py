"""Learning against groupBy(key).count(): 20M rows of 1M Zipf keys. `python -m benchmarks.learn`.

Both sides read the same Parquet files from scratch; they run in turn, and the ratio is taken
pair by pair. The group-by's result is thrown away, ours is a sketch. With `--sketch approx_top_k`
the other side is exact learning.
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
    parser.add_argument("--channels", type=int, default=10)
    parser.add_argument("--sketch", choices=("exact", "approx_top_k"), default="exact")
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

        plain = options.sketch == "exact"
        compare(
            f"learn {options.rows:,} rows, {options.keys:,} keys, {options.channels} channels, "
            f"{options.sketch}",
            lambda: sketch_days(events, spec, ours),
            "groupBy(key).count()" if plain else "exact",
            grouped if plain else lambda: sketch_days(events, spec, exact),
            options.runs,
        )
    spark.stop()


if __name__ == "__main__":
    main()
