"""The migration of every state table to where the approved plan puts its rows.

It can be killed anywhere and run again: see `table_migration`. It leaves runs/RUN/migration.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from evenkeel.registry.files.migration_records import MigrationRecord, TableMigrated
from evenkeel_spark.migration.fence import fence, our_commits
from evenkeel_spark.migration.split_state import WRITTEN, check_mergeable
from evenkeel_spark.migration.table_migration import TableMigration
from evenkeel_spark.migration.throttle import Throttle, batch_stops
from evenkeel_spark.plans.approved_plan import Migration, check_approved, published
from evenkeel_spark.plans.attempts import clear_rolled_back, leave_migrated, mark_started
from evenkeel_spark.plans.before_moving import check_budget, check_one_row_a_key
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.delta.commits import Commit
from evenkeel_spark.tables.delta.state import owning_spec
from evenkeel_spark.tables.membership import check_members
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.rows.checksums import duplicate_keys, misplaced_rows
from partitioning.errors import InputError
from partitioning.moves.partial_rows import shared_keys

STEP = "migrate"


def migrate(spark: SparkSession, migration: Migration) -> MigrationRecord:
    """Move the rows of every state table, and return what was done.

    Raises
    ------
    InputError : keys are split, and a state table has a column without a merge; a column cannot be
        compared; or the spec has other state tables than the registry
    FenceError : another plan was approved; something has changed since the plan; what moves has
        outgrown the budget; a rollback has not ended; or other writers never let us commit
    DeniedError : we lack the right to write where a state table is; nothing was changed
    """
    names = list(migration.table.spec.state)
    if published(migration):
        # The logs of its tables may be gone since.
        return migration.run.migration.read()
    check_approved(migration)
    check_members(migration.table.spec, partial(owning_spec, spark))
    migration = clear_rolled_back(migration)
    existing = {name: fence(spark, migration, name)[1] for name in names}
    state.check_comparable(spark, migration.table.spec)
    if len(shared_keys(migration.before, migration.after)):
        check_mergeable(spark, migration.table.spec)
    throttle = Throttle(spark, migration)
    if all(s == {migration.old} for s in existing.values()):
        _check_one_row_a_key(spark, migration)
        check_in_place(spark, migration)
        for name in names:
            forward_migration(spark, migration, name, STEP).check_merges()
        check_budget(migration, lambda: weigh_moves(spark, migration, throttle))
    migration.table.registry.store.check_exclusive()
    for name in names:
        filesystem.check_writable(spark, migration.path(name))
    crash_point("weighed")
    mark_started(migration)
    # Again: evolve lists the runs that have started after a table has joined or left.
    check_members(migration.table.spec, partial(owning_spec, spark))
    stops = batch_stops(spark, migration)
    for name in names:
        if migration.new not in existing[name]:
            one = forward_migration(spark, migration, name, STEP, throttle)
            one = replace(one, stops=stops)
            one.move(untouched=one.open_constraint())
        else:
            throttle.finish(name)
    return leave_migrated(migration, {name: table_record(spark, migration, name) for name in names})


def forward_migration(
    spark: SparkSession,
    migration: Migration,
    name: str,
    step: str,
    throttle: Throttle | None = None,
) -> TableMigration:
    """Return the migration of one state table to the plan's epoch."""
    return TableMigration(
        spark,
        migration,
        name,
        migration.before,
        migration.after,
        step,
        lambda: fence(spark, migration, name),
        throttle=throttle,
    )


def weigh_moves(spark: SparkSession, migration: Migration, throttle: Throttle) -> float:
    """Return the bytes that are to move by now."""
    size = 0.0
    for name in migration.table.spec.state:
        writes = forward_migration(spark, migration, name, STEP).writes()
        size += sum(throttle.weigh(spark.sql(left).where(WRITTEN), name) for left, _ in writes)
    return size


def _check_one_row_a_key(spark: SparkSession, migration: Migration) -> None:
    for name, part in migration.table.spec.state.items():
        if part.rows == "one":
            rows, _ = state.read_newest(spark, part.path)
            found = duplicate_keys(rows, migration.before)
            check_one_row_a_key(migration, name, found, state.sql_name(part.path))


def check_in_place(spark: SparkSession, migration: Migration) -> None:
    """Refuse a table whose fence has let rows through: an UPDATE could not bring them anywhere.

    Raises
    ------
    InputError : names one of them
    """
    spec = migration.table.spec
    if spec.fence == "key":
        return
    for name, part in spec.state.items():
        rows, _ = state.read_newest(spark, part.path)
        if (wrong := misplaced_rows(rows, migration.before)) is not None:
            raise InputError(
                f"has rows that are not where their key belongs ({wrong}); nothing was moved",
                f"{name} ({part.path})",
                f"{repair_advice(spec.table)}. Then correct their writer, because slot and "
                "channel must be those of the current epoch, and start a new run",
            )


def table_record(
    spark: SparkSession, migration: Migration, name: str, known: float | None = None
) -> TableMigrated:
    """Summarize our UPDATEs and MERGEs from the table's own history.

    Parameters
    ----------
    name : of the state table, in the spec
    known : bytes per row; None: computed from the table's files
    """
    path = migration.path(name)
    commits = our_commits(spark, migration, name)
    version = state.table_version(spark, path)
    return TableMigrated(
        path=path,
        before=commits[0].version - 1 if commits else version,
        after=commits[-1].version if commits else version,
        commits=[c.version for c in commits],
        rows=sum(c.rows for c in commits),
        bytes=sum(c.bytes for c in commits),
        files=sum(c.files for c in commits),
        seconds=round(sum(c.metrics["executionTimeMs"] for c in commits) / 1000, 3),
        elapsed=elapsed(commits),
        bytes_per_row=state.table_bytes_per_row(spark, path) if known is None else known,
    )


def elapsed(made: Sequence[Commit]) -> float:
    """Return the seconds from the beginning of the first commit to the end of the last."""
    if not made:
        return 0.0
    # A commit is stamped when it is written: its work ends there.
    first = made[0].timestamp - made[0].metrics["executionTimeMs"] / 1000
    return round(max(0.0, made[-1].timestamp - first), 3)
