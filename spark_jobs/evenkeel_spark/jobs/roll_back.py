"""Roll back: the inverse migration, to the epoch that the plan started from.

It never uses RESTORE, which would drop rows written since. It works from wherever migrate or
verify stopped. It does nothing if nothing of the plan is on the tables, or if its epoch is
published. If the run is decided to publish, it publishes instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.iceberg import roll_back as iceberg_roll_back
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.plans.approved_plan import requested_migration
from evenkeel_spark.runtime.command import parser, run_job


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    migration = requested_migration(table, options)
    if table.spec.iceberg:
        iceberg_roll_back.roll_back(spark, migration)
    else:
        roll_back(spark, migration)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    return run_job(parser(__doc__ or "", run=True, digest=True), _body, argv)


if __name__ == "__main__":
    sys.exit(main())
