"""State of split keys: the rows that a table starts with, and plans that split them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from pyspark.sql import SparkSession

from evenkeel.quality.gates import plan_gate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import state
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.function.split import Split
from tests.support.placed import (
    HEAVY,
    Placed,
    hashes,
)

ROW = KeyColumn("id", "bigint")


(HASH,) = hashes([HEAVY]).tolist()


def split(function: PartitioningFunction, owners: dict[int, float]) -> PartitioningFunction:
    """HEAVY shared by these channels; all else as it is."""
    others = function.explicit_keys != HASH
    return replace(
        function,
        explicit_keys=function.explicit_keys[others],
        explicit_channels=function.explicit_channels[others],
        split=Split.of({HASH: owners}) if len(owners) > 1 else Split(),
        row=ROW,
    )


def whole(function: PartitioningFunction, channel: int) -> PartitioningFunction:
    """HEAVY on this channel alone."""
    return replace(
        split(function, {}), explicit_keys=np.array([HASH]), explicit_channels=np.array([channel])
    )


def parts(spark: SparkSession, home: Placed, key: str = HEAVY) -> dict[int, int]:
    """Channel -> visits of a key; one row a channel."""
    rows = spark.read.format("delta").load(home.path()).where(f"key = '{key}'").collect()
    assert len({r["channel"] for r in rows}) == len(rows)
    return {r["channel"]: r["visits"] for r in rows}


def write(spark: SparkSession, home: Placed, visits: dict[int, int]) -> None:
    """Visits of HEAVY by the channel that they were routed to, as apply_window merges them."""
    rows = ", ".join(f"({c}, {n})" for c, n in visits.items())
    (slot,) = {int(s) for s in (hashes([HEAVY]) % 64)}
    spark.sql(
        f"MERGE INTO {state.sql_name(home.path())} s "
        f"USING (SELECT * FROM VALUES {rows} AS v(channel, visits)) AS w "
        f"ON s.key = '{HEAVY}' AND s.channel = w.channel "
        "WHEN MATCHED THEN UPDATE SET visits = s.visits + w.visits "
        "WHEN NOT MATCHED THEN INSERT (channel, slot, key, visits) "
        f"VALUES (w.channel, {slot}, '{HEAVY}', w.visits)"
    )


START = 3


def others(spark: SparkSession, home: Placed) -> Counter[tuple[str, int]]:
    rows = spark.read.format("delta").load(home.path()).where(f"key <> '{HEAVY}'").collect()
    return Counter((r["key"], r["visits"]) for r in rows)


def finish(spark: SparkSession, home: Placed, migration: Migration) -> None:
    verify(spark, migration)
    assert home.constraints(spark) == {migration.new}
    publish(spark, migration)


def gated(migration: Migration) -> Migration:
    """A plan that the gate before lets through: its moves are exactly what differs."""
    gate = plan_gate(migration.plan, migration.before, going_back=True)
    assert gate.success, gate.to_dict()
    return migration


#: What HEAVY has after `template`, by channel.
HAD = {START: 107, (START + 1) % 4: 20, (START + 2) % 4: 3}
