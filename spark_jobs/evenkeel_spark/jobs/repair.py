"""Repair: bring every state table to the epoch in force, whatever was broken off or done by hand.

Looks at the registry, the tables and the runs that moved rows; says what is wrong and what it
will do, and with --dry-run ends there. Where a run is decided to publish, it goes forward; else
back, and the run is marked as rolled back. It needs no order: where rows stand does not matter.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.runtime.command import parser, run_job, say


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    findings = repair(spark, table, dry_run=options.dry_run is not None)
    done = "found wrong" if options.dry_run is not None else "repaired"
    say(f"{len(findings)} state tables {done}")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = parser(__doc__ or "")
    arguments.add_argument(
        "--dry-run",
        nargs="?",
        const="yes",
        help="say what is wrong and what would be done; change nothing",
    )
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
