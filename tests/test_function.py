"""The function: hashing against frozen vectors, lookups, JSON, and what it refuses."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.errors import DamagedError, InputError
from partitioning.function import (
    Channel,
    KeyColumn,
    PartitioningFunction,
    numbered_channels,
    successor,
)
from partitioning.hashing import key_hash, slot_of
from partitioning.sql import channel_sql, perfect_hash

# What Spark 4.2.0 prints for SELECT xxhash64(CAST(... AS ...)).
VECTORS = [
    (["string"], ["ORD"], 1358878907523830835),
    (["string"], [""], -7444071767201028348),
    (["string"], [None], 42),
    (["string"], ["Zürich ✈"], 1213809317664618075),
    (["string"], ["a longer key, over thirty-two bytes of UTF-8"], -5359149168148790314),
    (["binary"], [b"\x00\xff\x10"], 5415089035989094387),
    (["tinyint"], [-7], 4987848727247274714),
    (["smallint"], [-7], 4987848727247274714),
    (["int"], [-7], 4987848727247274714),
    (["bigint"], [-7], -1663473129717591079),
    (["date"], [datetime.date(2013, 1, 1)], 1349268229983960169),
    (["string", "bigint"], ["ORD", -7], 8259297757139033525),
    (["string", "int"], [None, 5], 504019808641096632),
]


def function(slots=64, explicit=None, channels=4):
    explicit = explicit or {}
    keys = sorted(explicit)
    return PartitioningFunction(
        key=(KeyColumn("k", "bigint"),),
        channels=numbered_channels(channels),
        slots=np.arange(slots) % channels,
        explicit_keys=np.array(keys, dtype=np.int64),
        explicit_channels=np.array([explicit[k] for k in keys], dtype=np.int32),
    )


@pytest.mark.parametrize(("types", "row", "expected"), VECTORS)
def test_hash_equals_spark(types, row, expected):
    assert key_hash([[value] for value in row], types).tolist() == [expected]


def test_hash_of_nulls_among_values_leaves_the_others_alone():
    mixed = key_hash([["ORD", None, ""]], ["string"])
    assert mixed.tolist() == [1358878907523830835, 42, -7444071767201028348]


@pytest.mark.parametrize(
    ("columns", "types", "message"),
    [
        ([[1.5]], ["double"], "type 'double' cannot be hashed"),
        ([["x"]], ["bigint"], "not of the declared type bigint"),
        ([[2**40]], ["int"], "not of the declared type int"),
        ([[1], [2]], ["int"], "2 key columns given where 1 are declared"),
        ([[1], [2, 3]], ["int", "int"], "different lengths"),
    ],
)
def test_hash_refuses(columns, types, message):
    with pytest.raises(InputError, match=message):
        key_hash(columns, types)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 5000))
def test_slots_are_never_negative(hashes, slots):
    found = slot_of(np.array(hashes, dtype=np.int64), slots)
    assert found.tolist() == [h % slots for h in hashes]


@given(st.sets(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=300), st.data())
def test_lookup_takes_the_explicit_channel_and_else_the_slot(hashes, data):
    explicit = {h: data.draw(st.integers(0, 3)) for h in list(hashes)[::2]}
    f = function(explicit=explicit)
    owners = f.lookup_hashes(np.array(list(hashes), dtype=np.int64))
    assert owners.tolist() == [explicit.get(h, (h % 64) % 4) for h in hashes]


@given(st.sets(st.integers(0, 2**40), min_size=1, max_size=600), st.sampled_from([16, 97, 4096]))
def test_perfect_hash_finds_every_key_and_nothing_else(ids, slots):
    hashes = np.sort(key_hash([sorted(ids)], ["bigint"]))
    table = perfect_hash(hashes, slots)
    displacement = dict(zip(table.slots.tolist(), table.displacements.tolist(), strict=True))

    def found(h):
        if h % slots not in displacement:
            return None
        at = (((h % 2**64) >> table.shift) ^ displacement[h % slots]) & (len(table.stored) - 1)
        return at if table.stored[at] == h else None

    assert [found(h) for h in hashes.tolist()] == table.cells.tolist()
    assert all(found(h) is None for h in {0, 42, -1, 2**63 - 1} - set(hashes.tolist()))


def test_hashes_that_no_table_parts_are_refused():
    with pytest.raises(InputError, match="no table parts these 2 hashes"):
        perfect_hash(np.array([-(2**63), 0]), 16)


def test_json_round_trip_keeps_the_digest():
    f = function(explicit={-5: 1, 99: 2})
    again = PartitioningFunction.from_dict(f.to_dict())
    assert again.digest == f.digest
    assert again.lookup_hashes(np.array([-5, 99, 3])).tolist() == [1, 2, 3]


def test_digest_tells_two_functions_apart():
    assert function(explicit={1: 2}).digest != function(explicit={1: 3}).digest


@pytest.mark.parametrize("field", ["format", "slots", "explicit", "channels", "epoch"])
def test_a_damaged_function_is_refused(field):
    data = function().to_dict()
    del data[field]
    with pytest.raises(DamagedError, match="not a partitioning function"):
        PartitioningFunction.from_dict(data)


def test_the_function_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        function().slots[0] = 1


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ((), "at least 1 channel"),
        ((Channel("a"), Channel("a")), "names must differ"),
        ((Channel("a", 0.0),), "not all 0"),
        ((Channel("a", float("nan")),), "finite"),
        ((Channel("a", -1.0),), "not negative"),
    ],
)
def test_channels_that_make_no_sense_are_refused(channels, message):
    with pytest.raises(InputError, match=message):
        PartitioningFunction((KeyColumn("k", "int"),), channels, np.zeros(4))


def test_a_slot_without_a_channel_is_refused():
    with pytest.raises(InputError, match="every slot and key needs a channel"):
        PartitioningFunction((KeyColumn("k", "int"),), numbered_channels(2), np.array([0, 2]))


def test_successor_leaves_out_keys_that_their_slot_owns_anyway():
    f = successor(
        (KeyColumn("k", "bigint"),), None, numbered_channels(2), [0, 1], "s", {}, {4: 0, 6: 1}
    )
    assert f.explicit_keys.tolist() == [6]


def test_sql_has_no_join_and_quotes_names():
    text = channel_sql(function(explicit={7: 1}), ["a`b"])
    assert "`a``b`" in text and "JOIN" not in text.upper()
