"""Inputs of a decision of the watch: the micro-batch's profile, the cost of waiting, the record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Epoch
from evenkeel.runs.timings import pace, seconds_per_load
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel.watch.mitigation import relieved
from evenkeel.watch.state import WatchState
from evenkeel_spark.events.sketch_store import Sketches
from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.migration.split_state import check_mergeable
from evenkeel_spark.watching.micro_batch import need_watch
from partitioning.errors import DamagedError
from partitioning.function.function import PartitioningFunction
from partitioning.planning.decide import Decision
from partitioning.watch.act_or_wait import Waiting, expected_load, weigh_waiting
from partitioning.watch.mitigation import Limits, Weights
from partitioning.workload.bounds import floor
from partitioning.workload.metrics import imbalance_of
from partitioning.workload.profile import Profile, Sketch

#: Days of sketches that forecast the load to come: eight of each weekday. More of them react more
#: slowly to a change.
PAST = 56


def profile_of(
    spark: SparkSession, table: Table, epoch: Epoch, sketch: Sketch, weights: Mapping[int, Weights]
) -> tuple[Profile, dict[str, int]]:
    """Combine the micro-batch's load with the state's weight, listing the keys to decide on.

    A key that has no event in the micro-batch is named as in the epoch's profile.

    Returns
    -------
    The profile, and the version of each state table.
    """
    spec, function = table.spec, epoch.function
    if spec.split is not None:
        check_mergeable(spark, spec)
    listed = np.concatenate([function.exceptions, sketch.heavy])
    keys = np.union1d(listed, np.array(list(weights), dtype=np.int64))
    weight = weigh(spark, spec, function, keys)
    profile, names = weight.onto(sketch, function.key), dict[str, str]()
    with suppress(DamagedError):
        if (kept := table.registry.archive(epoch.number).profile.find()) is not None:
            names = dict(zip(map(str, kept.heavy.tolist()), kept.heavy_names, strict=True))
    named = tuple(names.get(name, name) for name in profile.heavy_names)
    return replace(profile, heavy_names=named), weight.versions


def weighed(
    table: Table,
    known: WatchState,
    after: WatchState,
    profile: Profile,
    size: float,
    back: float,
    limits: Limits,
    now: datetime,
) -> Waiting:
    """Weigh waiting for the daily run against beginning to mitigate.

    Parameters
    ----------
    known, after : the watch without the decision, and with it
    profile : of the micro-batch
    size, back : bytes of state that move there, and back later
    limits : of the watch
    now : UTC
    """
    spec, asked = table.spec, need_watch(table.spec)
    expected, batches = None, limits.left
    if math.isfinite(batches):
        today = now.date()
        days = [today - timedelta(days=i) for i in range(1, PAST + 1)]
        stored = Sketches(table.registry, spec, profile.key).read(days)
        loads = {day: sketch.by_hour() for day, sketch in stored.items()}
        expected = expected_load(loads, now, now + timedelta(minutes=batches * asked.every))
    function = table.epoch(known.epoch).function
    return weigh_waiting(
        *relieved(function, known.watch, after.watch, limits),
        batches,
        float(after.watch.sample.loads().sum()),
        expected,
        size,
        seconds_per_load(table.registry, profile),
        pace(table.registry),
        limits.migration(1),
        back,
    )


def decision(
    spec: TableSpec,
    epoch: Epoch,
    function: PartitioningFunction,
    profile: Profile,
    why: str,
    size: float,
    waiting: Waiting | None,
) -> Decision:
    """Return the decision that every run leaves, on the micro-batch's load."""
    before, reachable = (imbalance_of(f, profile) for f in (epoch.function, function))
    saved = waiting and waiting.saved
    return Decision(
        rebalance=True,
        reason=why,
        imbalance=before,
        reachable=reachable,
        floor=floor(profile, epoch.function.channels, spec.split is not None),
        bytes=size,
        saved_seconds=None if saved is None or math.isinf(saved) else saved,
        cost_seconds=waiting and waiting.cost,
    )
