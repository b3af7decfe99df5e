"""Compare learning the newest day of a window of 28 with learning that day alone.

`python -m benchmarks.spark.incremental` stores the earlier days as sketches. Learning the window
then
reads the new day's events, merges, and weighs the state. The other side learns a window of that one
day, by the same job. Both run in turn on the same files and state table.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import timedelta
from pathlib import Path

import yaml

from benchmarks.spark.pairs import compare
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.generate import write_stream
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.runtime.session import session
from partitioning.streams.zipf_stream import Stream

DAYS = 28


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of one day")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    spark = session("incremental benchmark")
    stream = Stream(rows=options.rows * DAYS, keys=options.keys, days=DAYS)
    end = stream.start + timedelta(days=DAYS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_stream(spark, stream, f"{folder}/events")
        tables = {}
        for window in (DAYS, 1):
            spec = {
                "table": "benchmark",
                "key": ["key"],
                "input": {"path": "events", "time": "day"},
                "state": {"n": {"path": f"state{window}", "columns": {"n": {"merge": "count"}}}},
                "registry": f"registry{window}",
                "channels": 10,
                "window": window,
            }
            file = folder / f"{window}.yaml"
            file.write_text(yaml.safe_dump(spec))
            tables[window] = Table(load_spec(file))
            bootstrap(spark, tables[window], end)
        learn(spark, tables[DAYS], end)

        def last_day(table: Table) -> None:
            """Learn the window whose last day is not stored."""
            store = table.registry.store
            for made in store.names("sketches"):
                store.remove(f"sketches/{made}/{end - timedelta(days=1)}.npz")
            learn(spark, table, end)

        compare(
            f"learn day {DAYS} of {DAYS}, {options.rows:,} rows each, {options.keys:,} keys",
            lambda: last_day(tables[DAYS]),
            "that day alone",
            lambda: last_day(tables[1]),
            options.runs,
        )
    spark.stop()


if __name__ == "__main__":
    main()
