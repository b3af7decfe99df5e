"""Commits of Delta's constraints alone.

Such a commit scans no row and takes milliseconds, so busy writers cannot keep it from being made.
It is Delta's transaction: it fails if the table's metadata changes meanwhile, and a writer that
began before it fails in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from delta.exceptions import MetadataChangedException
from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta.state import delta_log, python_dict
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS
from evenkeel_spark.tables.write_session import APP_ID, APP_VERSION, active_session
from partitioning.function.sql import OURS

CONSTRAINT_PREFIX = "delta.constraints."
#: New constraints of ours, SQL by name, from those that stand; None: leave the table as it is.
Change = Callable[[dict[str, str]], dict[str, str] | None]


def commit_constraints(
    spark: SparkSession, path: str, seen: Collection[str], change: Change
) -> bool:
    """Replace a table's constraints of ours in one commit, and scan no row.

    Parameters
    ----------
    seen : names of all constraints of ours, as they were when this was decided
    change : called with those that stand at the transaction's start; it may raise

    Returns
    -------
    False if `change` left the table as it is.

    Raises
    ------
    MetadataChangedException : another writer has changed the table's metadata meanwhile, or its
        constraints of ours are not those that were seen
    """
    # Delta takes the commit's userMetadata from the thread's active session.
    with active_session(spark):
        return _commit(spark, path, {n.lower() for n in seen}, change)


def _commit(spark: SparkSession, path: str, seen: set[str], change: Change) -> bool:
    jvm: Any = spark._jvm
    none = jvm.scala.Option.empty
    transaction = delta_log(spark, path).startTransaction(none(), none())
    table = transaction.metadata()
    found = table.configuration()
    existing = {
        n.removeprefix(CONSTRAINT_PREFIX): sql
        for n, sql in python_dict(spark, found).items()
        if n.startswith(CONSTRAINT_PREFIX + OURS)
    }
    wanted = change(dict(existing))
    if wanted is None or wanted == existing:
        return False
    if set(existing) != seen:
        raise MetadataChangedException(
            f"{path} has the constraint {', '.join(sorted(existing))}, and had "
            f"{', '.join(sorted(seen))} when it was looked at"
        )
    operation = _operation(jvm, existing, wanted)
    for name in existing.keys() - wanted.keys():
        found = found.removed(CONSTRAINT_PREFIX + name)
    for name, sql in wanted.items():
        found = found.updated(CONSTRAINT_PREFIX + name, sql)
    changed = table.copy(
        table.id(),
        table.name(),
        table.description(),
        table.format(),
        table.schemaString(),
        table.partitionColumns(),
        found,
        table.createdTime(),
    )
    transaction.updateMetadata(changed, False)
    spent = jvm.java.util.ArrayList()
    if (app := spark.conf.get(APP_ID, None)) is not None:
        # A statement of before, which has the same id or a lower one, is skipped from now on. An id
        # that was spent since this was decided stays spent.
        number = max(int(str(spark.conf.get(APP_VERSION))), transaction.readVersion())
        action = jvm.org.apache.spark.sql.delta.actions.SetTransaction
        # A table may forget ids after a time. Delta then forgets those without a time at once.
        now = jvm.scala.Option.apply(jvm.java.lang.System.currentTimeMillis())
        spent.add(action(app, number, now))
    actions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(spent).toSeq()
    try:
        transaction.commit(actions, operation)
    except JAVA_ERRORS as error:
        if "DELTA_METADATA_CHANGED" in str(error):
            raise MetadataChangedException(str(error)) from error
        raise
    return True


def _operation(jvm: Any, existing: dict[str, str], wanted: dict[str, str]) -> Any:
    """Return what the table's history calls the change, as Delta's own statements do."""
    operations = jvm.org.apache.spark.sql.delta
    for name in wanted.keys() - existing.keys():
        return getattr(operations, "DeltaOperations$AddConstraint")(name, wanted[name])
    for name in existing.keys() - wanted.keys():
        sql = jvm.scala.Option.apply(existing[name])
        return getattr(operations, "DeltaOperations$DropConstraint")(name, sql)
    properties = jvm.java.util.HashMap()
    for name, sql in wanted.items():
        if existing[name] != sql:
            properties.put(CONSTRAINT_PREFIX + name, sql)
    scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala(properties)
    maps = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$")
    return getattr(operations, "DeltaOperations$SetTableProperties")(getattr(maps, "from")(scala))
