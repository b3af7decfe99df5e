"""Give up a migration of Iceberg tables: drop its branches, and admit writers again.

No row of main has moved, so none moves back. If the run is decided to publish, it publishes.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from evenkeel.registry.verdict import PUBLISH, ROLL_BACK, mark, newest_attempt, settle
from evenkeel_spark.iceberg.migrate import branch_prefix
from evenkeel_spark.iceberg.placing import name_column
from evenkeel_spark.iceberg.publish import publish, settle_tables
from evenkeel_spark.migration.roll_back import decided
from evenkeel_spark.plans.approved_plan import Migration, published
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.checks import adopted_tables, lost_icebergs
from partitioning.errors import FenceError


def roll_back(spark: SparkSession, migration: Migration) -> None:
    """Bring the tables back to the epoch before. Again: changes nothing.

    Raises
    ------
    FenceError : the run was about to publish, and cannot
    """
    if decided(migration):
        if published(migration):
            settle_tables(spark, migration)
        else:
            registry = migration.table.registry
            for table in adopted_tables(spark, migration.table.spec, members=False).values():
                name_column(registry, table, registry.current().number)
                # Another run has published. These branches would keep old snapshots.
                table.drop_branches(branch_prefix(migration))
        return
    run, digest = migration.run, migration.plan.digest
    number = newest_attempt(run, digest).number
    migration = replace(migration, attempt=number)
    if settle(run, digest, number, ROLL_BACK) == PUBLISH:
        say("the tables had passed and the epoch was about to be published: publishing it")
        publish(spark, migration)
        return
    mark(run, digest, number, done=False)
    crash_point("going back")
    spec = migration.table.spec
    lost = lost_icebergs(spark, spec)
    for name in lost:
        say(f"{name}: there is no such table any more, so the others go back without it")
    for name, table in adopted_tables(spark, spec, members=False, lost=lost).items():
        if newest_attempt(run, digest).number != number:
            raise FenceError("another attempt has begun", run.url, "Nothing: leave it to that one")
        if table.epoch() == migration.after.epoch and not decided(migration):
            name_column(migration.table.registry, table, migration.before.epoch)
            crash_point("opened")
        table.drop_branches(branch_prefix(migration))
        say(f"{name}: no row of main had moved")
    mark(run, digest, number, done=True)
