"""A writer that is not Spark: delta-rs, which Polars writes by, too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Epoch
from partitioning.function.function import PartitioningFunction
from tests.support.placed import KEYS, Placed
from tests.support.state_tables import assert_under

#: What delta-rs says of a row that a constraint does not admit.
REFUSED = "Invalid data found"
#: What it says of a constraint that it cannot evaluate.
UNKNOWN = "Error during planning|sql parser error"


#: Visits of the keys of `placed`.
ALL = {f"k{i}": i for i in range(KEYS)}


def epoch_of(function: PartitioningFunction) -> Epoch:
    return Epoch(function.epoch, function, None, {}, "")


def visits(spark: SparkSession, home: Placed, function: PartitioningFunction) -> dict[str, int]:
    """Visits by key; each row is where the function says, and the table admits it alone."""
    return {key: count for key, (_, count) in assert_under(spark, home, function).items()}


def rows(epoch: Epoch, visits: Mapping[str, int], **instead: int) -> pa.Table:
    """Rows of state, routed by NumPy; `slot` or `channel` may be given, as no writer should."""
    keys = list(visits)
    slots, channels = epoch.lookup_slot(keys), epoch.lookup(keys)
    return pa.table(
        {
            "slot": pa.array(np.full(len(keys), instead.get("slot", slots)), pa.int32()),
            "channel": pa.array(np.full(len(keys), instead.get("channel", channels)), pa.int32()),
            "key": keys,
            "visits": pa.array(visits.values(), pa.int64()),
        }
    )


def append(
    table: str | DeltaTable, epoch: Epoch, visits: Mapping[str, int], **instead: int
) -> None:
    write_deltalake(table, rows(epoch, visits, **instead), mode="append")


def refused(
    table: str | DeltaTable,
    epoch: Epoch,
    visits: Mapping[str, int],
    why: str = REFUSED,
    **instead: int,
) -> None:
    """See that an append is refused, and writes nothing."""
    path = table if isinstance(table, str) else table.table_uri
    before = DeltaTable(path).version()
    with pytest.raises(DeltaError, match=why):
        append(table, epoch, visits, **instead)
    assert DeltaTable(path).version() == before
