"""The inverse migration, to the epoch that the plan started from.

It never uses RESTORE, which would drop rows written since. It works from wherever migrate or
verify stopped. It does nothing if nothing of the plan is on the tables, or if its epoch is
published. If the run is decided to publish, it publishes instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from pyspark.sql import SparkSession

from evenkeel.registry.verdict import PUBLISH, ROLL_BACK, mark, newest_attempt, settle
from evenkeel.table import Table
from evenkeel_spark.migration.fence import existing_constraints, owned
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.table_migration import SWEEPS, TableMigration
from evenkeel_spark.migration.throttle import Throttle, batch_stops
from evenkeel_spark.plans.approved_plan import Migration, published
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.filesystem import occupied
from evenkeel_spark.tables.membership import lost_tables, without_tables
from evenkeel_spark.tables.moving import repair_advice
from partitioning.errors import FenceError
from partitioning.planning.batches import Stops

STEP = "roll_back"


def roll_back(spark: SparkSession, migration: Migration) -> dict[str, int]:
    """Bring every state table back to the epoch before.

    Returns
    -------
    Rows moved, by table.

    Raises
    ------
    FenceError : a table has none of our constraints, or one of this plan's with another expression.
        Or its history does not tell whose its constraint is. Or rows are where neither epoch puts
        them. Or the run was about to publish, and a table is not sealed any more
    """
    if decided(migration):
        return {}
    run, digest = migration.run, migration.plan.digest
    number = newest_attempt(run, digest).number
    # Decide before any table is touched. From here on publish refuses this attempt, and so does a
    # killed migrate or verify that still runs (a JVM may outlive its task).
    if settle(run, digest, number, ROLL_BACK) == PUBLISH:
        say("the tables had passed and the epoch was about to be published: publishing it")
        publish(spark, migration)
        return {}
    mark(run, digest, number, done=False)
    migration = replace(migration, attempt=number, table=_table_that_is_left(spark, migration))
    moved = {}
    throttle = Throttle(spark, migration, back=True)
    # Compute the stops only once a table is known to be ours.
    stops = cache(lambda: batch_stops(spark, migration, back=True))
    for name in migration.table.spec.state:
        moved[name] = _roll_back_table(spark, migration, name, stops, throttle)
        say(f"{name}: {moved[name]:,} rows moved back")
    mark(run, digest, number, done=True)
    return moved


def _table_that_is_left(spark: SparkSession, migration: Migration) -> Table:
    """Return the table without state tables that are gone: they must not hold the others up."""
    spec = migration.table.spec
    lost = lost_tables(spec, partial(occupied, spark))
    for name in lost:
        say(f"{name}: nothing is left of it at {spec.state[name].path}, so nothing moves back")
    return Table(without_tables(spec, lost))


def decided(migration: Migration) -> bool:
    """Return whether the epoch to undo is published, by whichever plan. If so, print it."""
    number, registry = migration.after.epoch, migration.table.registry
    if registry.current().number < number:
        return False
    by = "this plan" if published(migration) else "another plan"
    say(f"epoch {number} is published, by {by}: nothing to roll back")
    return True


def _roll_back_table(
    spark: SparkSession,
    migration: Migration,
    name: str,
    stops: Callable[[], Stops],
    throttle: Throttle,
) -> int:
    undo = TableMigration(
        spark,
        migration,
        name,
        source=migration.after,
        target=migration.before,
        step=STEP,
        fence=lambda: _fence(spark, migration, name),
        throttle=throttle,
    )
    if not (existing := constraints.our_constraints(spark, undo.path)):
        # This raises the error that says what to do.
        existing_constraints(spark, migration, name)
    _check_owner_known(spark, migration, name)
    if not owned(spark, migration, name):
        if existing != {migration.old}:
            names = ", ".join(sorted(existing))
            say(f"{name}: has the constraint {names}, of another plan: left alone")
        return 0
    existing_constraints(spark, migration, name)
    undo = replace(undo, stops=stops())
    undo.check_merges()
    undo.open_constraint()
    rows = 0
    for _ in range(SWEEPS):
        undo.close()
        rows += undo.move(closed=True)
        crash_point("moved back")
        if undo.seal():
            return rows
    raise FenceError(
        f"has rows that epoch {migration.before.epoch} does not admit, and no statement of ours "
        "moves them",
        undo.where,
        repair_advice(migration.table.spec.table),
    )


def _check_owner_known(spark: SparkSession, migration: Migration, name: str) -> None:
    """Refuse a table under a constraint of this plan's kind, if no commit tells whose it is.

    Its log was cleaned up, or it is a clone. To leave it alone could leave it under an epoch that
    is never published.

    Raises
    ------
    FenceError : advises repair, which goes by the registry alone
    """
    path = migration.path(name)
    existing = constraints.our_constraints(spark, path)
    if migration.plan.run and migration.moving in existing:
        return
    if not existing & {migration.moving, migration.new}:
        return
    if commits.owner(spark, path, migration.plan.tables[name]) is None:
        raise FenceError(
            f"has the constraint {', '.join(sorted(existing))}, and no commit of its history tells "
            "which plan brought it there",
            f"{name} ({path})",
            repair_advice(migration.table.spec.table),
        )


def _fence(spark: SparkSession, migration: Migration, name: str) -> tuple[int, set[str]]:
    """Check that a migration may be rolled back.

    Its attempt must be the newest, its epoch not published, and the constraints the plan's. Rows
    written since are kept, so the history is not checked.
    """
    version = state.table_version(spark, migration.path(name))
    newest = newest_attempt(migration.run, migration.plan.digest).number
    if newest != migration.attempt or decided(migration):
        raise FenceError(
            "another attempt has begun, or the epoch is published, since this began to roll back",
            migration.run.url,
            "Nothing: leave it to that one",
        )
    return version, existing_constraints(spark, migration, name)
