"""Add a folded window to an Iceberg table: write on a branch, audit, and let main follow.

One of all windows that have seen one snapshot is added, and the others look again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenkeel.registry.state_view import slot_column
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.events.aggregate import exact, merged_sql, of_table
from evenkeel_spark.forgetting.meanwhile import check_none_forgotten_at
from evenkeel_spark.iceberg.placing import place
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.column_inputs import check_unchanged_columns
from evenkeel_spark.tables.iceberg.checks import check_adopted, check_properties, check_slot_column
from evenkeel_spark.tables.iceberg.commits import PLACED, IcebergCommit
from evenkeel_spark.tables.iceberg.table import BRANCHES, IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.rows.placement_sql import misplaced_sql
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from evenkeel_spark.tables.write_session import in_session
from evenkeel_spark.windows.applied_windows import Applied
from evenkeel_spark.windows.iceberg.branches import write_by_branch
from evenkeel_spark.windows.iceberg.snapshots import (
    IcebergWindows,
    known_placed,
    windows_at,
)
from evenkeel_spark.windows.kept_types import as_stored
from evenkeel_spark.windows.window_commits import added
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import quoted

#: Names of its branches begin so.
WINDOW_BRANCHES = f"{BRANCHES}window_"
#: Times that a window is merged again because others wrote meanwhile.
MERGE_TRIES = 10
_VIEW = "evenkeel_window"
#: Spark then joins the window to each channel's files where these are read. Only the window's rows
#: are sent.
JOIN_BY_CHANNEL = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.shuffle.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
}
#: A task then finds the window's rows of its channel by hash, and sorts no row of the state. Bytes
#: of these rows in a shuffle, where they are compressed. With more it sorts both, because a table
#: by hash must fit in memory. Spark takes no limit below the size that it advises for partitions.
JOIN_BY_HASH = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "4m",
}
#: Properties of a table that windows are merged into: a MERGE writes the rows that it changes and
#: deletion vectors, each in the task that has read the channel.
MERGES_WELL = {"write.merge.mode": "merge-on-read", "write.merge.distribution-mode": "none"}


def add_window(
    spark: SparkSession,
    table: Table,
    name: str,
    window: DataFrame,
    function: PartitioningFunction,
    days: tuple[date, date],
    seen: Applied,
) -> None:
    """Add a window to a state table, exactly once.

    Parameters
    ----------
    window : as `fold` makes it, with the channel
    days : first day, and the day after the last
    seen : the windows that the table had

    Raises
    ------
    InputError : a key has several rows; or another window is in by now, or rows were brought back
    FenceError : a key was forgotten meanwhile; the table is under another epoch by now; or others
        were first each time
    """
    spec, where = table.spec, table_in_errors(table.spec, name)
    # Not `epoch`: that is said by commits which lead to one.
    said = {"step": "apply_window", "start": days[0], "end": days[1], "under": function.epoch}
    # Rows of the snapshot before are placed by then.
    said[PLACED] = function.digest
    for _ in range(MERGE_TRIES):
        head = _under(spark, spec, name, function).head()
        # Rows are moved only after the column has got its new name: so the rows of this snapshot
        # are placed by this epoch. Columns change in one commit with main: so those that are seen
        # now are those of this snapshot, or main will not follow.
        one = _under(spark, spec, name, function)
        check_none_forgotten_at(one, where, seen.version, head)
        there = IcebergWindows(spark, table).applied_at(name, one, head)
        if there.until == days[1] and next(added(windows_at(one, head)), None) == days:
            say(f"{name}: another run has applied this window")
            return
        if there.until != seen.until:
            raise FenceError(
                f"expected windows up to {seen.until}, as this run had found, found them up to "
                f"{there.until}: another run was faster, or the table was rolled back",
                where,
                f"Go on with --start {there.until}",
            )
        if _misplaced(one, head, function):
            # The window would add a second row of their keys.
            place(one, where, function, {"step": "place", "epoch": function.epoch})
        elif _merge(one, head, spec, name, window, function, said):
            return
        say(f"{name}: somebody wrote meanwhile")
    raise FenceError(
        f"others wrote during each of {MERGE_TRIES} merges",
        where,
        "Run it again when they are quieter: it counts nothing twice",
    )


def _misplaced(one: IcebergTable, head: int, function: PartitioningFunction) -> bool:
    """Return whether a snapshot has rows elsewhere. They are read, unless it tells of itself."""
    if known_placed(one, head, function):
        return False
    return bool(one.rows(head).where(misplaced_sql(function)).limit(1).count())


def _merge(
    one: IcebergTable,
    head: int,
    spec: TableSpec,
    name: str,
    window: DataFrame,
    function: PartitioningFunction,
    said: Mapping[str, object],
) -> bool:
    """Merge a window into a snapshot of main; False: main has moved since."""
    where = table_in_errors(spec, name)
    part = of_table(window, spec, name).withColumnRenamed(SLOT, slot_column(function.epoch))
    # Once: its columns may have other names when the MERGE begins, which Spark then refuses.
    stored = one.schema()
    rows = as_stored(part, stored)
    count = rows.count()

    def write(own: SparkSession, target: str) -> None:
        in_session(own, rows).createOrReplaceTempView(_VIEW)
        with exact(where):
            own.sql(merge_sql(spec, name, stored, target, function))

    def audit(made: IcebergCommit) -> None:
        # Somebody may have brought main back to this snapshot, which brings no columns back.
        check_unchanged_columns(spec, name, one.properties())
        if (found := made.count("added-records")) != count:
            raise InputError(
                f"expected one row a key, found several of {found - count:,} keys: the window "
                "would be added to each; nothing was merged",
                where,
                "Find out who writes to the table, and remove what is too many",
            )

    try:
        conf = {**JOIN_BY_CHANNEL, **JOIN_BY_HASH}
        return write_by_branch(one, head, WINDOW_BRANCHES, said, write, audit, conf)
    except SPARK_ERRORS:
        # If the column has another name by now, say that, and not that it is missing.
        _under(one.spark, spec, name, function)
        raise


def merge_sql(
    spec: TableSpec, name: str, stored: StructType, target: str, function: PartitioningFunction
) -> str:
    """Write the MERGE of the window's rows into a branch of a table with these columns."""
    slot, equal = slot_column(function.epoch), "<=>" if spec.null_keys == "keep" else "="
    same = [f"s.{CHANNEL} = w.{CHANNEL}", f"s.{quoted(slot)} = w.{quoted(slot)}"]
    same += [f"s.{quoted(c)} {equal} w.{quoted(c)}" for c in spec.key]
    part = spec.state[name]
    types = {c.name: c.dataType.simpleString() for c in stored}
    sets = [f"s.{quoted(c)} = {sql}" for c, sql in merged_sql(part, types).items()]
    columns = [quoted(c) for c in (CHANNEL, slot, *spec.key, *part.columns)]
    return (
        f"MERGE INTO {target} s USING {_VIEW} w ON {' AND '.join(same)} "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) "
        f"VALUES ({', '.join(f'w.{c}' for c in columns)})"
    )


def _under(
    spark: SparkSession, spec: TableSpec, name: str, function: PartitioningFunction
) -> IcebergTable:
    """Return a table as it is now: still the spec's, under the function's epoch, by its columns."""
    one = IcebergTable(spark, spec.state[name].path)
    one.refresh()
    check_slot_column(spec, {name: one}, function)
    # One that has left since keeps its slot's column.
    properties = check_adopted(spec, name, one)
    check_unchanged_columns(spec, name, properties)
    check_properties(spec, name, one, MERGES_WELL)
    return one
