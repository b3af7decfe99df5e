"""Migrate: move the rows of every state table to where the approved plan puts them.

Leaves runs/RUN/migration.json. A run that is killed anywhere and started again ends in the same
state; one that is started again after it succeeded commits nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.migration.fence import requested_migration
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.runtime.command import parser, run_job, say


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    record = migrate(spark, requested_migration(table, options))
    rows = sum(t["rows"] for t in record["tables"].values())
    size = sum(t["bytes"] for t in record["tables"].values())
    say(f"{rows:,} rows moved, {size:,} bytes written for epoch {record['epoch']}")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_job(parser(__doc__ or "", run=True, digest=True), _body, argv)


if __name__ == "__main__":
    sys.exit(main())
