"""The function: lookups, JSON, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.errors import FAULT, DamagedError, InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.function.split import Split
from partitioning.function.sql import channel_sql, perfect_hash
from partitioning.workload.bounds import floor
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import profile_of_keys

DIGEST = "e9c0af52fdbebc6d8d8f9460379e8a2b54dddb5912f53e5eb049859af31c8fbf"


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


def test_a_damaged_function_has_one_advice():
    data = function(explicit={1: 2}).to_dict()
    data["explicit"]["channels"] *= 2
    with pytest.raises(DamagedError, match="differ in number") as error:
        PartitioningFunction.from_dict(data, "function.json")
    assert str(error.value).endswith("differ in number). Restore it from a backup")
    with pytest.raises(InputError, match=f"differ in number. {FAULT}"):
        replace(function(explicit={1: 2}), explicit_channels=[2, 2])


def test_the_function_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        function().slots[0] = 1


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ((), "at least 1 channel"),
        ((Channel("a"), Channel("a")), "names must differ"),
        ((Channel("a", 0.0),), "not all 0"),
        ((Channel("a", 1e308), Channel("b", 1e308)), "must be finite"),
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


def test_digest_of_functions_without_split_keys_stays():
    # It names epochs and plans on disk: never update it.
    assert function(explicit={3: 1}).digest == DIGEST


@st.composite
def splits(draw):
    hashes = draw(st.sets(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
    weight = st.floats(1e-3, 1e3)
    return {
        h: draw(st.dictionaries(st.integers(0, 6), weight, min_size=2, max_size=7)) for h in hashes
    }


@given(splits(), st.randoms(use_true_random=False))
def test_split_keys_follow_their_weights(weights, rng):
    split = Split.of(weights)
    assert Split.from_dict(json.loads(json.dumps(split.to_dict()))).to_dict() == split.to_dict()
    assert split.find(np.array(sorted(weights))).tolist() == list(range(len(weights)))
    item, channel, share = split.owners(np.arange(len(split)))
    # Rows drawn evenly over cells, and over what a cell is drawn by: each owner has its share.
    high, low = np.divmod(np.arange(8 * 500), 500)
    drawn = high.astype(np.uint64) << np.uint64(61) | (low * 2**24 // 500).astype(np.uint64)
    drawn += np.uint64(rng.randrange(2**24 // 500))
    for i, h in enumerate(sorted(weights)):
        got = split.pick(np.full(4000, i), drawn.view(np.int64))
        for c, w in weights[h].items():
            fair = w / sum(weights[h].values())
            assert share[(item == i) & (channel == c)].sum() == pytest.approx(fair, abs=1e-6)
            assert (got == c).mean() == pytest.approx(fair, abs=2 * 8 / 4000)
        assert weights[h][int(split.homes[i])] == max(weights[h].values())


def test_successor_drops_weights_that_get_no_row():
    f = successor(
        (KeyColumn("k", "bigint"),),
        None,
        numbered_channels(4),
        np.zeros(8),
        "x",
        split={5: {1: 1.0, 2: 1e-9}, 6: {0: 1.0, 3: 0.0}, 7: {0: 1.0, 2: 3.0}, 8: {2: 0.0}},
    )
    assert f.split.to_dict() == {
        "keys": [7],
        "owners": [[2, 0]],
        "shares": [[3 * 2**22, 2**22]],
    }
    assert (f.explicit_keys.tolist(), f.explicit_channels.tolist()) == ([5], [1])
    assert f.lookup_hashes(np.array([5, 6, 7, 8])).tolist() == [1, 0, 2, 0]
    assert f.to_dict()["format"] == 2
    again = PartitioningFunction.from_dict(replace(f, row=KeyColumn("id", "string")).to_dict())
    assert again.row == KeyColumn("id", "string") and again.split.to_dict() == f.split.to_dict()


def test_lookup_of_split_keys_needs_the_row():
    h = int(key_hash([[9]], ["bigint"])[0])
    f = successor(
        (KeyColumn("k", "bigint"),), None, numbered_channels(3), np.zeros(8), "x",
        split={h: {1: 1.0, 2: 1.0}},
    )  # fmt: skip
    with pytest.raises(InputError, match="declares none"):
        f.lookup([9], row=["a"])
    with pytest.raises(InputError, match="no column of the rows is declared"):
        channel_sql(f)
    f = replace(f, row=KeyColumn("id", "string"))
    with pytest.raises(InputError, match="declares 'id'"):
        f.lookup([9])
    ids = [str(i) for i in range(200)]
    found = f.lookup([9] * 200, row=ids)
    assert set(found.tolist()) == {1, 2} and 60 < (found == 1).sum() < 140
    assert f.lookup([9] * 200, row=ids[::-1]).tolist() == found[::-1].tolist()
    assert set(f.lookup([8] * 200, row=ids).tolist()) == {0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": [2, 1]}, "ascending"),
        ({"owners": [[0], [1, 2]]}, "2 owners or more"),
        ({"owners": [[0, 0], [1, 2]]}, "named twice"),
        ({"owners": [[0, 9], [1, 2]]}, "channel of 0 to 3"),
        ({"shares": [[1, 2], [3, 4]]}, "add up"),
        ({"shares": [[2**24, 0], [3, 4]]}, "over 0"),
        ({"shares": [[2**24], [3, 4]]}, "differ in number"),
        ({"keys": [1, 3]}, "both pinned and split"),
    ],
)
def test_damaged_split_keys_are_refused(change, message):
    data = function(explicit={3: 1}).to_dict() | {"format": 2}
    half = [2**23, 2**23]
    split = {"keys": [1, 2], "owners": [[0, 1], [1, 2]], "shares": [half, half]}
    PartitioningFunction.from_dict(data | {"split": split})
    with pytest.raises(DamagedError, match=message):
        PartitioningFunction.from_dict(data | {"split": split | change})
    with pytest.raises(DamagedError, match="does not fit"):
        PartitioningFunction.from_dict(data | {"format": 1, "split": split})


def test_loads_count_split_keys_by_share():
    hashes = np.arange(10)
    profile = profile_of_keys((KeyColumn("k", "bigint"),), hashes, np.full(10, 8.0), 16)
    f = successor(
        profile.key, None, numbered_channels(4), np.zeros(16), "x",
        explicit={1: 1}, split={2: {2: 3.0, 3: 1.0}, 99: {1: 1.0, 2: 1.0}},
    )  # fmt: skip
    assert channel_loads(f, profile).tolist() == [64, 8, 6, 2]
    assert floor(profile, numbered_channels(4)) == 1 == floor(profile, f.channels, splitting=True)
