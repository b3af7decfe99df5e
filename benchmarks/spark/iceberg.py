"""Join two Iceberg tables by key: adopted and rebalanced, by Iceberg's own bucket(), and shuffled.

`python -m benchmarks.spark.iceberg` needs Spark 4.1 with Iceberg's runtime; `make iceberg` makes
such an environment in .run/matrix. Orders and payments have a row for each order, and keys by
Zipf's law. It prints how much more the fullest task has than the mean, the shuffles of each plan,
the time of each join in turn, and what a rebalance writes.
"""

from __future__ import annotations

import argparse
import tempfile
from argparse import Namespace
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from benchmarks.spark.pairs import compare, seconds
from evenkeel.pipeline import steps
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.table import Table
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs import learn
from evenkeel_spark.jobs.generate import zipf_rows
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.runtime.session import session

CHANNELS = 16
COPY = "CREATE TABLE lake.copy.{0} USING iceberg AS SELECT * FROM lake.even.{0}"
NAMES = ("orders", "payments")
CONFIG = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
}


def make(spark: SparkSession, folder: Path, rows: int) -> Table:
    """Make the tables thrice, and the spec of those that are to be adopted."""
    made = zipf_rows(spark, rows, rows // 5, 0.9).selectExpr(
        "CAST(key AS STRING) AS key", "monotonically_increasing_id() AS id"
    )
    made.write.parquet(str(folder / "events"))
    events = spark.read.parquet(str(folder / "events"))
    for name in NAMES:
        full = events.selectExpr("*", "rand(1) AS amount", "rand(2) AS tax", "uuid(3) AS note")
        for kind in ("even", "shuffled", "bucket"):
            write = full.writeTo(f"lake.{kind}.{name}").using("iceberg")
            write = write.tableProperty("format-version", "3")
            if kind == "bucket":
                spark.sql(
                    f"CREATE TABLE lake.bucket.{name} (key string, id bigint, amount double, "
                    "tax double, note string) USING iceberg "
                    f"PARTITIONED BY (bucket({CHANNELS}, key))"
                )
                full.writeTo(f"lake.bucket.{name}").append()
            else:
                write.create()
    spec = {
        "table": "bench",
        "key": ["key"],
        "input": {"path": "events"},
        "state": {
            name: {"path": f"lake.even.{name}", "format": "iceberg", "rows": "many"}
            for name in NAMES
        },
        "registry": "registry",
        "channels": CHANNELS,
        "decay": None,
    }
    (folder / "bench.yaml").write_text(yaml.safe_dump(spec))
    return Table(load_spec(folder / "bench.yaml"))


def rebalance(spark: SparkSession, table: Table, spec: str) -> None:
    """Make the table even, and print what that wrote."""
    learn._body(spark, table, Namespace(run="r1", end=None, relearn="no"))
    steps.decide(spec, "r1", asked := Params(force=True))
    digest = steps.plan(spec, "r1", asked)
    steps.validate_plan(spec, "r1")
    migration = approved_migration(table, "r1", digest)
    took = seconds(lambda: migrate(spark, migration))
    done = migration.run.migration.read().tables.values()
    written, moved = sum(t.bytes for t in done), sum(t.rows * t.bytes_per_row for t in done)
    verify(spark, migration)
    print(
        f"rebalance: {sum(t.rows for t in done):,} rows moved in {took:.1f} s; "
        f"written over moved bytes {written / max(1.0, moved):.3f}",
        flush=True,
    )


def join(spark: SparkSession, kind: str) -> str:
    """Return SQL of the join and aggregation by key."""
    place = "o.channel = p.channel AND " if kind == "even" else ""
    by = "o.channel, o.key" if kind == "even" else "o.key"
    return (
        f"SELECT {by}, sum(o.amount - p.amount) AS due, max(p.tax) AS tax "
        f"FROM lake.{kind}.orders o JOIN lake.{kind}.payments p "
        f"ON {place}o.key = p.key AND o.id = p.id GROUP BY {by}"
    )


def report(spark: SparkSession, kind: str) -> None:
    """Print the shuffles of a plan, and how full its fullest task is."""
    plan = spark.sql(join(spark, kind))._jdf.queryExecution().executedPlan().toString()
    by = f"pmod(hash(key), {CHANNELS})" if kind == "shuffled" else "_partition"
    found = spark.sql(f"SELECT count(1) FROM lake.{kind}.orders GROUP BY {by}").collect()
    counts = [r[0] for r in found]
    fullest = max(counts) * len(counts) / sum(counts)
    shuffles = plan.count("Exchange hash")
    print(f"{kind}: {shuffles} shuffles; fullest task {fullest:.3f} of the mean", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        warehouse = {"spark.sql.catalog.lake.warehouse": f"{home}/lake"}
        spark = session("iceberg benchmark", **CONFIG, **warehouse)
        table = make(spark, Path(home), options.rows)
        plain = seconds(lambda: [spark.sql(COPY.format(name)) for name in NAMES])
        ours = seconds(lambda: adopt(spark, table))
        print(
            f"adopt: {ours:.1f} s; a plain CTAS: {plain:.1f} s; ratio {ours / plain:.2f}",
            flush=True,
        )
        rebalance(spark, table, f"{home}/bench.yaml")
        for kind in ("even", "bucket", "shuffled"):
            report(spark, kind)

        def run(kind: str) -> None:
            spark.sql(join(spark, kind)).write.format("noop").mode("overwrite").save()

        for other in ("shuffled", "bucket"):
            compare(
                f"join of {options.rows:,} rows by channel",
                lambda: run("even"),
                other,
                lambda other=other: run(other),
                options.runs,
            )
        spark.stop()


if __name__ == "__main__":
    main()
