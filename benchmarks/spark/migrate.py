"""Compare migrate with a full rewrite and OPTIMIZE ZORDER.

`python -m benchmarks.spark.migrate` moves 10% and 1% of the slots of 10 channels. All sides start
from the same table, with its files hard-linked, and run in turn. "UPDATE" is the time to move the
rows. "all" adds the commit of the constraint that admits both epochs.

OPTIMIZE ZORDER BY (channel, slot) brings a table without partitions to the same layout. Its column
`channel` is rewritten beforehand, and that time is not counted. Its time does not depend on what
has moved.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import yaml
from pyspark.sql import SparkSession

from benchmarks.spark.pairs import seconds
from evenkeel.registry.epochs import TableVersion
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.migration.migrate import forward_migration, table_record
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.table_properties import SLOTS_PROPERTY, TABLE_PROPERTY
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.function.sql import channel_sql, slot_sql
from partitioning.planning.plan import plan_for
from partitioning.workload.profile import Profile

SLOTS, CHANNELS, KEY = 4096, 10, (KeyColumn("key", "string"),)


def build(spark: SparkSession, folder: Path, rows: int, doubles: int) -> Table:
    """Build state as bootstrap leaves it: one file a channel, sorted by slot, randomly assigned."""
    owners = np.random.default_rng(0).integers(0, CHANNELS, SLOTS)
    function = PartitioningFunction(KEY, numbered_channels(CHANNELS), owners)
    columns = {"visits": {"merge": "count"}}
    spec = {
        "table": "bench",
        "key": ["key"],
        "input": {"path": "none"},
        "state": {"visits": {"path": "state", "columns": columns}},
        "registry": "registry",
        "channels": CHANNELS,
        "slots": SLOTS,
    }
    folder.mkdir()
    (folder / "bench.yaml").write_text(yaml.safe_dump(spec))
    table = Table(load_spec(folder / "bench.yaml"))
    path = table.spec.state["visits"].path
    made = (
        spark.range(rows)
        .selectExpr("CAST(id AS STRING) AS key")
        .selectExpr(
            f"{channel_sql(function)} AS channel",
            f"{slot_sql(KEY, SLOTS)} AS slot",
            "key",
            "CAST(rand(1) * 1000 AS BIGINT) AS visits",
            *(f"rand({i}) AS miles{i}" for i in range(doubles)),
            "uuid(3) AS tag",
        )
    )
    sorted_rows = made.repartitionById(CHANNELS, "channel").sortWithinPartitions("channel", "slot")
    writer = sorted_rows.writeTo(state.sql_name(path)).using("delta")
    for name, value in {
        "delta.enableDeletionVectors": "true",
        TABLE_PROPERTY: "bench",
        SLOTS_PROPERTY: str(SLOTS),
    }.items():
        writer = writer.tableProperty(name, value)
    writer.partitionedBy(made.channel).create()
    constraints.add(spark, path, constraints.epoch_name(0), constraints.rule(function))
    version = state.table_version(spark, path)
    table.registry.publish(function, {"visits": TableVersion(path, version)})
    return table


def moved(function: PartitioningFunction, how: str, percent: int) -> PartitioningFunction:
    """Put so many of the slots on another channel: any slots, or 10 runs of neighbours."""
    rng = np.random.default_rng(1)
    count = SLOTS * percent // 100
    if how == "random":
        picked = rng.choice(SLOTS, count, replace=False)
    else:
        length = count // 10
        starts = rng.choice(SLOTS // length, 10, replace=False) * length
        picked = np.concatenate([np.arange(s, s + length) for s in starts])
    owners = function.slots.copy()
    owners[picked] = (owners[picked] + rng.integers(1, CHANNELS, len(picked))) % CHANNELS
    return replace(function, slots=owners)


def linked(made: Path, folder: Path) -> Path:
    """Copy a folder by hard links; Delta never writes into an existing file."""
    home = folder / f"copy-{time.monotonic_ns()}"
    return Path(shutil.copytree(made, home, copy_function=os.link))


def fresh(
    spark: SparkSession, table: Table, folder: Path, rows: int, how: str, percent: int
) -> Migration:
    """Make a copy of the table, and a plan for it."""
    home = linked(Path(table.spec.registry).parent, folder)
    copy = Table(load_spec(home / "bench.yaml"))
    each, none = np.full(SLOTS, rows / SLOTS), np.zeros(0)
    profile = Profile(KEY, each, each, each, np.zeros(0, np.int64), none, none, none, ())
    before = copy.epoch().function
    version = state.table_version(spark, copy.spec.state["visits"].path)
    after = moved(before, how, percent)
    plan = plan_for("bench", profile, before, after, tables={"visits": version})
    copy.registry.run("bench").plan.write(plan)
    return approved_migration(copy, "bench", plan.digest)


def rewrite(spark: SparkSession, migration: Migration) -> None:
    """Write every row again, as one would do without deletion vectors."""
    path = migration.path("visits")
    rows = spark.read.format("delta").load(path)
    placed = rows.selectExpr(
        f"{channel_sql(migration.after)} AS channel", *(c for c in rows.columns if c != "channel")
    )
    placed.write.format("delta").partitionBy("channel").mode("overwrite").save(path + "-rewritten")


def zordered(spark: SparkSession, migration: Migration, folder: Path, runs: int) -> float:
    """Return the median seconds of OPTIMIZE ZORDER of the same rows, with their new channel set."""
    rows = spark.read.format("delta").load(migration.path("visits"))
    placed = rows.selectExpr(
        f"{channel_sql(migration.after)} AS channel", *(c for c in rows.columns if c != "channel")
    )
    placed.write.format("delta").save(str(folder / "flat"))
    found = []
    # The first of a JVM pays for its warming up.
    for _ in range(runs + 1):
        copy = linked(folder / "flat", folder)
        optimize = f"OPTIMIZE {state.sql_name(str(copy))} ZORDER BY (channel, slot)"
        found.append(seconds(lambda: spark.sql(optimize).collect()))  # noqa: B023
        shutil.rmtree(copy)
    return statistics.median(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--doubles", type=int, default=4, help="columns beside key, count and tag")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    spark = session("migrate benchmark", **{"spark.log.level": "ERROR"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = build(spark, folder / "table", options.rows, options.doubles)
        # The first statements in a JVM pay for its warming up, on either side.
        warm = fresh(spark, table, folder, options.rows, "random", 10)
        rewrite(spark, warm)
        clustered = zordered(spark, warm, folder, options.runs)
        moving = forward_migration(spark, warm, "visits", "migrate")
        moving.move(untouched=moving.open_constraint())
        print(f"OPTIMIZE ZORDER BY (channel, slot): {clustered:.1f} s", flush=True)
        for percent, how in product((10, 1), ("random", "neighbouring")):
            runs, written = [], 0.0
            for _ in range(options.runs):
                migration = fresh(spark, table, folder, options.rows, how, percent)
                full = seconds(lambda: rewrite(spark, migration))  # noqa: B023
                each = state.table_bytes_per_row(spark, migration.path("visits"))
                moving = forward_migration(spark, migration, "visits", "migrate")
                loosen = seconds(moving.open_constraint)
                update = seconds(lambda: moving.move(untouched=True))  # noqa: B023
                record = table_record(spark, migration, "visits")
                runs.append((update, loosen + update, full))
                shutil.rmtree(Path(migration.path("visits")).parent)
                written = max(written, record.bytes / (record.rows * each))
            update, whole, full = (statistics.median(side) for side in zip(*runs, strict=True))
            ratio = statistics.median(u / f for u, _, f in runs)
            print(
                f"{percent}% of the slots, {how}: UPDATE {update:.1f} s (all: {whole:.1f} s) "
                f"against {full:.1f} s for a full rewrite: ratio {ratio:.2f} "
                f"(all: {whole / full:.2f}), to ZORDER {update / clustered:.2f}; "
                f"{record.rows:,} rows, {record.bytes / 1e6:.1f} MB written, "
                f"{written:.4f} of the bytes moved",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main()
