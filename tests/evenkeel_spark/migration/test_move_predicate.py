"""The condition of rows that move: it names what need not be read."""

from __future__ import annotations

import numpy as np
import pytest

from evenkeel_spark.migration.move_predicate import moved_sql, slot_ranges
from partitioning.function.function import PartitioningFunction, numbered_channels
from tests.support.placed import (
    HEAVY,
    KEY,
    hashes,
    next_function,
)

pytestmark = pytest.mark.spark


def test_conditions_name_what_need_not_be_read() -> None:
    before = PartitioningFunction(KEY, numbered_channels(4), np.arange(64) % 4)
    assert moved_sql(before, before) is None
    sql = moved_sql(before, next_function(before, (4, 8, 9), None))
    assert sql is not None
    assert "channel IN (0, 1)" in sql and "slot IN (4, 8, 9)" in sql
    heavy = moved_sql(before, next_function(before, (), HEAVY))
    slot = int(hashes([HEAVY])[0] % 64)
    assert heavy is not None
    assert f"channel IN ({slot % 4})" in heavy
    # Where nothing is split, the condition knows nothing of that.
    none = np.empty(0, np.int64)
    assert heavy == moved_sql(before, next_function(before, (), HEAVY), shared=none)
    assert "NOT" not in heavy


@pytest.mark.parametrize(
    ("slots", "most", "ranges"),
    [
        ([5], 3, [(5, 5)]),
        ([1, 2, 3], 3, [(1, 3)]),
        ([1, 2, 9, 20], 3, [(1, 2), (9, 9), (20, 20)]),
        ([1, 2, 9, 20], 2, [(1, 9), (20, 20)]),
        ([1, 2, 9, 20], 1, [(1, 20)]),
    ],
)
def test_ranges_hold_every_slot(slots: list[int], most: int, ranges: list[tuple[int, int]]) -> None:
    assert slot_ranges(np.array(slots), most) == ranges
