"""How events become state: one aggregate per key for all state tables, and how two are merged."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.own_merges import merges
from evenkeel.spec import TableSpec
from evenkeel.spec_parts import StateColumn, StateTable
from partitioning.function import PartitioningFunction
from partitioning.sql import channel_sql, quoted, slot_sql
from spark_jobs.events import col
from spark_jobs.state import CHANNEL, SLOT

#: Number of events behind a folded row.
EVENTS = "_events"


def route(events: DataFrame, function: PartitioningFunction) -> DataFrame:
    """Every event in the task of its key's channel: task i holds channel i alone."""
    routed = events.withColumn(CHANNEL, F.expr(channel_sql(function)))
    return routed.repartitionById(len(function.channels), CHANNEL)


def fold(
    events: DataFrame, spec: TableSpec, function: PartitioningFunction, by: Sequence[str] = ()
) -> DataFrame:
    """One row a key: slot, key, EVENTS, and the columns of every state table (see `alias`).

    Parameters
    ----------
    by : columns to keep in front, e.g. the channel of routed events: Spark then needs no second
        shuffle, since each channel's rows already share a task
    """
    columns = [
        _aggregate(c, spec).alias(alias(name, column))
        for name, table in spec.state.items()
        for column, c in table.columns.items()
    ]
    keys = (col(c) for c in spec.key)
    folded = events.groupBy(*by, *keys).agg(F.count(F.lit(1)).alias(EVENTS), *columns)
    slot = F.expr(slot_sql(function.key, len(function.slots))).alias(SLOT)
    return folded.select(*by, slot, *(col(c) for c in folded.columns if c not in by))


def of_table(folded: DataFrame, spec: TableSpec, name: str) -> DataFrame:
    """One state table's part of `fold`'s result, under the table's own column names."""
    return folded.select(
        CHANNEL,
        SLOT,
        *(col(c) for c in spec.key),
        *(col(alias(name, c)).alias(c) for c in spec.state[name].columns),
    )


def alias(table: str, column: str) -> str:
    """Name of a state column among those of all state tables."""
    return f"{table}.{column}"


def merged_sql(table: StateTable, old: str, new: str) -> dict[str, str]:
    """SQL by state column for the value that two partial ones become; a null is no value.

    Parameters
    ----------
    old, new : SQL aliases of the state row and of the window's
    """
    return {
        name: merges()[column.merge].pair(f"{old}.{quoted(name)}", f"{new}.{quoted(name)}")
        for name, column in table.columns.items()
    }


def _aggregate(column: StateColumn, spec: TableSpec) -> Column:
    of, by = quoted(column.of or ""), quoted(spec.last_by(column) or "")
    return F.expr(merges()[column.merge].fold(of, by))
