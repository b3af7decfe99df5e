"""SQL conditions on where rows of state stand."""

from __future__ import annotations

from evenkeel_spark.tables.delta.state import CHANNEL, SLOT
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.moves.partial_rows import listed_sql, settled_sql


def of_keys_sql(function: PartitioningFunction, hashes: Hashes) -> str:
    """SQL (BOOLEAN) for the rows of state of some keys, int64 (K,), at least one."""
    return listed_sql(function.key, len(function.slots), hashes, SLOT)


def belongs_sql(function: PartitioningFunction) -> str:
    """SQL (INT) for the channel where a row of state belongs."""
    return settled_sql(function, SLOT, CHANNEL)
