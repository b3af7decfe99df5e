"""Repair: bring every state table to the current epoch, whatever was broken off or done by hand.

It reads the registry, the tables and the runs that moved rows. It prints what is wrong and what
it will do, and with --dry-run stops there. A run that is decided to publish goes forward. Any
other goes back, and is marked as rolled back. Repair needs no order: rows may be anywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.iceberg import repair as iceberg_repair
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.runtime.command import add_switch, parser, run_job, say
from evenkeel_spark.windows.undo_window import undo_window


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    dry_run, older = options.dry_run, options.registry_older
    if options.undo_window:
        undone = len(undo_window(spark, table, dry_run))
        say(f"{undone} windows {'would be ' if dry_run else ''}taken back")
    if table.spec.iceberg:
        found = len(iceberg_repair.repair(spark, table, dry_run, older))
    else:
        found = len(repair(spark, table, dry_run, older))
    say(f"{found} state tables {'found wrong' if dry_run else 'repaired'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    arguments = parser(__doc__ or "")
    add_switch(arguments, "--dry-run", "say what is wrong and what would be done; change nothing")
    older = "give up epochs of the tables that the registry does not have"
    add_switch(arguments, "--registry-older", older)
    undo = "first take back a window that was added to other rows than it had seen"
    add_switch(arguments, "--undo-window", undo)
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
