"""The table's constraint: the function as a CHECK, enforced by Delta on every writer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Registry
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.delta.commits import last_plan
from evenkeel_spark.tables.delta.constraint_commit import CONSTRAINT_PREFIX, commit_constraints
from evenkeel_spark.tables.delta.state import CHANNEL, properties, sql_name
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.rows.placement_sql import fence_rule as fence_rule
from evenkeel_spark.tables.rows.placement_sql import rule as rule
from evenkeel_spark.tables.spark_errors import REFUSED, SPARK_ERRORS
from evenkeel_spark.tables.table_properties import TABLE_PROPERTY
from partitioning.errors import DamagedError, FenceError, UnderWayError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import OURS as OURS
from partitioning.function.sql import epoch_name as epoch_name

#: Advice if a table has changed to another epoch.
AGAIN = "Run it again: it goes by the current epoch, and counts nothing twice"
#: A channel that no constraint admits. Not -1: constraints of early versions of Evenkeel admit -1
#: for a split key.
NO_CHANNEL = -2
#: Hex digits of a plan's digest in the name of its moving constraint. Fewer: two plans may collide.
OWNER_DIGITS = 12
#: Operations of commits that leave the constraints as they are.
ROW_OPERATIONS = {
    *("WRITE", "STREAMING UPDATE", "UPDATE", "MERGE", "DELETE"),
    *("OPTIMIZE", "REORG", "VACUUM START", "VACUUM END"),
}


def of(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the table's CHECK constraints: SQL by name."""
    return {
        name.removeprefix(CONSTRAINT_PREFIX): sql
        for name, sql in properties(spark, path).items()
        if name.startswith(CONSTRAINT_PREFIX)
    }


def property_name(constraint: str) -> str:
    """Return the table property that holds a CHECK constraint."""
    return CONSTRAINT_PREFIX + constraint


