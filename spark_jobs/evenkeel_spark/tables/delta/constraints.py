"""The table's own fence: the function as a CHECK constraint, which Delta holds every writer to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from delta.exceptions import MetadataChangedException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Registry
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.delta.commits import last_plan
from evenkeel_spark.tables.delta.state import CHANNEL, SLOT, properties, sql_name
from partitioning.errors import DamagedError, FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import OURS as OURS
from partitioning.function.sql import check_sql, slot_sql
from partitioning.function.sql import epoch_name as epoch_name

#: Delta's answer to a row that a constraint does not admit.
REFUSED = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
#: What to do where a table has gone over to another epoch.
AGAIN = "Run it again: it goes by the current epoch, and counts nothing twice"
#: A channel that no constraint admits. It is not -1, which those that Evenkeel wrote before it
#: answered NULL admit for a split key.
NOWHERE = -2
#: Digits of a plan's digest in the name of its moving constraint.
OWNER_DIGITS = 12
_CONSTRAINT = "delta.constraints."


def of(spark: SparkSession, path: str) -> dict[str, str]:
    """The table's CHECK constraints: name -> SQL."""
    return {
        name.removeprefix(_CONSTRAINT): sql
        for name, sql in properties(spark, path).items()
        if name.startswith(_CONSTRAINT)
    }


def mend(table: str) -> str:
    """What to do where a table's constraints are not what any job goes on from."""
    return (
        f"Run `evenkeel repair {table} --dry-run`, which says what is wrong, then without "
        f"--dry-run, or the DAG repair_{table}"
    )


def our_constraints(spark: SparkSession, path: str) -> set[str]:
    """Names of the constraints of ours that stand on a table."""
    return {name for name in of(spark, path) if name.startswith(OURS)}


def moving_name(epoch: int, plan: str = "") -> str:
    """Name of the constraint that admits this epoch's function and the one before it.

    The name is the lock on the table: Delta adds it in one commit, and it says whose it is.

    Parameters
    ----------
    plan : digest of the plan that moves rows; empty for plans of earlier versions of Evenkeel,
        which name no run and left the digest out
    """
    return f"{OURS}moving_{epoch}" + (f"_{plan[:OWNER_DIGITS]}" if plan else "")


def rule(*functions: PartitioningFunction) -> str:
    """CHECK expression: the row's channel is what one of the functions says, its slot is right."""
    owners = ", ".join(check_sql(f, SLOT) for f in functions)
    slot = slot_sql(functions[0].key, len(functions[0].slots))
    one = f"{CHANNEL} = {owners}" if len(functions) == 1 else f"{CHANNEL} IN ({owners})"
    return f"{one} AND {SLOT} = {slot}"


