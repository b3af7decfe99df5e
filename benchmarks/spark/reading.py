"""Compare reading `state()`, which merges split keys' partials, with the plain rows.

`python -m benchmarks.spark.reading` makes a state table of 1.5 million keys from 10 million Zipf
events,
folded and sorted as `bootstrap` leaves them. None, one or twenty of the heaviest keys are split
over 2 to 8 channels. Both sides read the same columns, all of them (a hash of each row), and run in
turn.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.spark.pairs import compare
from evenkeel.registry.state_view import kinds, one_row_a_key
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.aggregate import of_table
from evenkeel_spark.jobs.apply_window import window_state
from evenkeel_spark.jobs.generate import zipf_rows
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta.state import CHANNEL, SLOT
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import KeyColumn, key_hash

CHANNELS, SLOTS = 8, 4096
KEY = (KeyColumn("key", "bigint"),)
TABLES = {
    "counts": {"n": {"merge": "count"}, "units": {"merge": "sum", "of": "units"}},
    "sketches": {"ids": {"merge": "hll", "of": "id"}, "sizes": {"merge": "set", "of": "units"}},
}
#: Keys that are split, and the channels of each.
SPLIT = ((0, 0), (1, 2), (1, 8), (20, 2), (20, 4), (20, 8))


def function(split: int, copies: int) -> PartitioningFunction:
    """Assign slots by turns, and share the most frequent keys by so many channels each."""
    hashes = key_hash([list(range(1, split + 1))], ["bigint"]).tolist()
    shares = {h: {(i + c) % CHANNELS: 1.0 for c in range(copies)} for i, h in enumerate(hashes)}
    turns = np.arange(SLOTS) % CHANNELS
    made = successor(KEY, None, numbered_channels(CHANNELS), turns, "turns", split=shares)
    return replace(made, row=KeyColumn("id", "bigint"))


def read(rows: DataFrame) -> None:
    """Read all columns of all rows."""
    rows.agg(F.bit_xor(F.xxhash64(*rows.columns))).collect()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="events")
    parser.add_argument("--keys", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    spark = session("reading benchmark")
    for name, columns in TABLES.items():
        for split, copies in SPLIT:
            with tempfile.TemporaryDirectory() as folder:
                measured(spark, folder, name, columns, split, copies, options)
    spark.stop()


def measured(
    spark: SparkSession,
    folder: str,
    name: str,
    columns: dict[str, dict[str, str]],
    split: int,
    copies: int,
    options: argparse.Namespace,
) -> None:
    """Measure one table, read both ways."""
    spec = TableSpec.model_validate(
        {
            "table": "read",
            "key": ["key"],
            "input": {"path": "events"},
            "state": {name: {"path": f"{folder}/state", "columns": columns}},
            "registry": f"{folder}/registry",
            "channels": CHANNELS,
        }
    )
    made, path = function(split, copies), spec.state[name].path
    events = zipf_rows(spark, options.rows, options.keys, 1.0)
    events = events.withColumn("id", F.monotonically_increasing_id())
    events = events.withColumn("units", (F.rand(1) * 9).cast("bigint"))
    state = of_table(window_state(events, spec, made), spec, name).sortWithinPartitions(
        CHANNEL, SLOT
    )
    state.write.format("delta").partitionBy(CHANNEL).save(path)
    rows = spark.read.format("delta").load(path)
    types = kinds(rows.schema)
    merged = spark.sql(one_row_a_key(f"delta.`{path}`", types, spec.state[name], made))
    shown = rows.select(merged.columns)
    told = f"{split} split over {copies} channels each" if split else "none split"
    compare(
        f"{name}, {told} ({rows.count():,} rows): state()",
        lambda: read(merged),
        "rows",
        lambda: read(shown),
        options.runs,
    )


if __name__ == "__main__":
    main()
