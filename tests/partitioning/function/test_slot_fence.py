"""The CHECK over slot and channel alone admits what the function can place, and nothing else."""

import itertools
import re
import sqlite3
from contextlib import closing

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import slot_of
from partitioning.function.slot_fence import admitted_pairs, slot_fence_sql
from tests.support.planning.any_function import KEY, functions


def admitted(sql, slots, channels):
    """The (slot, channel) that a database admits of all that there are, nulls among them."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE rows (slot INT, channel INT)")
        every = itertools.product([None, *slots], [None, *channels])
        database.executemany("INSERT INTO rows VALUES (?, ?)", every)
        return set(database.execute(f"SELECT slot, channel FROM rows WHERE {sql}"))


def placed(function, rng):
    """(slot, channel) of rows of many keys: each of the function's own, and random ones."""
    own = np.concatenate([function.explicit_keys, function.split.keys])
    hashes = np.concatenate([np.repeat(own, 50), rng.integers(-(2**63), 2**63 - 1, 300)])
    rows = rng.integers(-(2**63), 2**63 - 1, len(hashes))
    channels = function.lookup_hashes(hashes, rows)
    return set(zip(slot_of(hashes, function.row_slots).tolist(), channels.tolist(), strict=True))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_it_admits_what_the_functions_place_and_no_other_pair(data):
    one = data.draw(functions())
    parts = data.draw(st.integers(1, 3))
    two = data.draw(functions(len(one.slots) * parts, len(one.slots)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for both in ((one,), (one, two)):
        sql = slot_fence_sql(*both)
        channels, slots = admitted_pairs(*both)
        pairs = set(zip(slots.tolist(), channels.tolist(), strict=True))
        assert len(pairs) == len(channels)
        assert set().union(*(placed(f, rng) for f in both)) <= pairs
        # No more than the slot's own channel, and those of keys with a place of their own in it.
        due = set()
        for f in both:
            count = f.row_slots
            due |= {(i % count, c) for i, c in enumerate(f.slots.tolist())}
            heavy = slot_of(f.explicit_keys, count).tolist()
            due |= set(zip(heavy, f.explicit_channels.tolist(), strict=True))
            for key, owners in f.split.weights.items():
                due |= {(int(slot_of(np.array([key]), count)[0]), c) for c in owners}
        assert pairs == due
        most = max(len(f.channels) for f in both)
        assert admitted(sql, range(-1, len(one.slots) + 1), range(-2, most + 1)) == pairs


def test_it_calls_nothing_and_names_two_columns():
    many = PartitioningFunction(KEY, numbered_channels(500), np.arange(4096) % 500)
    few = PartitioningFunction(KEY, numbered_channels(16), np.arange(4096) % 16)
    for function in (many, few):
        sql = slot_fence_sql(function)
        words = set(re.findall(r"[A-Za-z_]\w*", sql))
        assert words <= {
            "slot",
            "channel",
            "AND",
            "OR",
            "IN",
            "CASE",
            "WHEN",
            "THEN",
            "ELSE",
            "END",
        }
        assert not re.search(r"(?<!IN )\w\(", sql)
        assert len(sql) < 50_000
    assert "CASE" not in slot_fence_sql(few)


def test_the_text_is_known():
    """Tables have it as their constraint: text that changes is a fence that no job knows."""
    f = PartitioningFunction(
        KEY, numbered_channels(3), np.array([0, 1, 0, 1]), np.array([6]), np.array([2])
    )
    assert slot_fence_sql(f) == (
        "(channel = 0 AND slot IN (0, 2)) OR (channel = 1 AND slot IN (1, 3)) OR "
        "(channel = 2 AND slot IN (2))"
    )