def add(spark: SparkSession, path: str, name: str, sql: str) -> bool:
    """Add a CHECK constraint; Delta scans the table first. False where it already stands.

    Raises
    ------
    DamagedError : one of this name stands and says something else
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
    """Whether two constraints are one: Delta stores the text with spaces of its own, and an older
    one may say -1 for NULL."""
    older, now = f"`{CHANNEL}`,-1)", f"`{CHANNEL}`,NULL)"
    return "".join(one.split()).replace(older, now) == "".join(other.split()).replace(older, now)


def drop(spark: SparkSession, path: str, name: str) -> bool:
    """Drop a CHECK constraint; False where there is none."""
    if name not in of(spark, path):
        return False
    spark.sql(f"ALTER TABLE {sql_name(path)} DROP CONSTRAINT {name}")
    return True


def drop_beside(spark: SparkSession, path: str, name: str, kept: str) -> bool:
    """Drop a CHECK constraint only if another one stands, both seen and done by one commit: a table
    is never left without. False where either is not there.

    Spark SQL's DROP CONSTRAINT looks at a snapshot of its own, which may be newer than the one that
    was looked at. Delta's transaction fails if the table's metadata changes after its snapshot.

    Raises
    ------
    MetadataChangedException : another writer changed the table's metadata meanwhile
    """
    jvm: Any = spark._jvm
    gone, needed = f"{_CONSTRAINT}{name.lower()}", f"{_CONSTRAINT}{kept.lower()}"
    sessions = jvm.org.apache.spark.sql.SparkSession
    active = sessions.getActiveSession()
    # Delta takes the commit's userMetadata from the thread's session.
    sessions.setActiveSession(spark._jsparkSession)
    try:
        return _drop_beside(spark, path, gone, needed)
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()


def _drop_beside(spark: SparkSession, path: str, gone: str, needed: str) -> bool:
    """`drop_beside` of two properties of the table, in a thread whose session is `spark`."""
    jvm: Any = spark._jvm
    none = jvm.scala.Option.empty
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    transaction = log.startTransaction(none(), none())
    table = transaction.metadata()
    found = table.configuration()
    if not found.contains(gone) or not found.contains(needed):
        return False
    changed = table.copy(
        table.id(),
        table.name(),
        table.description(),
        table.format(),
        table.schemaString(),
        table.partitionColumns(),
        found.removed(gone),
        table.createdTime(),
    )
    transaction.updateMetadata(changed, False)
    operation = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$DropConstraint")
    actions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toSeq()
    try:
        sql = jvm.scala.Option.apply(found.apply(gone))
        transaction.commit(actions, operation(gone.removeprefix(_CONSTRAINT), sql))
    except Py4JJavaError as error:
        if "DELTA_METADATA_CHANGED" in str(error):
            raise MetadataChangedException(str(error)) from error
        raise
    return True


def check_admits(spark: SparkSession, spec: TableSpec, function: PartitioningFunction) -> None:
    """Refuse to write by `function` unless every table admits it and nothing else.

    Raises
    ------
    FenceError : a migration is under way, or the tables are of another epoch
    """
    for state in spec.state.values():
        stands = _other(spark, state.path, function)
        if stands is not None:
            raise FenceError(
                f"stands under {stands}, not under epoch {function.epoch} alone",
                state.path,
                under_way(spark, spec, state.path),
            )


def under_way(spark: SparkSession, spec: TableSpec, path: str) -> str:
    """What to do about a state table that stands under another epoch than the registry's: which
    migration is under way, or that the registry has not heard of it."""
    plan = last_plan(spark, path)
    if plan is None:
        return (
            "A migration is under way or was broken off: let its DAG finish, or run the job "
            f"roll_back for it. If none runs: {mend(spec.table)}"
        )
    run, digest = plan
    if Registry(spec.registry).run(run).exists("plan.json"):
        return (
            f"A migration (--run {run} --digest {digest}) is under way or was broken off: let its "
            f"DAG finish, or run the job roll_back for it. If none runs: {mend(spec.table)}"
        )
    return (
        f"Run {run} last moved its rows, and the registry {spec.registry} has no such run: the "
        "registry is older than the table. Bring back a registry from after that run, or state "
        "tables and registry as they were at one time. To go on from the registry as it is: "
        f"{mend(spec.table)}"
    )


def check_unchanged(spark: SparkSession, path: str, function: PartitioningFunction) -> None:
    """Refuse to write what was routed by `function` to a table that no longer admits it alone.

    The constraint itself does not always: it sees one row at a time, and of a key that is split by
    now it lets pass what comes to any owner.

    Raises
    ------
    FenceError : a migration has begun, or has ended, since `check_admits`
    """
    stands = _other(spark, path, function)
    if stands is not None:
        raise FenceError(
            f"stands under {stands} by now, no longer under epoch {function.epoch} alone",
            path,
            AGAIN,
        )


def _other(spark: SparkSession, path: str, function: PartitioningFunction) -> str | None:
    """What a table stands under, by name; None: `function` and nothing else."""
    sql, name = rule(function), epoch_name(function.epoch)
    found = {n: s for n, s in of(spark, path).items() if n.startswith(OURS)}
    if set(found) == {name} and same_sql(found[name], sql):
        return None
    return ", ".join(sorted(found)) or "no constraint"


@contextmanager
def refusing(path: str, epoch: int) -> Iterator[None]:
    """Turns Delta's refusal of rows that were routed by an epoch that is no longer into one line.

    Raises
    ------
    FenceError : another epoch's constraint refused the write; nothing of it was committed
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        by = re.search(rf"constraint ({OURS}\w+)", str(error))
        if REFUSED not in str(error) or by is None or by[1] == epoch_name(epoch):
            raise
        raise FenceError(
            f"epoch {epoch} was replaced meanwhile: {by[1]} refuses what it routed",
            path,
            AGAIN,
        ) from error
