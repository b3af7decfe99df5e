"""Compare apply_window on an Iceberg table with the same windows on a Delta table.

`python -m benchmarks.spark.iceberg_windows` needs Spark 4.1 with Iceberg's runtime; `make iceberg`
makes such an environment in .run/matrix. Both tables have one row a key. Each window has two events
of 1% of the keys, and both formats apply it in one Spark, in turn. Both must end with equal rows.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from datetime import date, timedelta
from itertools import count
from pathlib import Path

import yaml
from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.iceberg import CHANNELS
from benchmarks.spark.pairs import compare
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.iceberg.table import IcebergTable

# Joins are as Spark's defaults have them, on both sides.
CONFIG = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}
FIRST = date(2026, 1, 1)
COLUMNS = {
    "orders": {"merge": "count"},
    "spent": {"merge": "sum", "of": "cents"},
    "most": {"merge": "max", "of": "price"},
}


def write_events(spark: SparkSession, folder: str, rows: int, days: int) -> None:
    """Write an event of each key for the first day, and two of 1% of the keys for each other."""
    columns = (
        "concat('customer-', id) AS key",
        "CAST(rand(1) * 1000 AS BIGINT) AS cents",
        "rand(2) AS price",
    )
    for number in range(days):
        ids = spark.range(rows)
        if number:
            ids = spark.range(rows // 50).selectExpr(f"id DIV 2 * 100 + {number} AS id")
        day = FIRST + timedelta(days=number)
        ids.selectExpr(*columns).write.parquet(f"{folder}/day={day}")


def make(spark: SparkSession, folder: Path, kind: str) -> Table:
    """Make a state table of the first day, and its spec."""
    part = {"path": f"state_{kind}", "columns": COLUMNS}
    if kind == "iceberg":
        part |= {"path": "lake.bench.state", "format": "iceberg"}
    spec = {
        "table": "bench",
        "key": ["key"],
        "input": {"path": "events", "time": "day"},
        "state": {"customers": part},
        "registry": f"registry_{kind}",
        "channels": CHANNELS,
    }
    file = folder / f"{kind}.yaml"
    file.write_text(yaml.safe_dump(spec))
    table = Table(load_spec(file))
    bootstrap(spark, table, FIRST + timedelta(days=1))
    return table


def rows_of(spark: SparkSession, table: Table) -> DataFrame:
    """Read a state table with its columns in one order."""
    part = table.spec.state["customers"]
    if table.spec.iceberg:
        found = IcebergTable(spark, part.path).rows()
    else:
        found = spark.read.format("delta").load(part.path)
    return found.select("channel", "slot", "key", *COLUMNS)


def check_equal(spark: SparkSession, one: Table, other: Table) -> int:
    """Fail unless both tables have the same rows; return how many."""
    a, b = rows_of(spark, one), rows_of(spark, other)
    if differing := a.exceptAll(b).count() + b.exceptAll(a).count():
        raise AssertionError(f"{differing:,} rows differ between Iceberg and Delta")
    return a.count()


def windows_of(spark: SparkSession, table: Table) -> Callable[[], object]:
    """Return an action that applies the next window."""
    days = count(1)

    def apply() -> None:
        day = FIRST + timedelta(days=next(days))
        apply_window(spark, table, day, day + timedelta(days=1))

    return apply


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        warehouse = {"spark.sql.catalog.lake.warehouse": f"{home}/lake"}
        spark = session("iceberg windows benchmark", **CONFIG, **warehouse)
        unmeasured = 2
        write_events(spark, f"{home}/events", options.rows, 1 + unmeasured + options.runs)
        iceberg, delta = (make(spark, Path(home), kind) for kind in ("iceberg", "delta"))
        compare(
            f"windows of 1% of {options.rows:,} keys on Iceberg",
            windows_of(spark, iceberg),
            "on Delta",
            windows_of(spark, delta),
            options.runs,
            unmeasured,
        )
        print(f"{check_equal(spark, iceberg, delta):,} rows, equal on both", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
