"""The state that a bootstrap begins with, for tables of both formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.spec.custom_merges import merges
from evenkeel.spec.merges import INEXACT
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.aggregate import EVENTS, column_alias, exact, fold
from evenkeel_spark.events.channel_tasks import PLACE, one_task_a_channel
from evenkeel_spark.events.open_days import refuse_open_days
from evenkeel_spark.events.parquet_files import between_whole, refuse_unknown_times
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import (
    col,
    null_key,
    refuse_null_keys,
    without_null_keys,
)
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.rows.comparable import comparable
from evenkeel_spark.tables.table_properties import MADE_PROPERTY
from partitioning.errors import DamagedError
from partitioning.function.canonical import digest
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql


def first_state(events: DataFrame, spec: TableSpec, function: PartitioningFunction) -> DataFrame:
    """Aggregate events to the state of all tables, with each row's channel.

    Columns are named as in `fold`. A channel's rows share a task and are sorted by slot.
    """
    folded = fold(events, spec, function)
    placed = folded.withColumn(state.CHANNEL, F.expr(channel_sql(function)))
    together = one_task_a_channel(placed, len(function.channels))
    return together.sortWithinPartitions(state.CHANNEL, state.SLOT).drop(PLACE)


def rows_until(
    events: DataFrame, spec: TableSpec, function: PartitioningFunction, end: date | None
) -> DataFrame:
    """Aggregate the state and persist it. Every event is read once, before anything is written."""
    if end is None:
        return first_state(events.limit(0), spec, function)
    refuse_open_days(events, spec, end)
    refuse_unknown_times(events, spec)
    events = without_null_keys(between_whole(events, spec, None, end), spec)
    rows = first_state(events, spec, function).persist()
    with reading(spec), exact(spec.input.path):
        found = rows.agg(F.sum(F.when(null_key(spec), F.col(EVENTS)))).first()
    refuse_null_keys(found[0] or 0 if found else 0, spec)
    return rows


def made_from(spec: TableSpec, function: PartitioningFunction, end: date | None) -> str:
    """Return the digest of all that the first state depends on, but for the events."""
    return digest(
        {
            "end": end.isoformat() if end else None,
            "function": function.digest,
            "input": spec.input.model_dump(),
            "nulls": [spec.null_keys, spec.null_times],
            "state": {n: t.model_dump(exclude={"path"}) for n, t in spec.state.items()},
        }
    )


def first_state_note(made: str, rows: DataFrame, spec: TableSpec) -> str:
    """Return what tables of the first state note: how they are made, and a digest of the events."""
    content = F.xxhash64(*(col(c) for c in spec.key), F.col(EVENTS), *_repeatable(rows, spec))
    (keys, each), *_ = rows.agg(F.count(F.lit(1)), F.bit_xor(content)).collect()
    return f"{made}:{keys}:{each or 0}"


def _repeatable(rows: DataFrame, spec: TableSpec) -> Iterator[Column]:
    """Yield the state columns that are the same whenever they are made from the same events.

    Sketches depend on the order of the events, and so do sums of floats.
    """
    for name, table in spec.state.items():
        for column, made in table.columns.items():
            merge, alias = merges()[made.merge], column_alias(name, column)
            kind = rows.schema[alias].dataType
            rounds = any(word in kind.simpleString() for word in INEXACT)
            # Nobody knows whether a merge of somebody's own adds numbers.
            if merge.sketched or (rounds and (merge.adds or merge.version)):
                continue
            if comparable(kind):
                yield col(alias)


def check_same_events(properties: Mapping[str, str], where: str, noted: str) -> None:
    """Refuse a half-made table of other events: those before its end have changed since.

    A table by an earlier release notes no events.
    """
    found = properties.get(MADE_PROPERTY, "")
    if ":" in found and found != noted:
        raise DamagedError(
            "was made from other events than there are now, by a bootstrap that was broken off",
            where,
            "Remove the table, which no epoch names, and bootstrap again",
        )


def check_made(properties: Mapping[str, str], where: str, made: str) -> None:
    """Refuse a half-made table unless an earlier attempt at this same bootstrap has made it."""
    if properties.get(MADE_PROPERTY, "").partition(":")[0] != made:
        raise DamagedError(
            "holds state of another bootstrap, or of one by an earlier Evenkeel, which published "
            "no epoch in this registry",
            where,
            "Correct the registry in the spec, or remove the table and bootstrap again",
        )
