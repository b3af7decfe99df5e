"""Functions with more slots than their rows know: each slot is split, and no key moves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.registry.epochs import Epoch
from partitioning.errors import DamagedError, InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import key_hash, slot_of
from partitioning.function.slot_fence import slot_fence_sql
from partitioning.function.sql import channel_sql, check_sql, slot_sql
from tests.conftest import compiled
from tests.support.planning.any_function import KEY, functions

ANY_HASH = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(functions(), st.integers(1, 5), st.lists(ANY_HASH, max_size=50), st.integers(0, 99))
def test_each_row_keeps_its_channel_and_its_slot(function, parts, hashes, seed):
    finer = function.refined(len(function.slots) * parts)
    hashes = np.array(hashes, dtype=np.int64)
    hashes = np.concatenate([hashes, function.explicit_keys, np.repeat(function.split.keys, 20)])
    rows = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, len(hashes))
    for of_rows in (rows, None):
        owners = function.lookup_hashes(hashes, of_rows)
        assert (finer.lookup_hashes(hashes, of_rows) == owners).all()
    assert finer.row_slots == function.row_slots == len(function.slots)
    assert slot_fence_sql(finer) == slot_fence_sql(function) == slot_fence_sql(function, finer)
    again = PartitioningFunction.from_dict(finer.to_dict())
    assert again.digest == finer.digest
    assert (again.row_slots, again.slots.tolist()) == (finer.row_slots, finer.slots.tolist())
    assert (finer.digest == function.digest) == (parts == 1)
    assert finer.to_dict()["format"] == (3 if parts > 1 else function.to_dict()["format"])
    # In two steps, and with what is planned from it.
    twice = finer.refined(len(finer.slots) * 2)
    assert twice.digest == function.refined(len(twice.slots)).digest
    assert twice.unsplit.row_slots == function.row_slots


def test_slots_that_are_no_multiple_are_refused():
    function = PartitioningFunction(KEY, numbered_channels(4), np.arange(64) % 4)
    for slots in (0, 1, 32, 63, 96):
        with pytest.raises(InputError, match=f"a multiple of the 64 slots in force, got {slots}"):
            function.refined(slots)
    for known in (-1, 3, 128):
        with pytest.raises(InputError, match=f"rows know {known} slots"):
            replace(function, row_slots=known)


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 1},
        {"format": 2},
        {"row_slots": 0},
        {"row_slots": 48},
        {"row_slots": None},
        {"slots": [0, 1, 2]},
    ],
)
def test_a_damaged_function_of_more_slots_is_refused(changed):
    function = PartitioningFunction(KEY, numbered_channels(4), np.arange(64) % 4)
    data = function.refined(128).to_dict()
    assert PartitioningFunction.from_dict(data).row_slots == 64
    with pytest.raises(DamagedError, match="not a partitioning function"):
        PartitioningFunction.from_dict(data | changed)
    del data["row_slots"]
    with pytest.raises(DamagedError, match="does not fit its slots of rows"):
        PartitioningFunction.from_dict(data)


def test_writers_are_given_the_slot_that_rows_have():
    function = PartitioningFunction(KEY, numbered_channels(4), np.arange(64) % 4).refined(192)
    keys = [f"k{i}" for i in range(500)]
    epoch = Epoch(3, function, None, {}, "")
    before = Epoch(2, replace(function, slots=function.slots[:64]), None, {}, "")
    assert (epoch.lookup_slot(keys) == before.lookup_slot(keys)).all()
    assert (epoch.lookup(keys) == before.lookup(keys)).all()


@pytest.mark.spark
@pytest.mark.parametrize(("slots", "channels"), [(64, 9), (60, 300)])
def test_spark_routes_and_checks_by_all_slots(spark, slots, channels):
    """One that is planned from a finer function, so that parts of a slot have other channels."""
    rng = np.random.default_rng(slots)
    keys = [f"k{i}" for i in range(3000)]
    own = PartitioningFunction(KEY, numbered_channels(channels), rng.integers(0, channels, slots))
    hashes = key_hash([keys], ["string"])
    heavy = np.sort(hashes[:40])
    function = replace(
        own.refined(3 * slots),
        slots=rng.integers(0, channels, 3 * slots),
        explicit_keys=heavy,
        explicit_channels=rng.integers(0, channels, len(heavy)),
    )
    rows = compiled(spark).createDataFrame([(k,) for k in keys], "key string").selectExpr(
        "key",
        f"{slot_sql(KEY, function.row_slots)} AS slot",
        f"{channel_sql(function)} AS channel",
    )  # fmt: skip
    found = rows.selectExpr("*", f"{check_sql(function, 'slot')} AS checked").collect()
    owners = function.lookup(keys).tolist()
    assert [r.channel for r in found] == [r.checked for r in found] == owners
    assert [r.slot for r in found] == slot_of(hashes, slots).tolist()
    assert len({(r.slot, r.channel) for r in found}) > slots
