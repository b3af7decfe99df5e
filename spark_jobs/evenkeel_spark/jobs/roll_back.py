"""Roll back: the inverse migration, to the epoch that the plan started from.

Never RESTORE, which would drop what was written since. Works from wherever migrate or verify
stopped; does nothing where nothing of the plan stands, or where its epoch is published. Where the
run's verdict is to publish, it brings that to its end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.migration.fence import requested_migration
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.runtime.command import parser, run_job


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    roll_back(spark, requested_migration(table, options))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_job(parser(__doc__ or "", run=True, digest=True), _body, argv)


if __name__ == "__main__":
    sys.exit(main())
