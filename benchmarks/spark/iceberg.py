"""Join two Iceberg tables by key: adopted and rebalanced, by Iceberg's own bucket(), and shuffled.

`.venv/bin/python -m benchmarks.spark.iceberg` has orders and payments, with a row for each order,
and keys by Zipf's law. With `--data flights` it has the flights of 2013 and their planes, and the
key is the aircraft. It prints how much more the fullest task has than the mean, in rows and in CPU
seconds, the shuffles of each plan, the time of each join in turn, what a rebalance writes, and how
long a release takes. From the tasks' CPU seconds it computes the wall time on 16 cores.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.pairs import compare, seconds
from evenkeel.demo.flights import write_flights
from evenkeel.pipeline import steps
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.table import Table
from evenkeel_spark.demo import BY_CHANNEL, planes
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.release import release
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs import learn
from evenkeel_spark.jobs.generate import zipf_rows
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.runtime.session import session
from evenkeel_spark.runtime.task_metrics import job_group, stages

CHANNELS, CORES = 16, 16
KINDS = ("even", "bucket", "shuffled")
#: Most tasks of a stage here.
MOST = 10_000
COPY = "CREATE TABLE lake.copy.{0} USING iceberg AS SELECT * FROM lake.even.{0}"
CONFIG = {
    **BY_CHANNEL,
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.shuffle.partitions": str(CHANNELS),
}


@dataclass(frozen=True)
class Case:
    """Two tables: the rows of a key in each, what is summed up, and what else is equal in a join.

    In SQL the first is o, and the other p.
    """

    key: str
    rows: dict[str, str]
    sums: str
    more: str = ""

    def join(self, kind: str) -> str:
        """Return SQL of the join and aggregation by key."""
        place = "o.channel = p.channel AND " if kind == "even" else ""
        by = f"o.channel, o.{self.key}" if kind == "even" else f"o.{self.key}"
        many, other = (f"lake.{kind}.{name}" for name in self.rows)
        return (
            f"SELECT {by}, {self.sums} FROM {many} o JOIN {other} p "
            f"ON {place}o.{self.key} = p.{self.key}{self.more} GROUP BY {by}"
        )


CASES = {
    "made": Case(
        "key",
        {"orders": "many", "payments": "many"},
        "sum(o.amount - p.amount) AS due, max(p.tax) AS tax",
        " AND o.id = p.id",
    ),
    "flights": Case(
        "tailnum",
        {"flights": "many", "planes": "one"},
        "sum(o.distance) AS miles, max(p.seats) AS seats",
    ),
}


def source(spark: SparkSession, data: str, folder: Path, rows: int) -> dict[str, DataFrame]:
    """Write the events, and return the rows of both tables."""
    events = str(folder / "events")
    if data == "flights":
        write_flights(Path(events))
        known = spark.read.parquet(events).where("tailnum IS NOT NULL")
        return {"flights": known, "planes": planes(spark)}
    made = zipf_rows(spark, rows, rows // 5, 0.9).selectExpr(
        "CAST(key AS STRING) AS key", "monotonically_increasing_id() AS id"
    )
    made.write.parquet(events)
    full = spark.read.parquet(events).selectExpr(
        "*", "rand(1) AS amount", "rand(2) AS tax", "uuid(3) AS note"
    )
    return dict.fromkeys(CASES[data].rows, full)


def make(spark: SparkSession, data: str, folder: Path, rows: int) -> Table:
    """Make the tables thrice, and the spec of those that are to be adopted."""
    case = CASES[data]
    for name, full in source(spark, data, folder, rows).items():
        for kind in KINDS:
            write = full.writeTo(f"lake.{kind}.{name}").using("iceberg")
            write = write.tableProperty("format-version", "3")
            if kind == "bucket":
                columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in full.schema)
                spark.sql(
                    f"CREATE TABLE lake.bucket.{name} ({columns}) USING iceberg "
                    f"PARTITIONED BY (bucket({CHANNELS}, {case.key}))"
                )
                full.writeTo(f"lake.bucket.{name}").append()
            else:
                write.create()
    spec = {
        "table": "bench",
        "key": [case.key],
        "null_keys": "drop",
        "input": {"path": "events"},
        "state": {
            name: {"path": f"lake.even.{name}", "format": "iceberg", "rows": kind}
            for name, kind in case.rows.items()
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


def on_cores(tasks: Sequence[float], cores: int = CORES) -> float:
    """Return how long tasks take, of so many seconds each, if a free core takes the longest."""
    free = [0.0] * cores
    for task in sorted(tasks, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + task)
    return max(free)


def run(spark: SparkSession, case: Case, kind: str) -> None:
    """Join the tables, and write the rows nowhere."""
    spark.sql(case.join(kind)).write.format("noop").mode("overwrite").save()


def check_results(spark: SparkSession, case: Case) -> None:
    """Raise if the joins differ: one that lost rows would only seem fast."""
    found = set()
    for kind in KINDS:
        rows = spark.sql(case.join(kind))
        sums = (f"round(sum({name}), 2)" for name in rows.columns[-2:])
        found.add(tuple(rows.selectExpr("count(1)", *sums).head()))
    if len(found) > 1:
        raise RuntimeError(f"the joins have other results: {found}")


def measured(spark: SparkSession, case: Case, kind: str) -> tuple[float, float]:
    """Return CPU seconds of the slowest task of the join over the mean, and seconds on 16 cores.

    Tasks that read no shuffle need not wait for each other.
    """
    with job_group(spark, kind) as group:
        run(spark, case, kind)
    found = list(stages(spark, group, MOST))
    first = [t.cpu_seconds for tasks in found for t in tasks if not any(s.records for s in tasks)]
    later = [[t.cpu_seconds for t in tasks] for tasks in found if any(s.records for s in tasks)]
    joined = max(later, key=sum) if later else first
    return max(joined) * len(joined) / sum(joined), on_cores(first) + sum(map(on_cores, later))


def report(spark: SparkSession, case: Case, kind: str, runs: int) -> None:
    """Print the shuffles of a plan, and how full and how slow its fullest task is.

    Raises
    ------
    RuntimeError : the plan of our tables has a shuffle
    """
    plan = spark.sql(f"EXPLAIN {case.join(kind)}").head()[0]
    if kind == "even" and "Exchange" in plan:
        raise RuntimeError(f"expected no Exchange in the plan, found one: {plan}")
    by = f"pmod(hash({case.key}), {CHANNELS})" if kind == "shuffled" else "_partition"
    many = next(iter(case.rows))
    counts = [
        r[0] for r in spark.sql(f"SELECT count(1) FROM lake.{kind}.{many} GROUP BY {by}").collect()
    ]
    fullest = max(counts) * len(counts) / sum(counts)
    measured(spark, case, kind)
    slowest, wall = (
        statistics.median(part)
        for part in zip(*(measured(spark, case, kind) for _ in range(runs)), strict=True)
    )
    print(
        f"{kind}: {plan.count('Exchange ')} shuffles; fullest task over mean: rows "
        f"{fullest:.3f}, CPU seconds {slowest:.3f}; on {CORES} cores {wall:.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=list(CASES), default="made")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of made tables")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    case = CASES[options.data]
    with tempfile.TemporaryDirectory() as home:
        warehouse = {"spark.sql.catalog.lake.warehouse": f"{home}/lake"}
        spark = session("iceberg benchmark", **CONFIG, **warehouse)
        table = make(spark, options.data, Path(home), options.rows)
        plain = seconds(lambda: [spark.sql(COPY.format(name)) for name in case.rows])
        ours = seconds(lambda: adopt(spark, table))
        print(
            f"adopt: {ours:.1f} s; a plain CTAS: {plain:.1f} s; ratio {ours / plain:.2f}",
            flush=True,
        )
        rebalance(spark, table, f"{home}/bench.yaml")
        check_results(spark, case)
        for kind in KINDS:
            report(spark, case, kind, options.runs)
        for other in KINDS[:0:-1]:
            compare(
                f"join of {next(iter(case.rows))} by channel",
                lambda: run(spark, case, "even"),
                other,
                lambda other=other: run(spark, case, other),
                options.runs,
            )
        print(f"release: {seconds(lambda: release(spark, table)):.1f} s", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
