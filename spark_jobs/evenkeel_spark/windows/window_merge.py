"""The MERGE of a folded window into one state table, in which each event counts once."""

from __future__ import annotations

from functools import partial

import numpy as np
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.state_view import joined
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.aggregate import exact, merged_sql, of_table
from evenkeel_spark.events.reader import col
from evenkeel_spark.migration.row_moves import run_move
from evenkeel_spark.migration.split_state import MAX_LISTED_KEYS, PartialMerge, check_nothing_lost
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.column_inputs import check_unchanged_columns
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.rows.placement_sql import of_keys_sql
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from evenkeel_spark.windows.kept_types import as_stored
from partitioning.errors import FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.sql import hash_sql, quoted
from partitioning.moves.partial_rows import owners_sql

#: Columns of a folded row: whether its key is split, and the key's owners.
_SPLIT, _OWNERS = "_evenkeel_split", "_evenkeel_owners"
#: Column of a key: how many rows it has on one channel.
_KEY_ROWS = "_evenkeel_rows"
#: Error text of a MERGE that would add the window to each of several rows.
_SEVERAL = "evenkeel: a key has several rows on one channel"


class SeveralRowsError(FenceError):
    """A key of the window has several rows on one channel. Nothing was merged."""


def merge_window(
    spark: SparkSession,
    spec: TableSpec,
    name: str,
    window: DataFrame,
    function: PartitioningFunction,
) -> None:
    """MERGE a folded window into one state table.

    Rows meet by slot and key. Those of keys that the window's function splits meet by channel, too.
    A row keeps its channel. A new key, or a new owner's partial, starts at the channel that the
    function gave it. A copy goes to every owner.

    Raises
    ------
    SeveralRowsError : a key has several rows on one channel: the window would be added to each
    FenceError : the table admits another function by now, or a migration is under way; or it has
        lost a column
    """
    equal = "<=>" if spec.null_keys == "keep" else "="
    same = [f"s.{state.SLOT} = w.{state.SLOT}"]
    same += [f"s.{quoted(c)} {equal} w.{quoted(c)}" for c in spec.key]
    table = spec.state[name]
    # A merge goes by the window's types: by others than the table's, sums would lose digits.
    rows = as_stored(of_table(window, spec, name), state.schema(spark, table.path))
    several = _several(spark, spec, name, rows, " AND ".join(same))
    starts = {quoted(c): f"w.{quoted(c)}" for c in rows.columns}
    types = {c.name: c.dataType.simpleString() for c in rows.schema}
    here, new = f"s.{state.CHANNEL} = w.{state.CHANNEL}", "true"
    if len(function.split):
        split = F.expr(of_keys_sql(function, function.split.keys))
        if table.copied:
            every = joined(rows.where(split), table, spec.key)
            its = F.expr(owners_sql(function, state.SLOT))
            # One more row meets copies of channels that were no owners then, but are now.
            every = every.withColumn(_OWNERS, its).withColumn(
                state.CHANNEL, F.explode(F.concat(its, F.array(F.lit(constraints.NO_CHANNEL))))
            )
            rows = rows.where(~split).unionByName(every, allowMissingColumns=True)
            new = f"w.{state.CHANNEL} <> {constraints.NO_CHANNEL}"
            here = f"{here} OR NOT ({new} OR array_contains(w.{_OWNERS}, s.{state.CHANNEL}))"
        # Only split keys meet by channel: a whole key that has moved since would seem new.
        rows = rows.withColumn(_SPLIT, split)
        same.append(f"(NOT w.{_SPLIT} OR {here})")
    rows = rows.unionByName(several, allowMissingColumns=True)
    merge = (
        DeltaTable.forPath(spark, table.path)
        .alias("s")
        .merge(rows.alias("w"), " AND ".join(same))
        # The key has moved since, or has other owners. The constraint refuses the whole MERGE.
        # Otherwise a sum could be added to each partial row, or a copy could miss the events.
        .whenMatchedUpdate(
            f"s.{state.CHANNEL} <> w.{state.CHANNEL}", {state.CHANNEL: str(constraints.NO_CHANNEL)}
        )
        .whenMatchedUpdate(set={quoted(c): v for c, v in merged_sql(table, types).items()})
        .whenNotMatchedInsert(new, starts)
    )
    # A later change is a conflict, unless it comes before Delta reads the table.
    constraints.check_unchanged(spark, spec, table.path, function)
    where = f"{name} ({table.path})"
    check_unchanged_columns(spec, name, state.properties(spark, table.path))
    with exact(where), constraints.refusing(spec, table.path, function.epoch):
        try:
            merge.execute()
        except SPARK_ERRORS as error:
            _raise_known(spark, spec, name, error)
            raise


