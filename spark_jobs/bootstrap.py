"""Bootstrap: make the state tables and publish epoch 0, by consistent hashing.

A crash anywhere leaves tables that a second run recognises as its own and completes; the epoch
is published last.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.epochs import TableVersion
from evenkeel.spec import TableSpec
from evenkeel.table import Table
from partitioning.errors import DamagedError, InputError
from partitioning.function import KeyColumn, PartitioningFunction, digest
from partitioning.profile import Profile
from partitioning.sql import channel_sql
from partitioning.strategies.hashing import consistent
from spark_jobs import state
from spark_jobs.events import (
    between,
    day_number,
    key_columns,
    need_time,
    null_key,
    read_events,
    reading,
    refuse_null_keys,
    without_null_keys,
)
from spark_jobs.fold import EVENTS, fold, of_table
from spark_jobs.job import parser, run_job, say

#: What a half-made table was being made from; another bootstrap must not complete it.
MADE_PROPERTY = "evenkeel.bootstrap"


def first_function(key: tuple[KeyColumn, ...], spec: TableSpec) -> PartitioningFunction:
    """Epoch 0: consistent hashing on the spec's channels; no load is looked at."""
    empty, none = np.zeros(spec.slots), np.zeros(0)
    nothing = Profile(
        key, empty, empty, empty, np.zeros(0, np.int64), none, none, none, heavy_names=()
    )
    return consistent(nothing, None, spec.channel_list())


def first_state(events: DataFrame, spec: TableSpec, function: PartitioningFunction) -> DataFrame:
    """State of all tables from events, as `fold` names it, with each row's channel; a channel's
    rows share a task and are sorted by slot."""
    folded = fold(events, spec, function)
    placed = folded.withColumn(state.CHANNEL, F.expr(channel_sql(function)))
    return placed.repartitionById(len(function.channels), state.CHANNEL).sortWithinPartitions(
        state.CHANNEL, state.SLOT
    )


def bootstrap(spark: SparkSession, table: Table, end: date | None = None) -> bool:
    """Make what is missing; False where the table was bootstrapped before.

    Parameters
    ----------
    end : state is built from the events before this day; None: state begins empty

    Raises
    ------
    InputError : an input that cannot be used, or folders that hold something else
    """
    spec = table.spec
    if table.registry.numbers():
        state.check_tables(spark, spec)
        return False
    events = read_events(spark, spec)
    function = first_function(key_columns(events, spec), spec)
    made = digest(
        {
            "end": end.isoformat() if end else None,
            "function": function.digest,
            "state": {n: t.model_dump(exclude={"path"}) for n, t in spec.state.items()},
        }
    )
    missing = [name for name in spec.state if not _there(spark, spec, name, made)]
    if missing:
        rows = _rows(events, spec, function, end)
        try:
            _create(spark, spec, rows, missing, made, end)
        finally:
            rows.unpersist()
    rule = state.constraint_sql(function)
    for name, part in spec.state.items():
        state.add_constraint(spark, part.path, state.epoch_constraint(0), rule)
        say(f"{name}: ready at {part.path}")
    table.registry.publish(
        function,
        {
            name: TableVersion(part.path, state.table_version(spark, part.path))
            for name, part in spec.state.items()
        },
    )
    return True


def _there(spark: SparkSession, spec: TableSpec, name: str, made: str) -> bool:
    """Whether an earlier attempt at this very bootstrap made the table; refuses anything else."""
    path = spec.state[name].path
    if not state.occupied(spark, path):
        return False
    found = state.check_owner(spark, path, spec.table)
    if found.get(state.SLOTS_PROPERTY) != str(spec.slots):
        raise InputError(
            f"was made with slots = {found.get(state.SLOTS_PROPERTY)}, the spec says {spec.slots}",
            path,
            "Set it back, or remove the folder",
        )
    if found.get(MADE_PROPERTY) != made:
        raise DamagedError(
            "holds state of another bootstrap, which published no epoch in this registry",
            path,
            "Correct the registry in the spec, or remove the folder and bootstrap again",
        )
    return True


def _rows(
    events: DataFrame, spec: TableSpec, function: PartitioningFunction, end: date | None
) -> DataFrame:
    """The folded state, persisted; every event is read once."""
    if end is None:
        return first_state(events.limit(0), spec, function)
    events = without_null_keys(between(events, spec, None, end), spec)
    rows = first_state(events, spec, function).persist()
    if spec.null_keys == "refuse":
        with reading(spec):
            found = rows.where(null_key(spec)).agg(F.sum(EVENTS)).first()
        refuse_null_keys(found[0] if found else 0, spec)
    return rows


def _create(
    spark: SparkSession,
    spec: TableSpec,
    rows: DataFrame,
    names: Sequence[str],
    made: str,
    end: date | None,
) -> None:
    """Each table in one commit: schema, properties and rows."""
    keep = f"interval {spec.keep} days"
    properties = {
        "delta.enableDeletionVectors": "true",
        # The log's must not be the shorter one: time travel reads both.
        "delta.logRetentionDuration": keep,
        "delta.deletedFileRetentionDuration": keep,
        state.TABLE_PROPERTY: spec.table,
        state.SLOTS_PROPERTY: str(spec.slots),
        MADE_PROPERTY: made,
    }
    app = state.app_id(spec.table, state.WINDOWS) if end else None
    meta = {"step": "bootstrap", "end": end.isoformat() if end else None, "epoch": 0}
    for name in names:
        say(f"{name}: writing")
        writer = of_table(rows, spec, name).writeTo(state.sql_name(spec.state[name].path))
        writer = writer.using("delta").partitionedBy(F.col(state.CHANNEL))
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        number = day_number(end) if end else None
        with reading(spec), state.commit_conf(spark, app, number, meta):
            writer.create()


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    if options.end is not None:
        need_time(table.spec)
    if bootstrap(spark, table, options.end):
        say(f"epoch 0 of {table.spec.table} published in {table.registry.url}")
    else:
        number = table.registry.numbers()[-1]
        say(f"{table.spec.table} is bootstrapped already (epoch {number}): nothing to do")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = parser(__doc__ or "")
    arguments.add_argument(
        "--end", type=date.fromisoformat, help="build state from the events before this day"
    )
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
