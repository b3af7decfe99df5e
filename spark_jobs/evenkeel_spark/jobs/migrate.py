"""Migrate: move the rows of every state table to where the approved plan puts them.

Leaves runs/RUN/migration.json. A run may be killed anywhere. Started again, it ends in the same
state. Started again after success, it commits nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from evenkeel.extras import require_packages
from evenkeel.table import Table
from evenkeel_spark.iceberg import migrate as iceberg_migrate
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.plans.approved_plan import requested_migration
from evenkeel_spark.runtime.command import parser, run_job, say


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    # Verify needs it in the same environment. Fail before any row moves.
    require_packages("quality", "great_expectations")
    move = iceberg_migrate.migrate if table.spec.iceberg else migrate
    record = move(spark, requested_migration(table, options))
    rows = sum(t.rows for t in record.tables.values())
    size = sum(t.bytes for t in record.tables.values())
    say(f"{rows:,} rows moved, {size:,} bytes written for epoch {record.epoch}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    return run_job(parser(__doc__ or "", run=True, digest=True), _body, argv)


if __name__ == "__main__":
    sys.exit(main())
