"""Adopt: take tables that a team made itself under Evenkeel, or release them again.

Adopting rewrites each table once, in one commit, with the columns slot and channel, and publishes
epoch 0. With --dry-run it says what it found and would do. With --release it takes Evenkeel out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.adoption.survey import say_refused
from evenkeel_spark.iceberg import adopt as iceberg_adopt
from evenkeel_spark.iceberg import release as iceberg_release
from evenkeel_spark.runtime.command import add_switch, parser, run_job, say
from partitioning.errors import InputError


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    dry_run = options.dry_run
    for flag in ("drop_columns", "registry_lost"):
        if getattr(options, flag) and not options.release:
            raise InputError(
                "is for --release only", f"--{flag.replace('_', '-')}", "Give --release, too"
            )
    if options.release:
        lost, drop = options.registry_lost, options.drop_columns
        if table.spec.iceberg:
            names = iceberg_release.release(spark, table, drop, dry_run, lost)
        else:
            names = release(spark, table, drop, dry_run, lost)
        say(f"{len(names)} tables {'would be ' if dry_run else ''}released")
        return
    if dry_run:
        say_refused(spark, table.spec)
    (iceberg_adopt.adopt if table.spec.iceberg else adopt)(spark, table, dry_run)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    arguments = parser(__doc__ or "")
    for name, meaning in (
        ("--dry-run", "say what was found and would be done; change nothing"),
        ("--release", "take Evenkeel out again"),
        ("--drop-columns", "with --release: rewrite the tables without slot and channel"),
        ("--registry-lost", "with --release: no registry has the epoch that the tables are under"),
    ):
        add_switch(arguments, name, meaning)
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
