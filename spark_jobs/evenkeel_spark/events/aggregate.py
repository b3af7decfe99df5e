"""Aggregation of events to state: one aggregate a key for all tables, and SQL to merge two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.spec.custom_merges import merges
from evenkeel.spec.merges import RAISED
from evenkeel.spec.parts import StateColumn, StateTable
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.channel_tasks import PLACE, one_task_each
from evenkeel_spark.events.reader import col
from evenkeel_spark.tables.delta.state import CHANNEL, SLOT
from evenkeel_spark.tables.spark_errors import REFUSED, SPARK_ERRORS
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import OURS, channel_sql, quoted, slot_sql

#: Errors of Spark, and of our merges, for a value that its type cannot hold.
_OVERFLOWS = (RAISED, "ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "CAST_OVERFLOW")
#: Number of events behind a folded row.
EVENTS = "_evenkeel_events"
#: Channel of a routed event, whose own column may have the name CHANNEL.
ROUTED = "_evenkeel_channel"


def route(events: DataFrame, function: PartitioningFunction) -> DataFrame:
    """Bring every event into the task of its key's channel: task i has channel i alone."""
    routed = events.withColumn(ROUTED, F.expr(channel_sql(function)))
    return one_task_each(routed, len(function.channels), ROUTED)


def fold(events: DataFrame, spec: TableSpec, function: PartitioningFunction) -> DataFrame:
    """Aggregate events to one row a key: slot, key, EVENTS, columns of all state tables.

    State columns have the names that `column_alias` gives. A row of routed events is one of a key
    and a channel, with CHANNEL in front. Spark then needs no second shuffle, because each channel's
    rows already share a task.

    Parameters
    ----------
    events : of the window
    spec : of the table
    function : of the current epoch
    """
    columns = [
        _aggregate(c, spec).alias(column_alias(name, column))
        for name, table in spec.state.items()
        for column, c in table.columns.items()
    ]
    keys = (col(c) for c in spec.key)
    place = [c for c in (PLACE, ROUTED) if c in events.columns]
    folded = events.groupBy(*place, *keys).agg(F.count(F.lit(1)).alias(EVENTS), *columns)
    slot = F.expr(slot_sql(function.key, function.row_slots)).alias(SLOT)
    channel = [col(ROUTED).alias(CHANNEL)] if place else []
    return folded.select(*channel, slot, *(col(c) for c in folded.columns if c not in place))


def of_table(folded: DataFrame, spec: TableSpec, name: str) -> DataFrame:
    """Return one state table's part of `fold`'s result, with the table's own column names."""
    return folded.select(
        CHANNEL,
        SLOT,
        *(col(c) for c in spec.key),
        *(col(column_alias(name, c)).alias(c) for c in spec.state[name].columns),
    )


def column_alias(table: str, column: str) -> str:
    """Return the name of a state column among those of all state tables."""
    return f"{table}.{column}"


def merged_sql(table: StateTable, types: Mapping[str, str]) -> dict[str, str]:
    """Write SQL for each state column that merges its value with a window's. A null is no value.

    The SQL names the state row `s`, and the window's row `w`.

    Parameters
    ----------
    table : its part of the spec
    types : Spark's simple name of the type of each state column

    Returns
    -------
    SQL by column.
    """
    return {
        name: merges()[column.merge].pair(f"s.{quoted(name)}", f"w.{quoted(name)}", types[name])
        for name, column in table.columns.items()
    }


@contextmanager
def exact(
    where: str,
    fix: str = "Correct the events, or give the input column a type whose sum is wider, such as a "
    "decimal with fewer digits after the point",
) -> Iterator[None]:
    """Turn the refusal of a value into an InputError. Nothing was written then.

    Spark refuses what a type cannot hold, and Delta what a constraint of the team's does not admit.

    Parameters
    ----------
    fix : what the error advises
    """
    try:
        yield
    except SPARK_ERRORS as error:
        text = str(error)
        if re.search(rf"{REFUSED}\W+CHECK constraint Generated Column", text):
            raise InputError(
                "has rows whose generated columns differ from their SQL in UTC",
                where,
                "Correct these rows in UTC, or make plain columns of them; then run this again",
            ) from error
        check = re.search(rf"{REFUSED}\W+CHECK constraint (\w+)", text)
        if check and not check[1].startswith(OURS):
            raise InputError(
                f"the table's own constraint {check[1]} refuses a row in UTC",
                where,
                "Let it admit the row, or drop it; then run this again",
            ) from error
        if not any(name in text for name in _OVERFLOWS):
            raise
        found = re.search(rf"{RAISED}: ([^\n]*)", text)
        reason = found[1] if found else text.strip().splitlines()[0]
        raise InputError(
            f"a state column cannot hold a merged value ({reason})",
            where,
            fix,
        ) from error


def _aggregate(column: StateColumn, spec: TableSpec) -> Column:
    of, by = quoted(column.of or ""), quoted(spec.last_by(column) or "")
    return F.expr(merges()[column.merge].fold(of, by))
