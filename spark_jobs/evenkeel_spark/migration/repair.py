"""Repair: bring every state table to the epoch in force, whatever was broken off or done by hand.

Looks at the registry, the tables and the runs that moved rows; says what is wrong and what it
will do, and with --dry-run ends there. Where a run is decided to publish, it goes forward; else
back, and the run is marked as rolled back. It needs no order: where rows stand does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.epochs import Epoch, TableVersion
from evenkeel.registry.verdict import PUBLISH, ROLL_BACK, mark, newest_attempt, settle
from evenkeel.table import Table
from evenkeel_spark.migration.fence import Migration, approved_migration
from evenkeel_spark.migration.placement import Placement
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function.function import PartitioningFunction

STEP = "repair"


@dataclass(frozen=True)
class Finding:
    """What is wrong with a state table, and the constraints of ours that stand on it."""

    name: str
    stands: frozenset[str]
    wrong: str


def repair(spark: SparkSession, table: Table, dry_run: bool = False) -> list[Finding]:
    """Bring the state tables to the epoch in force; returns what was wrong. Can be killed anywhere
    and run again.

    Parameters
    ----------
    dry_run : say what is wrong and what would be done; change nothing

    Raises
    ------
    InputError : nothing is bootstrapped yet, or state tables that are not there or not this spec's
    FenceError : writers that use another epoch's function do not stop
    """
    check_tables(spark, table.spec)
    current = table.epoch()
    runs = _unfinished(spark, table, current)
    forward = next((m for m in runs if _verdict(m) == PUBLISH), None)
    function = current.function if forward is None else forward.after
    findings = [f for n in table.spec.state if (f := _look(spark, table, n, function))]
    if not findings and forward is None:
        say(f"every state table stands under epoch {current.number} alone: nothing to repair")
    for finding in findings:
        say(f"{finding.name}: {finding.wrong}")
    what = "would be" if dry_run else "is"
    for migration in runs:
        way = "brought to its end and published" if migration is forward else "rolled back"
        say(f"run {migration.run.name} (plan {migration.plan.digest[:12]}) {what} {way}")
    for finding in findings:
        say(f"{finding.name}: {what} brought to epoch {function.epoch}")
    if dry_run:
        return findings
    for migration in runs:
        number = newest_attempt(migration.run, migration.plan.digest).number
        if settle(migration.run, migration.plan.digest, number, ROLL_BACK) == PUBLISH:
            if migration is not forward:
                # It was decided since this looked.
                return repair(spark, table)
        else:
            mark(migration.run, migration.plan.digest, number, done=False)
    for finding in findings:
        Placement(spark, table.spec, finding.name, function, STEP).bring()
    if forward is not None:
        _publish(spark, table, forward)
    for migration in runs:
        if migration is not forward:
            number = newest_attempt(migration.run, migration.plan.digest).number
            mark(migration.run, migration.plan.digest, number, done=True)
    return findings


def _look(
    spark: SparkSession, table: Table, name: str, function: PartitioningFunction
) -> Finding | None:
    """What is wrong with a state table; None: it stands under the function alone."""
    path = table.spec.state[name].path
    found = {n: s for n, s in constraints.of(spark, path).items() if n.startswith(constraints.OURS)}
    wanted = constraints.epoch_name(function.epoch)
    if wanted in found and not constraints.same_sql(found[wanted], constraints.rule(function)):
        wrong = f"constraint {wanted} is not the one that Evenkeel wrote"
    elif set(found) != {wanted}:
        stand = ", ".join(sorted(found)) or "no constraint of Evenkeel's"
        wrong = f"stands under {stand}; expected {wanted} alone"
    else:
        return None
    return Finding(name, frozenset(found), wrong)


def _unfinished(spark: SparkSession, table: Table, current: Epoch) -> list[Migration]:
    """The migrations from the epoch in force that have touched a state table and have neither
    ended nor been rolled back to the end."""
    found: dict[str, Migration] = {}
    for name, part in table.spec.state.items():
        known = current.tables.get(name)
        since = -1 if known is None else known.version
        for commit in commits.newest_first(spark, part.path):
            if commit.version <= since:
                break
            digest, run = commit.meta.get("digest"), commit.meta.get("run")
            if not digest or not run or digest in found:
                continue
            migration = _migration(table, str(run), str(digest))
            if migration is None or migration.plan.parent_digest != current.function.digest:
                continue
            newest = newest_attempt(migration.run, migration.plan.digest)
            if not (newest.verdict == ROLL_BACK and newest.ended):
                found[str(digest)] = migration
    return list(found.values())


def _migration(table: Table, run: str, digest: str) -> Migration | None:
    """The plan of that digest; None where its run's folder no longer has it."""
    try:
        if read_plan(table.registry.run(run)).digest != digest:
            return None
        return approved_migration(table, run, digest)
    except (DamagedError, FenceError, InputError) as error:
        say(f"run {run}: its plan cannot be used, and the tables go back: {error}")
        return None


def _verdict(migration: Migration) -> str | None:
    return newest_attempt(migration.run, migration.plan.digest).verdict


def _publish(spark: SparkSession, table: Table, migration: Migration) -> None:
    """Create the epoch that a run was decided to publish, once every table stands under it."""
    versions = {}
    for name, part in table.spec.state.items():
        version = state.table_version(spark, part.path)
        if (finding := _look(spark, table, name, migration.after)) is not None:
            raise FenceError(
                f"{finding.wrong}: somebody has changed it since it was repaired",
                f"{name} ({part.path})",
                constraints.mend(table.spec.table),
            )
        versions[name] = TableVersion(part.path, version)
    epoch = table.registry.publish(migration.after, versions, migration.plan.digest)
    say(f"epoch {epoch.number} is published")
