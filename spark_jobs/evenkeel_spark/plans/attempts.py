"""Attempts to carry out a plan: whether this one may go on, and how the next one begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evenkeel.inspect.half_moved import end_damaged_runs, mark_moving
from evenkeel.registry.files.migration_records import MigrationRecord, TableMigrated, VerifyRecord
from evenkeel.registry.verdict import (
    ROLL_BACK,
    Attempt,
    begin_attempt,
    clear_earlier,
    newest_attempt,
)
from evenkeel.table import Table
from evenkeel_spark.plans.approved_plan import AGAIN, Migration
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from partitioning.errors import FenceError


def check_newest_attempt(migration: Migration) -> Attempt:
    """Return the newest attempt at the plan, if it is this migration's and nobody has ended it.

    Raises
    ------
    FenceError : the plan was withdrawn, or the run was rolled back
    """
    attempt = newest_attempt(migration.run, migration.plan.digest)
    if attempt.withdrawn:
        raise FenceError("its plan was withdrawn", migration.run.url, AGAIN)
    if attempt.verdict == ROLL_BACK or attempt.number != migration.attempt:
        raise FenceError("this run was rolled back", migration.run.url, AGAIN)
    return attempt


def check_parent_current(migration: Migration) -> None:
    """Check that the epoch that the plan starts from is still the current one.

    Raises
    ------
    FenceError : another one is
    """
    registry, plan = migration.table.registry, migration.plan
    current = registry.current()
    if current.function.digest != plan.parent_digest:
        raise FenceError(
            f"epoch {current.number} is current, the plan starts from epoch {plan.parent_epoch}",
            registry.url,
            AGAIN,
        )


def clear_rolled_back(migration: Migration) -> Migration:
    """Let a run that was rolled back move rows again, as its next attempt.

    An attempt that was running when roll_back began stops at its next fence, because its number is
    no longer the newest. The results of the one before are cleared, because pages would show them:
    by the job that begins the new attempt, or by the next one, if that was killed. verify.json
    names its attempt, so publish never takes old results for new ones.

    Raises
    ------
    FenceError : the rollback has not ended, or the plan is withdrawn
    """
    run, digest = migration.run, migration.plan.digest
    newest = newest_attempt(run, digest)
    if newest.withdrawn:
        # Write nothing: a record of this migration would say that it has begun to move state.
        raise FenceError("its plan was withdrawn", run.url, AGAIN)
    number = newest.number
    if newest.verdict == ROLL_BACK:
        if not newest.ended:
            raise FenceError("rolling back has not ended", run.url, "Run roll_back again first")
        crash_point("beginning")
        number += 1
        begin_attempt(run, digest, number)
        crash_point("attempt begun")
    if number > 1:
        clear_earlier(run, MigrationRecord(**_facts(migration, number), tables={}))
    return replace(migration, attempt=number)


def _facts(migration: Migration, number: int) -> dict[str, Any]:
    """Return what each record of an attempt has, beside its tables."""
    return {"digest": migration.plan.digest, "epoch": migration.after.epoch, "attempt": number}


def mark_started(migration: Migration) -> None:
    """Write a record without tables before the first table is changed.

    From then on `plan` does not replace the plan, because only its own run can finish it. It may
    have replaced it just before, and a look of the watch may have removed it: a task that is
    cleared does not end its driver.

    Raises
    ------
    FenceError : the run has another plan by now, or none
    """
    run, digest, registry = migration.run, migration.plan.digest, migration.table.registry
    known = run.migration.find()
    if first := known is None or known.digest != digest:
        run.migration.write(MigrationRecord(**_facts(migration, migration.attempt), tables={}))
    crash_point("begun")
    mark_moving(registry, run)
    other = run.plan.find()
    if other is None or other.digest != digest:
        if first:
            # No row has moved. With this record the table would count as half moved for ever.
            run.migration.remove() if known is None else run.migration.write(known)
        holds = "no plan" if other is None else f"plan {other.digest[:12]}"
        raise FenceError(f"holds {holds}, not {digest[:12]}", run.plan.path, AGAIN)


def leave_migrated(migration: Migration, tables: dict[str, TableMigrated]) -> MigrationRecord:
    """Leave migration.json with the work in each table, and return what it holds.

    Raises
    ------
    FenceError : this attempt was ended meanwhile: its file would hide the next plan's
    """
    record = MigrationRecord(**_facts(migration, migration.attempt), tables=tables)
    check_newest_attempt(migration)
    migration.run.migration.write(record)
    crash_point("written")
    return record


def read_migrated(migration: Migration) -> MigrationRecord:
    """Return what migrate has left.

    Raises
    ------
    FenceError : a table was not migrated to the end
    """
    record = migration.run.migration.read()
    if missing := set(migration.table.spec.state) - set(record.tables):
        raise FenceError(
            f"{', '.join(sorted(missing))} not migrated to the end",
            migration.run.url,
            "Migrate again first",
        )
    return record


def leave_verified(migration: Migration, tables: dict[str, int]) -> VerifyRecord:
    """Leave verify.json with the version at which each table has passed; return what it holds.

    Raises
    ------
    FenceError : this attempt was ended meanwhile
    """
    record = VerifyRecord(**_facts(migration, migration.attempt), tables=tables)
    check_newest_attempt(migration)
    migration.run.verify.write(record)
    return record


def end_damaged(table: Table, dry_run: bool = False) -> None:
    """End the runs that cannot end themselves, once the tables are at rest, and say which."""
    for name in end_damaged_runs(table.registry, dry_run):
        what = "would be" if dry_run else "is"
        say(f"run {name} is given up, or has files that cannot be read: it {what} ended")
