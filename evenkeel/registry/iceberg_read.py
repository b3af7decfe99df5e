"""Read Iceberg tables from outside of the jobs: the name of the slot's column, and versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.spec.table_spec import SLOT
from partitioning.errors import FenceError
from partitioning.function.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: In the summary of a move's snapshot: the epoch that it leads to.
EPOCH_SUMMARY = "evenkeel.epoch"


def slot_column(epoch: int) -> str:
    """Return the name of the slot's column while an epoch is in force.

    The name is the fence: a writer that routes by another epoch names a column that is not there.
    """
    return f"{SLOT}_{epoch}"


def iceberg_name(path: str) -> str:
    """Return an Iceberg table's name as SQL has it."""
    return ".".join(quoted(part) for part in path.split("."))


def newest_under(spark: SparkSession, path: str, epoch: int) -> int:
    """Return the newest snapshot of main whose rows are where an epoch's function puts them.

    A move of rows comes to main in one commit, which names the epoch that it leads to.

    Raises
    ------
    FenceError : it has expired
    """
    name = iceberg_name(path)
    spark.sql(f"REFRESH TABLE {name}")
    head = spark.sql(f"SELECT snapshot_id FROM {name}.refs WHERE name = 'main'").collect()
    rows = spark.sql(f"SELECT snapshot_id, parent_id, summary FROM {name}.snapshots").collect()
    known = {r[0]: (r[1], int((r[2] or {}).get(EPOCH_SUMMARY, 0))) for r in rows}
    at = head[0][0] if head else None
    chain = []
    while at in known:
        chain.append(at)
        at = known[at][0]
    # All that came after the first move to a later epoch stands by that epoch.
    later = [i for i, number in enumerate(chain) if known[number][1] > epoch]
    first = later[-1] + 1 if later else 0
    if first >= len(chain):
        raise FenceError(
            f"has no snapshot left at which epoch {epoch} holds",
            path,
            "Read it again: another epoch is published by now; or run repair",
        )
    return int(chain[first])
