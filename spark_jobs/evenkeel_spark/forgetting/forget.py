"""Forget keys: delete their rows from every state table, and their names from the registry.

No statement has a key in its text, because Delta's history keeps the text. Files with deletion
vectors are rewritten, because such files still hold the deleted rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.forgetting import check_at_rest, forget_names, texts_of
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.forgetting.meanwhile import STEP
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.delta.vacuum import days_kept
from evenkeel_spark.tables.spark_errors import REFUSED, SPARK_ERRORS
from partitioning.errors import FenceError
from partitioning.function.function import KeyColumn
from partitioning.function.hashing import key_hash, slot_of
from partitioning.function.key_text import key_columns
from partitioning.function.sql import quoted

#: Setting with which a MERGE rewrites files in place of hiding their rows.
_REWRITE = {
    "spark.databricks.delta.merge.deletionVectors.persistent": "false",
    # Jobs that have read the key's events look for this commit: see `meanwhile`.
    "spark.databricks.delta.skipRecordingEmptyCommits": "false",
}
_META = {"step": STEP}
_NO_KEY = (
    "there was nothing of these keys. If none of them was forgotten before, they are not written "
    "as the table has them"
)


def forget(
    spark: SparkSession, table: Table, keys: Sequence[str], dry_run: bool = False
) -> dict[str, int]:
    """Delete the rows and the names of keys. A second call finds nothing left.

    Windows and learns that have read events before are refused: see `meanwhile`.

    Older versions of the tables hold the rows until maintain removes them. The input is not
    touched: events of the keys that stay there bring them back.

    Parameters
    ----------
    keys : as a person writes them, see `key_columns`
    dry_run : count the rows, and change nothing

    Returns
    -------
    Rows deleted, or that would be, by state table.

    Raises
    ------
    InputError : a text is no key of the table, or a state table is not ours
    FenceError : a run is moving state of one of the keys, or writers never let us commit
    """
    spec, registry = table.spec, table.registry
    function = table.epoch().function
    types = [column.type for column in function.key]
    typed = key_columns(keys, types, sure=True)
    hashes = key_hash(typed, types)
    check_tables(spark, spec)
    check_at_rest(registry, hashes)
    ddl = ", ".join(f"{quoted(c.name)} {c.type}" for c in function.key)
    values = zip(*(column.to_pylist() for column in typed), strict=True)
    wanted = spark.createDataFrame(list(values), ddl).distinct()
    slots = sorted(set(slot_of(hashes, len(function.slots)).tolist()))
    deleted = {}
    for name, part in spec.state.items():
        sure = spec.fence == "key" and constraints.is_sealed(spark, spec, part.path, function)
        same = _same_key(function.key, slots if sure else None)
        if dry_run:
            deleted[name] = _count(spark, part.path, wanted, same)
            say(f"{name}: {deleted[name]:,} rows would be deleted")
            continue
        step = partial(_delete, spark, spec, part.path, wanted, same)
        with _neighbours_at_rest(f"{name} ({part.path})"):
            deleted[name] = retry_on_conflict(spark, step, name)
            retry_on_conflict(spark, partial(_purge, spark, part.path), name)
        say(f"{name}: {deleted[name]:,} rows deleted")
    if not dry_run:
        texts = set(keys).union(*(texts_of(column.to_pylist()) for column in typed))
        gone = forget_names(registry, hashes, texts)
        say(f"registry: {', '.join(f'{n:,} {kind}' for kind, n in gone.items()) or 'no names'}")
        if not gone and not any(deleted.values()):
            say(_NO_KEY)
        # A team's own table may keep its versions for longer.
        own = [days_kept(spark, part.path)[1] for part in spec.state.values() if part.plain]
        kept = max([spec.keep, *own])
        until = (datetime.now(UTC) + timedelta(days=kept)).date()
        say(f"older versions hold the rows until maintain runs after {until}")
    return deleted


@contextmanager
def _neighbours_at_rest(where: str) -> Iterator[None]:
    """Say in our words that a table refuses to rewrite rows beside the key, because these move.

    Raises
    ------
    FenceError : it does
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if REFUSED not in str(error):
            raise
        raise FenceError(
            "rows move just now", where, "Let the run end, then forget again"
        ) from error


def _same_key(key: Sequence[KeyColumn], slots: Sequence[int] | None) -> str:
    """Write the condition that a row `t` has a wanted key `s`.

    The slots let files be skipped. None: a row may have a wrong slot.
    """
    columns = [quoted(column.name) for column in key]
    equal = " AND ".join(f"t.{c} <=> s.{c}" for c in columns)
    if slots is None:
        return equal
    return f"t.{state.SLOT} IN ({', '.join(map(str, slots))}) AND {equal}"


def _count(spark: SparkSession, path: str, wanted: DataFrame, same: str) -> int:
    rows = DeltaTable.forPath(spark, path).toDF().alias("t")
    return rows.join(wanted.alias("s"), on=F.expr(same), how="left_semi").count()


def _delete(spark: SparkSession, table: TableSpec, path: str, wanted: DataFrame, same: str) -> int:
    """Delete the rows of the wanted keys in one commit; return how many.

    It commits without rows, too. So windows that have read the events before are not added, and
    look again: the commit spends the number that they would have.
    """
    while True:
        app = None if table.plain else commits.windows_app(table.table)
        number = commits.windows_count(spark, path, table.table) + 1 if app else None
        with commits.our_commit(spark, app, number, _META, _REWRITE) as own:
            target = DeltaTable.forPath(own, path).alias("t")
            done = target.merge(wanted.alias("s"), same).whenMatchedDelete().execute().first()
        # None: Delta has skipped it, because a window has come first.
        if done is not None:
            return int(done["num_deleted_rows"])


def _purge(spark: SparkSession, path: str) -> None:
    """Rewrite the channels with files that still hold rows which a deletion vector hides.

    REORG TABLE ... APPLY (PURGE) would rewrite these files alone. But where executors are processes
    of their own it fails, because it looks there for a session.
    """
    hidden = state.files(spark, path).where("deleted > 0").select(state.CHANNEL).distinct()
    channels = sorted(row[0] for row in hidden.collect())
    if not channels:
        return
    with commits.our_commit(spark, None, None, _META) as own:
        own.sql(
            f"OPTIMIZE {state.sql_name(path)} WHERE {state.CHANNEL} IN "
            f"({', '.join(map(str, channels))}) ZORDER BY ({state.SLOT})"
        )