def ours(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the table's constraints that Evenkeel has made: SQL by name."""
    return {name: sql for name, sql in of(spark, path).items() if name.startswith(OURS)}


def our_constraints(spark: SparkSession, path: str) -> set[str]:
    """Return the names of a table's constraints that Evenkeel has made."""
    return set(ours(spark, path))


def moving_name(epoch: int, plan: str = "") -> str:
    """Return the name of the constraint that admits this epoch's function and the one before it.

    The name is the lock on the table: Delta adds it in one commit, and it names the plan.

    Parameters
    ----------
    epoch : number of the epoch that is moved to
    plan : digest of the plan that moves rows; empty for plans of earlier versions of Evenkeel,
        which have no run and left the digest out
    """
    return f"{OURS}moving_{epoch}" + (f"_{plan[:OWNER_DIGITS]}" if plan else "")


def add(spark: SparkSession, path: str, name: str, sql: str) -> bool:
    """Add a CHECK constraint, for which Delta scans the table. Return False if it is there already.

    Raises
    ------
    DamagedError : there is one of this name with another expression
    """
    there = of(spark, path).get(name)
    if there is not None:
        if not same_sql(there, sql):
            raise DamagedError(
                f"constraint {name} is not the one that Evenkeel wrote",
                path,
                "Find in DESCRIBE HISTORY who wrote it, drop it, and run this again",
            )
        return False
    spark.sql(f"ALTER TABLE {sql_name(path)} ADD CONSTRAINT {name} CHECK ({sql})")
    return True


def same_sql(one: str, other: str) -> bool:
    """Return whether two constraints are the same.

    Delta changes the spaces of the text, and an older constraint may say -1 for NULL.
    """
    older, now = f"`{CHANNEL}`,-1)", f"`{CHANNEL}`,NULL)"
    return "".join(one.split()).replace(older, now) == "".join(other.split()).replace(older, now)


def drop_beside(
    spark: SparkSession, path: str, name: str, kept: str, seen: Collection[str]
) -> bool:
    """Drop a CHECK constraint only if another one is there, in one commit.

    So a table is never without a constraint. Spark SQL's DROP CONSTRAINT reads a snapshot of its
    own, which may be newer than the one that was checked. Delta's transaction fails if the
    table's metadata changes after its snapshot.

    Returns
    -------
    False if either constraint is missing.

    Parameters
    ----------
    seen : names of all constraints of ours, as they were when this was decided

    Raises
    ------
    MetadataChangedException : another writer has changed the table's metadata meanwhile, or other
        constraints of ours are there than those that were seen
    """
    name, kept = name.lower(), kept.lower()

    def dropped(existing: dict[str, str]) -> dict[str, str] | None:
        if name not in existing or kept not in existing:
            return None
        return {n: sql for n, sql in existing.items() if n != name}

    return commit_constraints(spark, path, seen, dropped)


def take_back(
    commit: Callable[[], AbstractContextManager[SparkSession]], path: str, name: str
) -> None:
    """Drop a constraint that came too late, beside another one or from a released table."""
    with commit() as own:
        existing = our_constraints(own, path)
        if beside := sorted(existing - {name}):
            drop_beside(own, path, name, beside[0], existing)
        elif TABLE_PROPERTY not in properties(own, path):
            own.sql(f"ALTER TABLE {sql_name(path)} DROP CONSTRAINT IF EXISTS {name}")


def put(
    spark: SparkSession,
    path: str,
    name: str,
    sql: str,
    seen: Collection[str],
    unchanged: Callable[[], None] = lambda: None,
) -> bool:
    """Add a CHECK constraint or replace its expression, in one commit and without a scan.

    From this commit on no writer can add a row that it does not admit. Rows that are there are not
    checked, so the caller must know that they fit, or go on to bring them there.

    Parameters
    ----------
    seen : names of all constraints of ours, as they were when this was decided
    unchanged : called once the transaction has begun; it may raise

    Returns
    -------
    False if the constraint is there already.

    Raises
    ------
    MetadataChangedException : as `drop_beside`
    """

    def added(existing: dict[str, str]) -> dict[str, str] | None:
        unchanged()
        there = existing.get(name.lower())
        if there is not None and same_sql(there, sql):
            return None
        return {**existing, name.lower(): sql}

    return commit_constraints(spark, path, seen, added)


def is_sealed(
    spark: SparkSession, spec: TableSpec, path: str, function: PartitioningFunction
) -> bool:
    """Return whether a table admits this function alone."""
    return _other(spark, spec, path, function) is None


def check_admits(spark: SparkSession, spec: TableSpec, function: PartitioningFunction) -> None:
    """Refuse to write by `function` unless it is the only one that every table admits.

    Raises
    ------
    UnderWayError : a migration is under way
    FenceError : the tables are of another epoch, or have none of our constraints
    """
    own = epoch_name(function.epoch)
    for state in spec.state.values():
        if (existing := _other(spark, spec, state.path, function)) is not None:
            # The next epoch's is alone on a table until that epoch is published.
            moves = f"{OURS}moving_" in existing or existing == epoch_name(function.epoch + 1)
            raise (UnderWayError if moves else FenceError)(
                f"has the constraint {existing}, expected that of epoch {function.epoch} alone, "
                f"with a fence by {spec.fence}",
                state.path,
                repair_advice(spec.table)
                if existing == own
                else move_advice(spark, spec, state.path),
            )


def move_advice(spark: SparkSession, spec: TableSpec, path: str) -> str:
    """Return the advice for a state table whose constraint is not that of the registry's epoch.

    It names the migration that is under way, or says that the registry is older than the table.
    """
    plan, registry = last_plan(spark, path), Registry(spec.registry)
    run, digest = plan or (None, None)
    otherwise = repair_advice(spec.table)
    if run is not None and registry.run(run).plan.exists():
        return (
            f"A migration (--run {run} --digest {digest}) is under way or was broken off: let its "
            f"DAG finish, or run the job roll_back for it. If none runs: {otherwise}"
        )
    if run is None or run in registry.files.moving_runs():  # Its folder is gone.
        return (
            "A migration is under way or was broken off: let its DAG finish, or run the job "
            f"roll_back for it. If none runs: {otherwise}"
        )
    return (
        f"Run {run} last moved its rows, and the registry {spec.registry} has no such run: the "
        "registry is older than the table. Bring back a registry from after that run, or state "
        "tables and registry as they were at one time. To go on from the registry as it is: "
        f"Run `evenkeel repair {spec.table} --registry-older --dry-run`, then without --dry-run, "
        f"or the DAG repair_{spec.table} with registry_older"
    )


def check_unchanged(
    spark: SparkSession, spec: TableSpec, path: str, function: PartitioningFunction
) -> None:
    """Refuse to write rows that `function` has routed if the table now admits another one.

    The constraint does not always refuse them: it sees one row at a time. For a key that is split
    by now, it admits a row at any owner.

    Raises
    ------
    UnderWayError : a migration has begun, or has ended, since `check_admits`
    """
    if (existing := _other(spark, spec, path, function)) is not None:
        raise UnderWayError(
            f"has the constraint {existing} by now, expected that of epoch {function.epoch} alone",
            path,
            AGAIN,
        )


def _other(
    spark: SparkSession, spec: TableSpec, path: str, function: PartitioningFunction
) -> str | None:
    """Return the names of a table's constraints; None: `function` is the only one it admits."""
    sql, name = fence_rule(spec, function), epoch_name(function.epoch)
    found = ours(spark, path)
    if set(found) == {name} and same_sql(found[name], sql):
        return None
    return ", ".join(sorted(found)) or "no constraint"


@contextmanager
def refusing(spec: TableSpec, path: str, epoch: int) -> Iterator[None]:
    """Turn Delta's refusal of rows that an earlier epoch has routed into an error of ours.

    Raises
    ------
    UnderWayError : another epoch's constraint refused the write; nothing of it was committed
    FenceError : this one's did, because rows that it meets are out of place (`fence: slot`)
    """
    try:
        yield
    except SPARK_ERRORS as error:
        by = re.search(rf"constraint ({OURS}\w+)", str(error))
        own = by is not None and by[1] == epoch_name(epoch)
        if REFUSED not in str(error) or by is None or (own and spec.fence == "key"):
            raise
        if own:
            raise FenceError(
                "has rows that are out of place", path, repair_advice(spec.table)
            ) from error
        what = f"epoch {epoch} was replaced meanwhile: {by[1]} refuses what it routed"
        raise UnderWayError(what, path, AGAIN) from error
