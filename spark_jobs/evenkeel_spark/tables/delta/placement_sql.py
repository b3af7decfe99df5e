"""SQL conditions on the place of state rows."""

from __future__ import annotations

from evenkeel_spark.tables.delta.state import CHANNEL, SLOT
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.moves.partial_rows import listed_sql, settled_sql


def of_keys_sql(function: PartitioningFunction, hashes: Hashes) -> str:
    """Write SQL (BOOLEAN) for the state rows of some keys, int64 (K,), at least one."""
    return listed_sql(function.key, len(function.slots), hashes, SLOT)


def belongs_sql(function: PartitioningFunction) -> str:
    """Write SQL (INT) for the channel where a state row belongs."""
    return settled_sql(function, SLOT, CHANNEL)
