"""Verify the branches of a migration, let main follow them, and publish the epoch.

Readers of main see the rows of a table before the move, or after it. The gate compares branch and
main before main follows. A row that comes to main meanwhile makes the branch too old: then the rows
are moved again, on a new branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from evenkeel.quality.gates import tables_gate
from evenkeel.registry.files.migration_records import TableMigrated
from evenkeel.registry.verdict import PUBLISH, newest_attempt
from evenkeel_spark.iceberg.measuring import measure_branch
from evenkeel_spark.iceberg.migrate import branch_prefix, check_fence, move
from evenkeel_spark.iceberg.placing import name_column
from evenkeel_spark.iceberg.publish import MOVES_AGAIN, STEP, busy, publish, settle_tables
from evenkeel_spark.migration.measuring.measures import channel_counts
from evenkeel_spark.plans.approved_plan import Migration, published
from evenkeel_spark.plans.attempts import check_newest_attempt, leave_verified, read_migrated
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.checks import adopted_tables
from evenkeel_spark.tables.iceberg.table import MAIN, IcebergTable
from partitioning.errors import FenceError
from partitioning.moves.partial_rows import shared_keys


def verify(spark: SparkSession, migration: Migration) -> None:
    """Pass the branches through the gate, let main follow them, and publish.

    Raises
    ------
    GateError : names every expectation that fails; main is as it was
    FenceError : something has changed since the plan, or others write all the time
    """
    if published(migration):
        say(f"epoch {migration.after.epoch} is published")
        settle_tables(spark, migration)
        return
    newest = newest_attempt(migration.run, migration.plan.digest)
    migration = replace(migration, attempt=newest.number)
    if newest.verdict == PUBLISH:
        # It has passed, and nobody can go back: the gate is not asked again.
        publish(spark, migration)
        return
    tables = adopted_tables(spark, migration.table.spec)
    moved = pass_gate(migration, tables)
    for name, table in tables.items():
        close(migration, name, table)
    again = 0
    while any(_stale(migration, tables[name], one) for name, one in moved.items()):
        # The moves of the last turn are looked at, too.
        if again == MOVES_AGAIN:
            raise busy(migration)
        again += 1
        say("a table was changed meanwhile: its rows are moved again")
        moved = pass_gate(migration, tables)
    # Main follows these snapshots, and no others.
    leave_verified(migration, {name: one.after for name, one in moved.items()})
    crash_point("verified")
    publish(spark, migration)


def close(migration: Migration, name: str, table: IcebergTable) -> None:
    """Refuse writers by the epoch before: they name a column that is there no more."""
    check_fence(migration, name, table)
    registry = migration.table.registry
    name_column(registry, table, migration.after.epoch)
    crash_point("closed")
    try:
        check_fence(migration, name, table)
    except FenceError:
        # A rollback has begun, and may have looked before. No one else would open it again.
        name_column(registry, table, migration.before.epoch)
        raise


def pass_gate(migration: Migration, tables: Mapping[str, IcebergTable]) -> dict[str, TableMigrated]:
    """Move the tables again whose main has moved, and pass all through the gate.

    Returns
    -------
    The moves that have passed, by table.
    """
    run = migration.run
    moved = _up_to_date(migration, tables)
    shared = shared_keys(migration.before, migration.after)
    measures, found = [], {}
    for name, table in tables.items():
        say(f"{name}: measuring")
        measured, found[name] = measure_branch(migration, name, table, moved[name])
        measures.append(measured)
    channels = channel_counts(run.profile.read(), migration.after, measures, found, shared)
    gate = tables_gate(measures, channels, migration.plan, migration.table.registry.store, run.name)
    check_newest_attempt(migration)
    run.gate_tables.write(gate.record())
    gate.check(run.url)
    say(gate.passed)
    return moved


def _stale(migration: Migration, table: IcebergTable, moved: TableMigrated) -> bool:
    """Return whether main is not where the branches of a move began, or one of them is gone."""
    table.refresh()
    refs = table.refs()
    ours = branch_prefix(migration)
    branches = {at for name, at in refs.items() if name.startswith(ours)}
    return refs.get(MAIN) != moved.before or not {moved.before, moved.after} <= branches


def _up_to_date(
    migration: Migration, tables: Mapping[str, IcebergTable]
) -> dict[str, TableMigrated]:
    """Move again the rows of tables whose main or branch is another one by now.

    Raises
    ------
    FenceError : a table was not migrated to the end
    """
    record = read_migrated(migration)
    moved = dict(record.tables)
    for name, table in tables.items():
        if _stale(migration, table, moved[name]):
            moved[name] = move(migration, name, table, STEP)
    if moved != record.tables:
        found = record.model_copy(update={"tables": moved, "attempt": migration.attempt})
        check_newest_attempt(migration)
        migration.run.migration.write(found)
    return moved
