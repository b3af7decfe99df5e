"""Micro-batches of events: cut them by time, and measure what each channel and heavy key gets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenkeel.spec.parts import Watching
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel.watch.state import WATCHED_SHARE
from evenkeel_spark.events.daily_sketches import Passes, sketch_days
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import (
    check_key,
    col,
    load_of,
    need_time,
    read_events,
    with_times,
    without_null_keys,
)
from evenkeel_spark.runtime.command import say
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql, quoted
from partitioning.workload.profile import Floats, Sketch

#: Micro-batches that a look after a pause reads at most. Each has 65,536 fine slots on a table with
#: 4,096 slots, and 2 MB of them go to the driver, which takes 1 GB by default.
MOST_BATCHES = 200


@dataclass(frozen=True, eq=False)
class MeasuredBatch:
    """A micro-batch: its number, its sketch, and the load of each channel, float64 (N,)."""

    number: int
    sketch: Sketch
    loads: Floats


def measure_batch(
    events: DataFrame, spec: TableSpec, function: PartitioningFunction, number: Column
) -> list[MeasuredBatch]:
    """Measure the micro-batches in `events`, in order, as `function` routes them.

    Parameters
    ----------
    events : of one or several micro-batches
    spec : of the table
    function : of the current epoch
    number : each event's micro-batch (INT)

    Raises
    ------
    InputError : as for `sketch_days`
    """
    listed = function.exceptions
    share = WATCHED_SHARE / len(function.channels)
    passes = Passes(function.key, len(function.slots), share, listed)
    sketches = sketch_days(events, spec, passes, number)
    channel = F.expr(channel_sql(function)).alias("channel")
    with reading(spec):
        # Count from events: a sketch does not show how evenly rows spread a split key.
        found = (
            without_null_keys(events, spec)
            .groupBy(number.alias("number"), channel)
            .agg(load_of(spec).alias("load"))
            .toArrow()
        )
    numbers, channels, came = (found[c].to_numpy() for c in ("number", "channel", "load"))
    loads = {n: np.zeros(len(function.channels)) for n in sketches}
    for n, c, value in zip(numbers.tolist(), channels.tolist(), came.tolist(), strict=True):
        loads[n][c] += value
    return [MeasuredBatch(n, sketches[n], loads[n]) for n in sorted(sketches)]


def need_watch(spec: TableSpec) -> Watching:
    """Return the spec's `watch`.

    Raises
    ------
    InputError : the spec has none
    """
    if spec.watch is None:
        raise InputError("watch is not set", f"spec of {spec.table}", "Set it: `watch: {}`")
    return spec.watch


def number_sql(spec: TableSpec, every: int) -> str:
    """Write SQL (INT) for the number of an event's micro-batch, counted from 1970."""
    seconds = f"unix_seconds(CAST({quoted(need_time(spec))} AS TIMESTAMP))"
    return f"CAST(floor({seconds} / {60 * every}) AS INT)"


def since(spark: SparkSession, table: Table, last: int, until: datetime) -> DataFrame:
    """Return the events of micro-batches after number `last` that have ended by `until`.

    If `last` is -1, return those of the newest micro-batch only. After a long pause, return those
    of the newest `MOST_BATCHES`: each brings a row for each fine slot to the driver.

    Raises
    ------
    InputError : as for `read_events`, or the time column is a date, or an event has no time
    """
    spec, every = table.spec, need_watch(table.spec).every
    function = table.epoch().function
    events = read_events(spark, spec, function)
    check_key(events, spec, function.key)
    time_column = need_time(spec)
    kind = events.schema[time_column].dataType
    if isinstance(kind, T.DateType):
        raise InputError(
            f"column {time_column!r} is date: it cannot be cut into minutes",
            spec.input.path,
            "Name a timestamp in input.time, or take `watch` out of the spec",
        )

    events = with_times(events, spec)

    def at(number: int) -> Column:
        moment = datetime.fromtimestamp(number * every * 60, UTC)
        return F.lit(moment.strftime("%Y-%m-%d %H:%M:%S")).cast(kind.simpleString())

    end = int(until.timestamp()) // (60 * every)
    oldest = end - max(MOST_BATCHES, need_watch(spec).memory)
    if 0 <= last < oldest - 1:
        say(f"{oldest - 1 - last:,} micro-batches have come in a pause, and are left out")
        last = oldest - 1
    # Compare the raw column, so that Parquet can prune by it.
    events = events.where(col(time_column) < at(end))
    if last < 0:
        newest = events.agg(F.max(F.expr(number_sql(spec, every)))).collect()[0][0]
        last = -1 if newest is None else newest - 1
    return events.where(col(time_column) >= at(last + 1)) if last >= 0 else events
