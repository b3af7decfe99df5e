"""A key of which each owner has a copy in a build side: what is there, and plans for it."""

from __future__ import annotations

import numpy as np
from pyspark.sql import SparkSession

from evenkeel.quality.gates import plan_gate
from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import state
from partitioning.function.function import PartitioningFunction
from partitioning.workload.profile import Profile, Sketch
from tests.support.placed import HEAVY, SLOTS, Placed, hashes, planned
from tests.support.worlds.split_state import START

(HASH,) = hashes([HEAVY]).tolist()

#: What HEAVY's row has, and so each copy of it.
VALUE = int(HEAVY[1:])


THREE = {START: 2.0, 0: 1.0, 1: 1.0}


def build_side(spark: SparkSession, home: Placed) -> dict[int, int]:
    """Channel -> value of HEAVY's copy there."""
    rows = spark.read.format("delta").load(home.path("ranks")).where(f"key = '{HEAVY}'").collect()
    assert len({r["channel"] for r in rows}) == len(rows)
    return {r["channel"]: r["visits"] for r in rows}


def weighed(spark: SparkSession, home: Placed) -> Profile:
    """A profile as `learn` makes it, of a load that is HEAVY's alone."""
    load = np.zeros(SLOTS)
    load[HASH % SLOTS] = 100.0
    sketch = Sketch(load, np.array([HASH]), np.array([100.0]), (HEAVY,), 0.0, 100)
    function = home.table.epoch().function
    weight = weigh(spark, home.table.spec, function, np.array([HASH]))
    return weight.onto(sketch, function.key)


def plan_to(
    spark: SparkSession,
    home: Placed,
    run: str,
    function: PartitioningFunction,
    budget: float | None = None,
) -> Migration:
    """A plan that the gate before lets through."""
    migration = planned(spark, home, run, function, weighed(spark, home), budget=budget)
    gate = plan_gate(migration.plan, migration.before, going_back=True)
    assert gate.success, gate.to_dict()
    return migration


def carried_out(
    spark: SparkSession, home: Placed, run: str, function: PartitioningFunction
) -> Migration:
    migration = plan_to(spark, home, run, function)
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    return migration


def each(spark: SparkSession, home: Placed) -> float:
    return state.table_bytes_per_row(spark, home.path("ranks"))
