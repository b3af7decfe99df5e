"""Move the rows of Iceberg tables on branches, which no reader of main sees.

Each attempt of each job has branches of its own, so a job that was given up and wakes changes none
that counts. It leaves runs/RUN/migration.json with the snapshots of before and after the move.
"""

from __future__ import annotations

import secrets
import time

from pyspark.sql import SparkSession

from evenkeel.registry.files.migration_records import MigrationRecord, TableMigrated
from evenkeel_spark.iceberg.placing import count_misplaced, slot_name, update_sql
from evenkeel_spark.plans.approved_plan import AGAIN, Migration, check_approved, published
from evenkeel_spark.plans.attempts import (
    check_newest_attempt,
    check_parent_current,
    clear_rolled_back,
    leave_migrated,
    mark_started,
)
from evenkeel_spark.plans.before_moving import check_budget, check_one_row_a_key
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.checks import UPDATES_WELL, adopted_tables, check_properties
from evenkeel_spark.tables.iceberg.commits import PLACED, STATEMENT_TRIES, once_free
from evenkeel_spark.tables.iceberg.table import BRANCHES, IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.rows.checksums import duplicate_keys
from partitioning.errors import FenceError
from partitioning.function.sql import quoted

STEP = "migrate"
#: End of the name of a branch that stays where a move began.
BASE = "_base"


def migrate(spark: SparkSession, migration: Migration) -> MigrationRecord:
    """Move the rows of every table on a branch, and return what was done.

    Raises
    ------
    InputError : a table is not as the spec has it; a key has several rows where it may have one
    FenceError : another plan was approved; something has changed since; it is over the budget
    """
    if published(migration):
        return migration.run.migration.read()
    check_approved(migration)
    tables = adopted_tables(spark, migration.table.spec)
    for name, table in tables.items():
        check_properties(migration.table.spec, name, table, UPDATES_WELL)
    migration = clear_rolled_back(migration)
    for name, table in tables.items():
        check_fence(migration, name, table)
        # State from events is checked by each window.
        if migration.table.spec.state[name].rows == "one":
            found = duplicate_keys(table.rows(), migration.before)
            check_one_row_a_key(migration, name, found, table.sql)
    check_budget(migration, lambda: sum(_to_move(migration, t) for t in tables.values()))
    migration.table.registry.store.check_exclusive()
    mark_started(migration)
    # Again: evolve lists the runs that have started after tables and columns have changed.
    tables = adopted_tables(spark, migration.table.spec)
    moved = {name: move(migration, name, table, STEP) for name, table in tables.items()}
    return leave_migrated(migration, moved)


def check_fence(migration: Migration, name: str, table: IcebergTable) -> None:
    """Check for one table that the migration may go on.

    Raises
    ------
    FenceError : the run was rolled back, another epoch is current, or the table is not the one that
        the plan was made from
    """
    plan, where = migration.plan, table_in_errors(migration.table.spec, name)
    attempt = check_newest_attempt(migration)
    check_parent_current(migration)
    claim = migration.table.registry.files.claim(migration.after.epoch).find()
    if attempt.verdict is None and claim is not None and claim.digest != plan.digest:
        raise FenceError(
            f"plan {claim.digest[:12]} is about to publish epoch {migration.after.epoch}",
            migration.table.registry.url,
            repair_advice(migration.table.spec.table),
        )
    table.refresh()
    if (epoch := table.epoch()) not in (migration.before.epoch, migration.after.epoch):
        raise FenceError(
            f"has the column slot_{epoch}", where, repair_advice(migration.table.spec.table)
        )
    # Once it is decided to publish, rows are moved from wherever main is.
    if attempt.verdict is None and table.since(plan.tables[name]) is None:
        raise FenceError(
            f"snapshot {plan.tables[name]}, which the plan saw, is no ancestor of main any more: "
            "the table was rolled back or made again",
            where,
            AGAIN,
        )


def branch_prefix(migration: Migration) -> str:
    """Return how the names of all branches of a plan begin."""
    return f"{BRANCHES}{migration.plan.digest[:12]}_"


def move(migration: Migration, name: str, table: IcebergTable, step: str) -> TableMigrated:
    """Move one table's rows on a new branch from where main is now.

    Returns
    -------
    The record of it. `before` is the snapshot of main, and `after` that of the branch.
    """
    check_fence(migration, name, table)
    began = time.monotonic()
    before = table.head()
    branch = f"{branch_prefix(migration)}{migration.attempt}_{secrets.token_hex(4)}"
    # This one keeps the snapshot of before from expiry, and is read by the table's columns of now.
    table.create_branch(f"{branch}{BASE}", before)
    table.create_branch(branch, before)
    crash_point("branched")
    target = f"{table.sql}.{quoted(f'branch_{branch}')}"
    # The name that it has before `verify` renames it, or after.
    statement = update_sql(target, slot_name(table), migration.after)
    size = table.bytes_per_row()
    try:
        # The gate measures this snapshot before main follows: all of its rows are placed.
        said = {**migration.meta(step), PLACED: migration.after.digest}
        # No other job writes to this branch, but on a busy table Iceberg gives up a commit to it.
        once_free(
            table_in_errors(migration.table.spec, name),
            table.refresh,
            lambda: table.write(said, lambda own: own.sql(statement)),
            STATEMENT_TRIES,
        )
        crash_point("moved")
    finally:
        # A rollback may have dropped the branch: say that, and not that it is missing.
        check_fence(migration, name, table)
    if (after := table.refs().get(branch)) is None:
        raise FenceError(
            f"has lost its branch {branch}",
            table_in_errors(migration.table.spec, name),
            "Run this step again",
        )
    made = table.since(before, after) or []
    elapsed = round(time.monotonic() - began, 3)
    rows = sum(one.count("added-records") for one in made)
    say(f"{name}: {rows:,} rows moved on branch {branch}")
    return TableMigrated(
        path=table.name,
        before=before,
        after=after,
        commits=[one.number for one in made],
        rows=rows,
        bytes=sum(one.count("added-files-size") for one in made),
        files=sum(one.count("added-data-files") for one in made),
        seconds=elapsed,
        elapsed=elapsed,
        bytes_per_row=size,
    )


def _to_move(migration: Migration, table: IcebergTable) -> float:
    return count_misplaced(table, migration.after) * table.bytes_per_row()
