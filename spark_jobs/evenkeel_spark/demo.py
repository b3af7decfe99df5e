"""Demo: make the two Iceberg tables that `make run` adopts, as a team without Evenkeel would.

Flights have many rows an aircraft, planes have one. With --join it joins them by aircraft, as they
were before they were adopted and as they are, and prints both plans as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.demo.flights import packaged_file
from evenkeel.demo.team_tables import check_team_tables
from evenkeel.registry.state_view import iceberg_name
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.runtime.command import add_switch, parser, run_job, say
from evenkeel_spark.tables.write_session import own_session
from partitioning.errors import DamagedError

_KEY = "tailnum"
#: With these, Spark joins two tables by their partitions.
BY_CHANNEL = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    # The demo's planes are so few that Spark would send them to every task.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Else a plan is known only when it has run.
    "spark.sql.adaptive.enabled": "false",
}
#: A line of a plan: its indent, the operator, and what is said of it.
_PLAN_LINE = re.compile(r"^([ :+-]*)(?:\*\(\d+\) )?(\w+)(.*)$")
_OPERATORS = re.compile(r"Exchange|BatchScan|.*Join|.*Aggregate")


def flights(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Return the flights of the first window whose aircraft is known."""
    found = spark.read.parquet(spec.input.path)
    first = found.agg(F.min(str(spec.input.time))).head()
    assert first is not None
    early = F.col(str(spec.input.time)) < F.lit(first[0] + timedelta(days=spec.window))
    return found.where(early & F.col(_KEY).isNotNull())


def planes(spark: SparkSession) -> DataFrame:
    """Return the aircraft that the package describes, one row each."""
    file = packaged_file().with_name("planes.csv")
    return spark.read.csv(str(file), header=True, inferSchema=True, nullValue="NA")


def make(spark: SparkSession, spec: TableSpec) -> None:
    """Write the tables that a spec of the demo adopts."""
    check_team_tables(spec)
    rows = {"flights": flights(spark, spec), "planes": planes(spark)}
    for name, table in spec.state.items():
        made = rows[name].coalesce(1).writeTo(iceberg_name(table.path))
        made.using("iceberg").tableProperty("format-version", "3").create()
        say(f"{name} is written to {table.path}")


def join_sql(spec: TableSpec, is_adopted: bool, before: Mapping[str, int]) -> str:
    """Return a query that joins and aggregates both tables by aircraft.

    Parameters
    ----------
    is_adopted : by channel as well, of the tables as they are
    before : the snapshot of each table from before it was adopted
    """
    one, many = (
        iceberg_name(spec.state[name].path)
        + ("" if is_adopted else f" VERSION AS OF {before[name]}")
        for name in ("planes", "flights")
    )
    by = ["channel", _KEY] if is_adopted else [_KEY]
    on = " AND ".join(f"f.{column} = p.{column}" for column in by)
    return (
        f"SELECT p.{_KEY}, count(1) AS flights, max(p.seats) AS seats, sum(f.distance) AS miles "
        f"FROM {many} f JOIN {one} p ON {on} GROUP BY {', '.join(f'p.{c}' for c in by)}"
    )


def shown(plan: str) -> list[str]:
    """Return the lines of a physical plan that matter to a join, short, each below its parent."""
    found: list[str] = []
    above: list[int] = []
    for line in plan.splitlines():
        parts = _PLAN_LINE.match(line)
        if parts is None or not _OPERATORS.fullmatch(parts[2]):
            continue
        place, operator, about = parts.groups()
        above = [at for at in above if at < len(place)]
        about = re.sub(r"#\d+L?", "", about).strip()
        if operator == "Exchange":
            about = about.partition(", ENSURE")[0]
        elif operator == "BatchScan":
            about = re.split(r"[\s\[(]", about)[0]
        else:
            about = ""
        found.append(f"{'  ' * len(above)}{operator} {about}".rstrip())
        above.append(len(place))
    return found


def join(spark: SparkSession, spec: TableSpec) -> dict[str, list[str]]:
    """Join the tables as they were and as they are; return both plans.

    Raises
    ------
    DamagedError : the two joins have other rows
    """
    spark = own_session(spark, BY_CHANNEL)
    before, plans, rows = {}, {}, []
    for name, table in spec.state.items():
        snapshots = spark.table(f"{iceberg_name(table.path)}.snapshots").orderBy("committed_at")
        before[name] = snapshots.select("snapshot_id").head()[0]
    for name, is_adopted in ("before adoption", False), ("adopted", True):
        query = join_sql(spec, is_adopted, before)
        plans[name] = shown(spark.sql(f"EXPLAIN {query}").head()[0])
        rows.append(sorted(map(tuple, spark.sql(query).collect())))
    if rows[0] != rows[1]:
        raise DamagedError(
            f"the joins have {len(rows[0]):,} and {len(rows[1]):,} rows, and not the same",
            f"tables of {spec.table}",
            "Run the demo again from nothing; if it stays so, tell us",
        )
    say(f"both joins have the same {len(rows[0]):,} rows")
    return plans


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    if options.join:
        print(json.dumps(join(spark, table.spec)), flush=True)
    else:
        make(spark, table.spec)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    arguments = parser(__doc__ or "")
    add_switch(arguments, "--join", "join both tables, and print the plans")
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
