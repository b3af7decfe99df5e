"""The migration of every state table to where the approved plan puts its rows.

It can be killed anywhere and run again: see `table_migration`. It leaves runs/RUN/migration.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import mark_moving
from evenkeel.registry.files.migration_records import MigrationRecord, TableMigrated
from evenkeel.registry.verdict import ROLL_BACK, begin_attempt, clear_earlier, newest_attempt
from evenkeel_spark.migration.fence import (
    AGAIN,
    Migration,
    crash_point,
    fence,
    our_commits,
    published,
)
from evenkeel_spark.migration.split_state import WRITTEN, check_mergeable
from evenkeel_spark.migration.table_migration import TableMigration
from evenkeel_spark.migration.throttle import Throttle, batch_stops
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import constraints, filesystem, state
from evenkeel_spark.tables.delta.checksums import duplicate_keys, misplaced_rows
from evenkeel_spark.tables.delta.commits import Commit
from evenkeel_spark.tables.membership import check_members
from partitioning.errors import FenceError, InputError
from partitioning.function.sql import quoted
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
    check_members(spark, migration.table.spec)
    migration = clear_rolled_back(migration)
    existing = {name: fence(spark, migration, name)[1] for name in names}
    state.check_comparable(spark, migration.table.spec)
    if len(shared_keys(migration.before, migration.after)):
        check_mergeable(spark, migration.table.spec)
    throttle = Throttle(spark, migration)
    if all(s == {migration.old} for s in existing.values()):
        check_one_row_a_key(spark, migration)
        check_in_place(spark, migration)
        for name in names:
            forward_migration(spark, migration, name, STEP).check_merges()
        check_budget(spark, migration, throttle)
    migration.table.registry.store.check_exclusive()
    for name in names:
        filesystem.check_writable(spark, migration.path(name))
    crash_point("weighed")
    mark_started(migration)
    # Again: evolve lists the runs that have started after a table has joined or left.
    check_members(spark, migration.table.spec)
    stops = batch_stops(spark, migration)
    for name in names:
        if migration.new not in existing[name]:
            one = forward_migration(spark, migration, name, STEP, throttle)
            one = replace(one, stops=stops)
            one.move(untouched=one.open_constraint())
        else:
            throttle.finish(name)
    record = MigrationRecord(
        digest=migration.plan.digest,
        epoch=migration.after.epoch,
        attempt=migration.attempt,
        tables={name: table_record(spark, migration, name) for name in names},
    )
    migration.run.migration.write(record)
    crash_point("written")
    return record


def check_approved(migration: Migration) -> None:
    """Raise FenceError if the answer that the run has is no, or of another plan.

    A plan that was cleared in Airflow, without the tasks after it, is one that nobody was asked
    about. A run by hand has no answer, and needs none.
    """
    said, digest = migration.run.approval.find(), migration.plan.digest
    if said is not None and not (said.approved and said.digest in (None, digest)):
        answer = f"{'approved' if said.approved else 'refused'} plan {(said.digest or digest)[:12]}"
        raise FenceError(
            f"expected approval of plan {digest[:12]}; found: {said.by} has {answer}",
            migration.run.approval.path,
            _ask_again(migration),
        )


def _ask_again(migration: Migration) -> str:
    """Return the advice for a plan that is not approved: a run asks a person about one plan."""
    asked = migration.run.question.find()
    if asked is not None and asked.digest != migration.plan.digest:
        return "Start a new run: this one asks about its first plan alone"
    return "Clear the task approve with all tasks after it, or start a new run"


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
        clear_earlier(run, _first_record(migration, number))
    return replace(migration, attempt=number)


def _first_record(migration: Migration, number: int) -> MigrationRecord:
    """Return the record of an attempt that has moved nothing yet."""
    return MigrationRecord(
        digest=migration.plan.digest, epoch=migration.after.epoch, attempt=number, tables={}
    )


def mark_started(migration: Migration) -> None:
    """Write a record without tables before the first table is changed.

    From then on `plan` does not replace the plan, because only its own run can finish it. It may
    have replaced it just before: a task that is cleared does not end its driver.

    Raises
    ------
    FenceError : the run has another plan by now
    """
    run, digest, registry = migration.run, migration.plan.digest, migration.table.registry
    known = run.migration.find()
    if first := known is None or known.digest != digest:
        run.migration.write(_first_record(migration, migration.attempt))
    crash_point("begun")
    mark_moving(registry, run)
    if (other := run.plan.read().digest) != digest:
        if first:
            # No row has moved. With this record the table would count as half moved for ever.
            run.migration.remove() if known is None else run.migration.write(known)
        raise FenceError(f"holds plan {other[:12]}, not {digest[:12]}", run.plan.path, AGAIN)


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


def check_budget(spark: SparkSession, migration: Migration, throttle: Throttle) -> None:
    """Weigh again what is to move: the tables may have grown since the plan.

    Raises
    ------
    FenceError : it is more than the plan's budget
    """
    plan = migration.plan
    if plan.budget is None:
        return
    size = 0.0
    for name in migration.table.spec.state:
        writes = forward_migration(spark, migration, name, STEP).writes()
        size += sum(throttle.weigh(spark.sql(left).where(WRITTEN), name) for left, _ in writes)
    say(f"{size:,.0f} bytes to move (planned: {plan.bytes:,.0f}, budget: {plan.budget:,.0f})")
    # Half a byte of slack: the plan's own sum of floats may differ in its last digits.
    if size > plan.budget + 0.5:
        raise FenceError(
            f"{size:,.0f} bytes are to move by now, the budget is {plan.budget:,.0f} "
            f"(planned: {plan.bytes:,.0f})",
            migration.run.url,
            "Nothing was moved: plan again, or raise the budget",
        )


def check_one_row_a_key(spark: SparkSession, migration: Migration) -> None:
    """Refuse a team's table that has got duplicates: verify would send all that moved back.

    Raises
    ------
    InputError : a key has several rows where the spec says one
    """
    for name, part in migration.table.spec.state.items():
        if part.rows != "one":
            continue
        rows, _ = state.read_newest(spark, part.path)
        if found := duplicate_keys(rows, migration.before):
            keys = ", ".join(quoted(c) for c in migration.table.spec.key)
            raise InputError(
                f"expected one row a key, found {found:,} keys with several; nothing was moved",
                f"{name} ({part.path})",
                f"Find them by SELECT {keys} FROM {state.sql_name(part.path)} GROUP BY {keys} "
                "HAVING count(1) > 1, and remove what is too many; or release the table, and adopt "
                "it with rows: many",
            )


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
                f"{constraints.mend(spec.table)}. Then correct their writer, because slot and "
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
