"""Repair Iceberg tables: bring each to the current epoch, whatever was broken off.

A run that has claimed the next epoch goes forward. All other branches are dropped. Then each table
gets the column of the current epoch, and rows that are elsewhere are placed.
"""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.state_view import slot_column
from evenkeel.registry.verdict import PUBLISH, forbid, has_started, newest_attempt
from evenkeel.table import Table
from evenkeel_spark.iceberg.placing import count_misplaced, name_column, place_late, slot_name
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.plans.attempts import end_damaged
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.iceberg.checks import adopted_tables, lost_icebergs
from evenkeel_spark.tables.iceberg.commits import commits_back
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import refuse_missing, table_in_errors
from partitioning.errors import DamagedError, EvenkeelError, FenceError, InputError


def repair(
    spark: SparkSession, table: Table, dry_run: bool = False, registry_older: bool = False
) -> list[str]:
    """Bring the tables to the current epoch. It can be killed anywhere and run again.

    Parameters
    ----------
    dry_run : say what is wrong and what would be done, and change nothing
    registry_older : give up epochs of the tables that the registry does not have, and the claim of
        a run that is gone

    Returns
    -------
    The names of the tables that were not in order.

    Raises
    ------
    FenceError : a table is under an epoch that the registry does not have; or another epoch was
        published meanwhile
    InputError : a table is missing, which is said once the others are at rest; or is another one
    """
    spec, registry = table.spec, table.registry
    for name in _unended(table):
        _end(spark, table, name, dry_run, registry_older)
    _give_up_claims(table, dry_run, registry_older)
    function, wrong = table.epoch().function, []
    lost = lost_icebergs(spark, spec)
    for name, one in adopted_tables(spark, spec, lost=lost).items():
        where, column, epoch = table_in_errors(spec, name), slot_name(one), one.epoch() or 0
        elsewhere, wanted = count_misplaced(one, function), slot_column(function.epoch)
        branches = one.branches()
        found = [f"its column is {column}"] if column != wanted else []
        found += [f"{elsewhere:,} rows are elsewhere"] if elsewhere else []
        found += [f"{len(branches)} branches are left"] if branches else []
        say(f"{name}: {', '.join(found) or 'in order'}")
        if not found:
            continue
        wrong.append(name)
        shut = _claimed(table) is None and _is_only_shut(one, function.epoch)
        if epoch > function.epoch and not (registry_older or shut or _unended(table)):
            raise FenceError(
                f"has the column {column}, and the registry's newest epoch is {function.epoch}",
                where,
                "Restore the registry; or run repair with --registry-older, which brings the rows "
                "back to that epoch",
            )
        if dry_run:
            continue
        if registry.current().number != function.epoch:
            raise FenceError("another epoch was published meanwhile", registry.url, "Run it again")
        name_column(registry, one, function.epoch)
        meta, whole = {"step": "repair", "epoch": function.epoch}, spec.state[name].rows == "one"
        place_late(one, where, function, meta, whole)
        one.drop_branches()
    # A plan that has claimed the next epoch ends first, or a person gives it up.
    if _claimed(table) is None:
        end_damaged(table, dry_run)
    for name in lost:
        refuse_missing(spec, name)
    return wrong


def _is_only_shut(one: IcebergTable, epoch: int) -> bool:
    """Return whether a run has shut a table for the next epoch, and moved no row of main to it."""
    if one.epoch() != epoch + 1:
        return False
    first = None
    for commit in commits_back(one.spark, one.sql, one.head()):
        first = commit
        if commit.under is not None:
            return commit.under <= epoch
    # All commits are there, and none has ever moved a row.
    return first is None or first.parent is None


def _unended(table: Table) -> list[str]:
    """List the runs that have begun to move rows and not ended; first the one with the claim."""
    registry, found = table.registry, {}
    for name in registry.files.moving_runs():
        try:
            half = find_half_moved(registry, registry.run(name))
        except EvenkeelError as error:
            say(f"run {name}: {error}")
            continue
        if half is not None:
            found[name] = half.digest
    claim = _claimed(table)
    return sorted(found, key=lambda name: found[name] != claim)


def _claimed(table: Table) -> str | None:
    """Return the digest of the plan that has claimed the next epoch; None: none has."""
    claim = table.registry.files.claim(table.registry.current().number + 1).find()
    return None if claim is None else claim.digest


def _give_up_claims(table: Table, dry_run: bool, asked: bool) -> None:
    """Remove each claim of an epoch that nobody can publish, if a person asks for it.

    Its run is gone, has torn files, or could not be ended just now. Or the epoch comes after the
    next one, because the registry is of before.
    """
    registry, current = table.registry, table.registry.current().number
    runs = [registry.run(name) for name in _unended(table)]
    for number in (n for n in registry.files.claimed_epochs() if n > current):
        digest = registry.files.claim(number).read().digest
        owners = [run for run in runs if has_started(run, digest)]
        if asked and not dry_run:
            # The run first: without its claim, nothing would tell that it is given up. Its job may
            # still sleep, or be cleared: it has the verdict to publish.
            for run in owners:
                forbid(run, digest)
                run.migration.remove()
            registry.files.claim(number).remove()
            say(f"the claim of epoch {number} by plan {digest[:12]} is given up")
        elif number > current + 1 or not any(_can_end(run, digest) for run in owners):
            say(
                f"epoch {number} is claimed by plan {digest[:12]}, and no run here can end it; "
                "--registry-older gives that plan up"
            )


def _can_end(run: RunFiles, digest: str) -> bool:
    """Return whether the files by which a run with a claim ends are there and can be read."""
    with suppress(DamagedError):
        plan, verified = run.plan.find(), run.verify.find()
        # Its verdict may be torn, too.
        newest_attempt(run, digest)
        return plan is not None and plan.digest == digest and verified is not None
    return False


def _end(spark: SparkSession, table: Table, name: str, dry_run: bool, given_up: bool) -> None:
    """End a run: forward if it is decided to publish, else back.

    One that cannot be ended, because a file of it is torn or another run has its epoch, stays.

    Parameters
    ----------
    given_up : a run with a claim that cannot be ended stays like any other
    """
    run, half = table.registry.run(name), None
    try:
        if (half := find_half_moved(table.registry, run)) is None:
            return
        if _claimed(table) == half.digest and not _can_end(run, half.digest):
            lost = f"run {name} has claimed its epoch, and a file of it is lost"
            say(f"{lost}: bring that back; or --registry-older gives the plan up")
            if given_up:
                return
        forward = newest_attempt(run, half.digest).verdict == PUBLISH
        say(f"run {name} has begun and not ended: it goes {'forward' if forward else 'back'}")
        if forward and _claimed(table) is None and lost_icebergs(spark, table.spec):
            given = "would be" if dry_run else "is"
            say(f"run {name}: a table is lost, so it cannot be published. It {given} given up")
            if not dry_run:
                # Its record stays until all tables are at rest: it tells what they stand under.
                forbid(run, half.digest)
        elif not dry_run:
            roll_back(spark, approved_migration(table, name, half.digest))
    except (DamagedError, FenceError, InputError) as error:
        claimed = half is not None and _claimed(table) == half.digest
        if claimed and (error.retry or not given_up):
            # It has begun to bring its rows to readers: nothing else may be done first.
            say("if nothing else helps, --registry-older gives the plan up")
            raise
        say(f"run {name} cannot be ended: {error}")
