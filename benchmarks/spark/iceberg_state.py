"""Windows and moves of state in an Iceberg table, beside Delta and beside a full rewrite.

In `.venv/bin/python -m benchmarks.spark.iceberg_state` the state has one row a key. Each window has
two events of 1% of the keys. Both formats apply it in one Spark, in turn, and must end with equal
rows. Then 10% of the slots move, and a plain statement writes all rows again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from itertools import count
from pathlib import Path

import numpy as np
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.spark.iceberg import CHANNELS
from benchmarks.spark.pairs import compare
from evenkeel.registry.files.migration_records import TableMigrated
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.iceberg.maintain import steps as maintain_steps
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.iceberg.table import IcebergTable
from partitioning.function.sql import channel_sql
from partitioning.planning.plan import plan_for
from partitioning.workload.profile import Profile

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


def planned(spark: SparkSession, table: Table, run: str) -> Migration:
    """Plan to put a tenth of the slots, drawn at random, on other channels."""
    before, spec = table.epoch().function, table.spec
    each, none = np.ones(spec.slots), np.zeros(0)
    profile = Profile(before.key, each, each, each, np.zeros(0, np.int64), none, none, none, ())
    rng, owners = np.random.default_rng(len(run)), before.slots.copy()
    drawn = rng.choice(spec.slots, spec.slots // 10, replace=False)
    owners[drawn] = (owners[drawn] + rng.integers(1, CHANNELS, len(drawn))) % CHANNELS
    head = {"customers": IcebergTable(spark, spec.state["customers"].path).head()}
    plan = plan_for("bench", profile, before, replace(before, slots=owners), tables=head)
    table.registry.run(run).profile.write(profile)
    table.registry.run(run).plan.write(plan)
    return approved_migration(table, run, plan.digest)


def data_bytes(spark: SparkSession, moved: TableMigrated) -> int:
    """Return the bytes of data files that a move has written, without deletion vectors."""
    entries = spark.table(f"{moved.path}.all_entries")
    added = entries.where(f"status = 1 AND snapshot_id = {moved.after} AND data_file.content = 0")
    return int(added.agg(F.sum("data_file.file_size_in_bytes")).collect()[0][0])


def compare_moves(spark: SparkSession, table: Table, rows: int, runs: int) -> None:
    """Move rows on a branch, and write all rows into another table, in turn."""
    # Rows of windows have files of their own.
    for _, step in maintain_steps(spark, table):
        step()
    migrations = [planned(spark, table, "r" * number) for number in range(1, runs + 2)]
    left = iter(migrations)

    def rewrite() -> None:
        found = IcebergTable(spark, table.spec.state["customers"].path).rows()
        placed = found.withColumn("channel", F.expr(channel_sql(migrations[0].after)))
        write = placed.writeTo("lake.bench.rewritten").using("iceberg")
        write.partitionedBy(F.col("channel")).createOrReplace()

    compare(
        f"move of 10% of the slots, {rows:,} rows of Iceberg",
        lambda: migrate(spark, next(left)),
        "a full rewrite",
        rewrite,
        runs,
    )
    done = [m.run.migration.read().tables["customers"] for m in migrations]
    moved = [t.rows * t.bytes_per_row for t in done]
    data = max(data_bytes(spark, t) / size for t, size in zip(done, moved, strict=True))
    every = max(t.bytes / size for t, size in zip(done, moved, strict=True))
    print(
        f"{done[-1].rows:,} rows moved; over bytes moved: data files {data:.4f}, with deletion "
        f"vectors {every:.4f}",
        flush=True,
    )
    verify(spark, migrations[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--moves", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        warehouse = {"spark.sql.catalog.lake.warehouse": f"{home}/lake"}
        spark = session("iceberg state benchmark", **CONFIG, **warehouse)
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
        compare_moves(spark, iceberg, options.rows, options.moves)
        spark.stop()


if __name__ == "__main__":
    main()
