"""Publish: look at the sealed tables and create their epoch, in one breath.

No job of its own: verify publishes once it has sealed, and roll_back where it finds that the run's
verdict is to publish.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from evenkeel.pipeline.publish import publish_checked
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.verdict import newest_attempt
from evenkeel_spark.migration.fence import Migration, crash_point, fence, published
from evenkeel_spark.runtime.command import say
from partitioning.errors import FenceError


def publish(spark: SparkSession, migration: Migration) -> Epoch:
    """Publish the plan's epoch if every state table stands under its constraint alone.

    Publishing it again changes nothing.

    Raises
    ------
    FenceError : a table does not, somebody has done more to one than write, the run was rolled
        back, or another epoch is current
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
        # By the same job, twice at once.
        epoch = table.registry.epoch(migration.after.epoch)
    say(f"epoch {epoch.number} is published")
    return epoch


def sealed(spark: SparkSession, migration: Migration) -> dict[str, int]:
    """Check that every state table stands under the new epoch's constraint alone.

    Returns the version of each table that was checked.

    Raises
    ------
    FenceError : one does not, or somebody has done more to it than write
    """
    versions = {}
    for name in migration.table.spec.state:
        versions[name], stands = fence(spark, migration, name)
        if stands != {migration.new}:
            raise FenceError(
                f"stands under {', '.join(sorted(stands))}, expected {migration.new} alone",
                f"{name} ({migration.path(name)})",
                "Clear the task verify of this run; it looks at the tables again",
            )
    return versions
