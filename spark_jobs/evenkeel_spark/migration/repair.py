"""The repair of state tables: bring each to the current epoch, wherever its rows are.

It reads the registry, the tables and the runs that moved rows. A run that is decided to publish
goes forward. Any other goes back, and is marked as rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import moving_plans
from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.epochs import Epoch, TableVersion
from evenkeel.registry.verdict import PUBLISH, ROLL_BACK, forbid, mark, newest_attempt, settle
from evenkeel.table import Table
from evenkeel_spark.migration.fence import plans_since
from evenkeel_spark.migration.placement import REPAIRING, Placement
from evenkeel_spark.migration.publish import check_still_admitted
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.plans.attempts import end_damaged
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.filesystem import occupied
from evenkeel_spark.tables.membership import lost_tables, refuse_missing
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.rows.checksums import misplaced_rows
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function.function import PartitioningFunction

STEP = "repair"


@dataclass(frozen=True)
class TableFault:
    """Hold what is wrong with a state table, and which of our constraints it has."""

    name: str
    existing: frozenset[str]
    wrong: str


@dataclass(frozen=True, eq=False)
class RepairTarget:
    """Hold what a repair brings the tables to.

    Parameters
    ----------
    runs : migrations that have touched a table and have not ended
    forward : the one of them that is decided to publish; None: all go back
    function : that alone is to hold
    lost : names of the state tables that are gone. Without one, no run goes forward
    """

    runs: list[Migration]
    forward: Migration | None
    function: PartitioningFunction
    lost: list[str]


def repair(
    spark: SparkSession, table: Table, dry_run: bool = False, registry_older: bool = False
) -> list[TableFault]:
    """Bring the state tables to the current epoch. It can be killed anywhere and run again.

    Parameters
    ----------
    table : its spec and registry
    dry_run : print what is wrong and what would be done; change nothing
    registry_older : a person knows that the registry is older than the tables, and goes on from it

    Returns
    -------
    The faults of each table.

    Raises
    ------
    InputError : nothing is bootstrapped yet; a state table is not this spec's; or rows of a key
        cannot be merged exactly. No table was changed then. Or a state table is missing, which is
        said once the others are at rest
    FenceError : other writers never let us commit, or another run has decided otherwise since this
        began; or the registry is older than a table
    """
    # A column that was added by hand may be in the spec for as long as its rows are merged.
    lost = lost_tables(table.spec, partial(occupied, spark))
    check_tables(spark, table.spec, added=True, lost=lost)
    decided = _decide(spark, table, lost)
    function, left = decided.function, [name for name in table.spec.state if name not in lost]
    findings = [f for name in left if (f := _look(spark, table, name, function))]
    _tell(decided, findings, "would be" if dry_run else "is")
    if not registry_older:
        for finding in findings:
            _check_not_older(spark, table, finding, function.epoch)
    check = partial(_check_decision, spark, table, function)
    placements = [
        Placement(spark, table.spec, f.name, function, STEP, f.existing, check) for f in findings
    ]
    for placement in placements:
        placement.check_possible()
    if not dry_run:
        if not _settle(decided):
            # A run was decided to publish, or began another attempt, since `_decide` looked.
            return repair(spark, table, registry_older=registry_older)
        _bring(spark, table, decided, placements)
    end_damaged(table, dry_run)
    for name in lost:
        refuse_missing(table.spec, name)
    return findings


def _bring(
    spark: SparkSession, table: Table, decided: RepairTarget, placements: list[Placement]
) -> None:
    """Bring the tables to what is decided, and end the runs."""
    for placement in placements:
        placement.bring()
    if decided.forward is not None:
        _publish(spark, table, decided.forward)
    for migration in decided.runs:
        # The attempt that was decided on: a later one may be half-way back by now.
        run, digest, number = migration.run, migration.plan.digest, migration.attempt
        if settle(run, digest, number, ROLL_BACK) == ROLL_BACK:
            mark(run, digest, number, done=True)


def _decide(spark: SparkSession, table: Table, lost: list[str]) -> RepairTarget:
    current = table.epoch()
    runs = _unfinished(spark, table, current)
    forward = None if lost else next((m for m in runs if _verdict(m) == PUBLISH), None)
    function = current.function if forward is None else forward.after
    return RepairTarget(runs, forward, function, lost)


def _check_decision(spark: SparkSession, table: Table, function: PartitioningFunction) -> None:
    """Refuse to go on where a repair would bring the tables to another function by now."""
    wanted = _decide(spark, table, lost_tables(table.spec, partial(occupied, spark))).function
    if wanted.digest != function.digest:
        raise FenceError(
            f"epoch {wanted.epoch} is the one to bring the tables to by now, and was epoch "
            f"{function.epoch} when this began to repair",
            table.registry.url,
            repair_advice(table.spec.table),
        )


def _tell(decided: RepairTarget, findings: list[TableFault], what: str) -> None:
    """Say what is wrong, and what is done, or would be."""
    epoch = decided.function.epoch
    for name in decided.lost:
        say(f"{name}: nothing is left of it: the others {what} brought to rest without it")
    if not findings and decided.forward is None:
        say(f"every state table admits epoch {epoch} alone: nothing to repair")
    for finding in findings:
        say(f"{finding.name}: {finding.wrong}")
    for migration in decided.runs:
        forward = migration is decided.forward
        way = "brought to its end and published" if forward else "rolled back"
        if not forward and _verdict(migration) == PUBLISH:
            way = f"ended: {'a table is lost' if decided.lost else 'another run goes forward'}"
        say(f"run {migration.run.name} (plan {migration.plan.digest[:12]}) {what} {way}")
    for finding in findings:
        say(f"{finding.name}: {what} brought to epoch {epoch}")


def _check_not_older(spark: SparkSession, table: Table, finding: TableFault, epoch: int) -> None:
    """Refuse a table of a later epoch, moved by a run that the registry has never had.

    Its rows would move back without a gate, and the next epoch would have a number that is taken.
    If only the folder of that run is gone, its mark is left.

    Raises
    ------
    FenceError : the registry came back from a backup that is older than the table
    """
    name, path = finding.name, table.spec.state[finding.name].path
    found = max(_epochs(spark, path, finding.existing), default=epoch)
    plans = plans_since(spark, table, name, table.epoch()) if found > epoch else iter(())
    run, _ = next(plans, (None, None))
    registry = table.registry
    if run is None or registry.run(run).plan.exists() or run in registry.files.moving_runs():
        return
    raise FenceError(
        f"expected epoch {epoch} or an earlier one, found epoch {found}. Run {run} last moved its "
        f"rows, and {registry.url} lacks it: the registry is older than the table",
        f"{name} ({path})",
        "Bring back a registry from after that run, or state tables and registry as they were at "
        f"one time. To give up epoch {found} for good: "
        f"`evenkeel repair {table.spec.table} --registry-older`, or the DAG with registry_older",
    )


def _epochs(spark: SparkSession, path: str, existing: Iterable[str]) -> Iterator[int]:
    """Yield epochs that were in force, or decided, when a table got its constraints.

    A move to an epoch begins under the one before it. A repair's constraint names no epoch, but
    its commits do.
    """
    for name in existing:
        if found := re.fullmatch(rf"{constraints.OURS}(epoch|moving)_(\d+)(_.*)?", name):
            yield int(found[2]) - (found[1] == "moving")
        elif name == REPAIRING:
            made = commits.newest_first(spark, path)
            yield next((int(c.meta["epoch"]) for c in made if c.meta.get("step") == STEP), 0)


def _settle(decided: RepairTarget) -> bool:
    """Have every run roll back that is not decided; False if the decision is out of date.

    Two runs may be decided to publish. The one that moved rows last goes forward, and with its
    epoch the other's plan has ended.
    """
    for migration in decided.runs:
        run, digest, number = migration.run, migration.plan.digest, migration.attempt
        if newest_attempt(run, digest).number != number:
            return False
        if settle(run, digest, number, ROLL_BACK) != PUBLISH:
            mark(run, digest, number, done=False)
        elif decided.lost:
            # If that table comes back, the others must not go forward again.
            forbid(run, digest)
        elif decided.forward is None:
            return False
    return True


def _look(
    spark: SparkSession, table: Table, name: str, function: PartitioningFunction
) -> TableFault | None:
    """Say what is wrong with a state table; None: the function's constraint is its only one.

    With `fence: slot` it looks at the rows, too, because the constraint lets some through.
    """
    spec, path = table.spec, table.spec.state[name].path
    found = constraints.ours(spark, path)
    wanted = constraints.epoch_name(function.epoch)
    rule = constraints.fence_rule(spec, function)
    if wanted in found and not constraints.same_sql(found[wanted], rule):
        wrong = f"constraint {wanted} is not the one that Evenkeel wrote"
    elif set(found) != {wanted}:
        names = ", ".join(sorted(found)) or "no constraint of Evenkeel's"
        wrong = f"has the constraint {names}; expected {wanted} alone"
    elif spec.fence == "slot":
        found_out = misplaced_rows(state.read_newest(spark, path)[0], function)
        wrong = f"has rows that are not where their key belongs ({found_out})" if found_out else ""
    else:
        wrong = ""
    return TableFault(name, frozenset(found), wrong) if wrong else None


def _unfinished(spark: SparkSession, table: Table, current: Epoch) -> list[Migration]:
    """List the migrations from the current epoch that have begun and not ended.

    A migration ends when its epoch is published, or when its rollback is done. Histories tell which
    moved rows last. A clone has none, and a log is cleaned: there the registry tells which began.
    """
    found: dict[str, Migration | None] = {}
    histories = (plans_since(spark, table, name, current) for name in table.spec.state)
    for run, digest in chain(*histories, moving_plans(table.registry)):
        if digest not in found:
            found[digest] = _migration(table, run, digest)
    return [m for m in found.values() if m and m.plan.parent_digest == current.function.digest]


def _migration(table: Table, run: str, digest: str) -> Migration | None:
    """Read the plan with that digest; None: its folder no longer has it, or it was rolled back."""
    try:
        if read_plan(table.registry.run(run)).digest != digest:
            return None
        migration = approved_migration(table, run, digest)
        return None if newest_attempt(migration.run, digest).over else migration
    except (DamagedError, FenceError, InputError) as error:
        say(f"run {run}: its files cannot be used, and it does not go forward: {error}")
        return None


def _verdict(migration: Migration) -> str | None:
    return newest_attempt(migration.run, migration.plan.digest).verdict


def _publish(spark: SparkSession, table: Table, migration: Migration) -> None:
    """Create the epoch that a run is decided to publish, if every table has only its constraint."""
    versions = {}
    for name, part in table.spec.state.items():
        version = state.table_version(spark, part.path)
        if (finding := _look(spark, table, name, migration.after)) is not None:
            raise FenceError(
                f"{finding.wrong}: somebody has changed it since it was repaired",
                f"{name} ({part.path})",
                repair_advice(table.spec.table),
            )
        versions[name] = TableVersion(part.path, version)
    epoch = table.registry.publish(migration.after, versions, migration.plan.digest)
    say(f"epoch {epoch.number} is published")
    check_still_admitted(spark, table, epoch)