def _raise_known(spark: SparkSession, spec: TableSpec, name: str, error: Exception) -> None:
    """Raise what the failure of a MERGE means, in our words, if it is known."""
    table = spec.state[name]
    where = f"{name} ({table.path})"
    if _SEVERAL in str(error):
        raise SeveralRowsError(
            "a key of the window has several rows on one channel: the window would be added to "
            "each",
            where,
            "Run it again; or pause the writer that appends rows of keys that are there",
        ) from error
    there = state.schema(spark, table.path).fieldNames()
    if gone := [c for c in table.columns if c not in there]:
        raise FenceError(
            f"expected column {gone[0]!r}, found none: the table was changed",
            where,
            "Run it again by the spec of now: it counts nothing twice. If somebody renamed the "
            "column by hand: rename it back; or give its new name in the spec, and run `evenkeel "
            f"evolve {spec.table} --rename {name}.{gone[0]}=NEW`",
        ) from error


def gather(spark: SparkSession, spec: TableSpec, name: str, function: PartitioningFunction) -> None:
    """Merge several rows of a key on one channel, which appending writers leave.

    A window would be added to each of them. Delta skips the MERGE if a migration or a repair has
    moved rows since this looked: no constraint sees the copies that it would delete.

    Raises
    ------
    InputError : a column has no merge, so its values would be lost
    DamagedError : such a column has come since this looked
    FenceError : the table has another epoch's constraint by now, or a migration is under way
    """
    path = spec.state[name].path
    keys = _keys(spark, spec, name, function)
    if not len(keys):
        return
    shared = keys if len(keys) <= MAX_LISTED_KEYS else None
    version = state.table_version(spark, path)
    constraints.check_unchanged(spark, spec, path, function)
    with (
        constraints.refusing(spec, path, function.epoch),
        exact(f"{name} ({path})"),
        commits.our_commit(spark, commits.app_id(spec.table), version, {"step": "gather"}) as own,
    ):
        merge, where = PartialMerge(spec, name, function, shared).merge(), f"{name} ({path})"
        done = run_move(own, merge, path, where, partial(check_nothing_lost, spark, spec, name))
    if done is not None:
        say(f"{name}: several rows of a key became one, of {len(keys):,} keys or more")


def _several(
    spark: SparkSession, spec: TableSpec, name: str, window: DataFrame, same: str
) -> DataFrame:
    """Make a part of the MERGE's source that fails if a key has several rows on one channel.

    Otherwise the part has no rows. Delta reads it as of the MERGE's own transaction, so a row that
    is appended later is a conflict.
    """
    by = [state.SLOT, *spec.key, state.CHANNEL]
    there = spark.read.format("delta").load(spec.state[name].path).select(*(col(c) for c in by))
    met = there.alias("s").join(
        window.select(state.SLOT, *(col(c) for c in spec.key)).alias("w"),
        F.expr(same),
        "left_semi",
    )
    counted = met.groupBy(*(col(c) for c in by)).agg(F.count(F.lit(1)).alias(_KEY_ROWS))
    several = F.col(_KEY_ROWS) > 1
    # It depends on the count. Spark copies a constant slot into filters of the state table, as soon
    # as the window's own slots are constant, and it would fail there for nothing.
    fails = F.when(several, F.raise_error(F.lit(_SEVERAL))).cast("int").alias(state.SLOT)
    return counted.where(several).select(fails)


def _keys(
    spark: SparkSession, spec: TableSpec, name: str, function: PartitioningFunction
) -> Hashes:
    """List keys that have several rows on one channel, at most one more than MAX_LISTED_KEYS."""
    by = ", ".join([state.SLOT, *(quoted(c) for c in spec.key)])
    found = spark.sql(
        f"SELECT DISTINCT {hash_sql(function.key)} FROM {state.sql_name(spec.state[name].path)} "
        f"GROUP BY {by}, {state.CHANNEL} HAVING count(1) > 1 LIMIT {MAX_LISTED_KEYS + 1}"
    )
    return np.sort(np.array([row[0] for row in found.collect()], dtype=np.int64))
