"""Verify: measure every state table after its migration, run the gate, and seal.

A sealed table admits the new epoch's function alone. Leaves runs/RUN/gate_tables.json (the gate's
result) and verify.json (the version of each sealed table). A table that does not pass stays
unsealed, for roll_back. The job then checks the sealed tables once more and publishes the epoch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from threading import Thread

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.iceberg import verify as iceberg_verify
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import published, requested_migration
from evenkeel_spark.runtime.command import parser, run_job, say
from partitioning.errors import FenceError


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    migration = requested_migration(table, options)
    if table.spec.iceberg:
        iceberg_verify.verify(spark, migration)
        return
    try:
        record = verify(spark, migration)
        say(f"verified for epoch {record.epoch}")
    except FenceError:
        # The same job ran twice at once, and the other one has published.
        if not published(migration):
            raise
    publish(spark, migration)


def _import_gates() -> None:
    # If it is missing, the gate says so.
    with suppress(ImportError):
        import_module("great_expectations")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    # It takes seconds, in which Spark starts, or another job has the turn.
    Thread(target=_import_gates, daemon=True).start()
    return run_job(parser(__doc__ or "", run=True, digest=True), _body, argv)


if __name__ == "__main__":
    sys.exit(main())
