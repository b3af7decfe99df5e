"""Publish: check the sealed tables and create their epoch at once.

This is no job of its own. verify publishes once it has sealed the tables. roll_back publishes if
it finds that the run is decided to publish.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from evenkeel.pipeline.publish import publish_checked
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.verdict import newest_attempt
from evenkeel.table import Table
from evenkeel_spark.migration.fence import fence
from evenkeel_spark.migration.placement import REPAIRING
from evenkeel_spark.plans.approved_plan import Migration, published
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.delta.state import owning_spec
from evenkeel_spark.tables.membership import check_members
from evenkeel_spark.tables.moving import repair_advice
from partitioning.errors import FenceError


def publish(spark: SparkSession, migration: Migration) -> Epoch:
    """Publish the plan's epoch if its constraint is the only one on every state table.

    Publishing it again changes nothing.

    Raises
    ------
    FenceError : a table has another constraint, somebody has done more to one than write, the run
        was rolled back, or another epoch is current. Or the epoch is published, and a table does
        not admit it any more
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
    check_still_admitted(spark, table, epoch)
    return epoch


def check_still_admitted(spark: SparkSession, table: Table, epoch: Epoch) -> None:
    """Look at every state table once more, after its epoch was created.

    A RESTORE or a DROP by hand may come between the last look and that file. Nothing can be undone
    by then, so this says what to do. The next migration may have begun, and a repair, too.

    Raises
    ------
    FenceError : a table does not admit the epoch, which is published
    """
    own = constraints.epoch_name(epoch.number)
    next_ones = (
        constraints.epoch_name(epoch.number + 1),
        constraints.moving_name(epoch.number + 1),
    )
    for name, part in table.spec.state.items():
        existing = constraints.our_constraints(spark, part.path)
        strange = {n for n in existing if n != own and not n.startswith(next_ones)}
        if (existing and not strange) or REPAIRING in existing:
            continue
        if table.registry.current().number != epoch.number:
            return
        raise FenceError(
            f"epoch {epoch.number} is published, and this table does not admit it any more. "
            f"Expected the constraint {own}, found {', '.join(sorted(existing)) or 'none'}. "
            "Somebody has restored or changed it meanwhile",
            f"{name} ({part.path})",
            repair_advice(table.spec.table),
        )


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
    check_members(migration.table.spec, partial(owning_spec, spark))
    for name in migration.table.spec.state:
        versions[name], existing = fence(spark, migration, name)
        if existing != {migration.new}:
            raise FenceError(
                f"has the constraint {', '.join(sorted(existing))}, expected {migration.new} alone",
                f"{name} ({migration.path(name)})",
                "Clear the task verify of this run; it looks at the tables again",
            )
    return versions
