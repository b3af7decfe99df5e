"""Publish: check the sealed tables and create their epoch at once.

This is no job of its own. verify publishes once it has sealed the tables. roll_back publishes if
it finds that the run is decided to publish.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from evenkeel.pipeline.publish import publish_checked
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.verdict import newest_attempt
from evenkeel_spark.migration.fence import Migration, crash_point, fence, published
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.membership import check_members
from partitioning.errors import FenceError


def publish(spark: SparkSession, migration: Migration) -> Epoch:
    """Publish the plan's epoch if its constraint is the only one on every state table.

    Publishing it again changes nothing.

    Raises
    ------
    FenceError : a table has another constraint, somebody has done more to one than write, the run
        was rolled back, or another epoch is current
    GateError : the tables did not pass
    """
    table, run, plan = migration.table, migration.run, migration.plan
    migration = replace(migration, attempt=newest_attempt(run, plan.digest).number)

    def look() -> dict[str, int]:
        crash_point("publishing")
        return sealed(spark, migration)

    try:
        epoch = publish_checked(table.spec, table.registry, run, plan, migration.attempt, look)
    except FenceError:
        if not published(migration):
            raise
        # The same job ran twice at once, and the other one has published.
        epoch = table.registry.epoch(migration.after.epoch)
    say(f"epoch {epoch.number} is published")
    return epoch


def sealed(spark: SparkSession, migration: Migration) -> dict[str, int]:
    """Check that the new epoch's constraint is the only one on every state table.

    Returns
    -------
    The version of each table that was checked.

    Raises
    ------
    FenceError : a table has another constraint, or somebody has done more to it than write
    InputError : the registry has other state tables by now
    """
    versions = {}
    check_members(spark, migration.table.spec)
    for name in migration.table.spec.state:
        versions[name], existing = fence(spark, migration, name)
        if existing != {migration.new}:
            raise FenceError(
                f"has the constraint {', '.join(sorted(existing))}, expected {migration.new} alone",
                f"{name} ({migration.path(name)})",
                "Clear the task verify of this run; it looks at the tables again",
            )
    return versions
