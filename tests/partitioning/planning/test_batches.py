"""A migration in batches: each within its limit, no channel fuller on the way, every key at one
of its two places."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.function.channels import numbered_channels
from partitioning.function.hashing import KeyColumn
from partitioning.planning.batches import BatchLimit, _together, stops
from partitioning.planning.plan import Plan, make_plan, plan_for
from partitioning.strategies.hashing import consistent, uniform
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import profile_of_keys
from tests.support.reached import must_reach, reach

KEY = (KeyColumn("k", "string"),)


def a_plan(seed: int, count: int, strategy: str = "frontier", after: int = 0):
    """Zipf keys with state of random sizes: the profile, the function before, and a plan."""
    rng = np.random.default_rng(seed)
    load = rng.permutation(1 / np.arange(1, 401) ** 0.9) * 1e5
    keys = np.sort(rng.choice(2**62, 400, replace=False).astype(np.int64) - 2**61)
    size = rng.integers(1, 100, 400).astype(float)
    profile = profile_of_keys(KEY, keys, load, 32, state=size, threshold=800.0)
    previous = consistent(profile, None, numbered_channels(count))
    channels = numbered_channels(after or count)
    return profile, previous, make_plan("t", profile, previous, channels, strategy=strategy)


def steps(plan: Plan, previous, most):
    return [previous, *stops(plan, previous, BatchLimit(most)), plan.function]


def moved(one, other, profile):
    """Bytes between two functions: of slots' tails and of heavy keys."""
    tails = profile.tail(profile.bytes, profile.heavy_bytes)
    keys = one.lookup_hashes(profile.heavy) != other.lookup_hashes(profile.heavy)
    return tails[one.slots != other.slots].sum() + profile.heavy_bytes[keys].sum()


@given(
    st.integers(0, 30),
    st.integers(2, 7),
    st.sampled_from(["frontier", "uniform", "redist"]),
    st.integers(-1, 1),
)
def test_batches_keep_to_their_limit_and_leave_no_channel_fuller(seed, count, strategy, more):
    after = max(1, count + more)
    profile, previous, plan = a_plan(seed, count, strategy, after)
    profile = profile.listing(np.union1d(previous.explicit_keys, plan.function.explicit_keys))
    most = max(plan.bytes / 5, 1.0)
    way = steps(plan, previous, most)
    wide = max(count, after)

    def loads(function):
        found = channel_loads(function, profile)
        return np.pad(found, (0, wide - len(found)))

    open_ = slice(0, after)
    limit = max(loads(previous)[open_].max(), loads(plan.function)[open_].max())
    largest = max((m.bytes for m in plan.moves), default=0.0)
    total = 0.0
    for one, other in pairwise(way):
        size = moved(one, other, profile)
        # A swap or chain may be larger than the limit, but it is made of few moves.
        assert size <= max(most, 4 * largest) * (1 + 1e-9)
        assert loads(other)[open_].max() <= limit * (1 + 1e-6)
        total += size
    assert total == pytest.approx(plan.bytes)


@must_reach("a batch that is limited")
@given(st.integers(0, 30), st.integers(3, 7), st.integers(1, 5), st.integers(0, 3))
def test_batches_keep_to_so_many_files_and_rows(seed, count, files, spread):
    profile, previous, plan = a_plan(seed, count, "frontier", count + 1)
    tasks = [1 + (c * spread) % 3 for c in range(count + 1)]
    rows = sum(m.rows for m in plan.moves) / 3
    left = {(m.kind, m.item): m for m in plan.moves}
    together = [{id(m) for m in batch} for batch in _together(plan, by_way=True)]
    way = [*stops(plan, previous, BatchLimit(rows=rows, files=files), tasks), plan.function]
    at, slots = previous, np.arange(profile.slots)
    for stop in way:
        made = [left.pop(("slot", s)) for s in slots[at.slots != stop.slots].tolist()]
        keys = [h for kind, h in left if kind == "key"]
        goes = at.lookup_hashes(keys) != stop.lookup_hashes(keys)
        made += [left.pop(("key", h)) for h, gone in zip(keys, goes, strict=True) if gone]
        pairs = {(m.source, m.target) for m in made}
        # What has to be made together is, however much it is: a swap, a chain.
        if {id(m) for m in made} not in together:
            reach("a batch that is limited")
            assert sum(tasks[source] for source, _ in pairs) <= files
            assert sum(m.rows for m in made) <= rows * (1 + 1e-9)
        at = stop
    assert not left


def test_every_key_stands_at_one_of_its_two_places_and_moves_once():
    profile, previous, plan = a_plan(3, 5)
    way = steps(plan, previous, plan.bytes / 20)
    assert len(way) > 5
    rng = np.random.default_rng(1)
    keys = np.concatenate([profile.heavy, rng.integers(-(2**63), 2**63 - 1, 5000)])
    places = np.array([f.lookup_hashes(keys) for f in way])
    assert ((places == places[0]) | (places == places[-1])).all()
    assert (np.diff(places, axis=0) != 0).sum(axis=0).max() == 1


def test_one_batch_where_the_limit_is_wide_and_none_where_nothing_moves():
    profile, previous, plan = a_plan(3, 5)
    assert len(stops(plan, previous, BatchLimit(plan.bytes))) == 0
    still = plan_for("t", profile, previous, previous)
    assert len(stops(still, previous, BatchLimit(1.0))) == 0


def test_few_files_a_commit_take_hardly_more_commits_than_there_are_pairs_of_channels():
    rng, count = np.random.default_rng(7), 10
    keys = np.sort(rng.choice(2**62, 20_000, replace=False).astype(np.int64))
    load = rng.permutation(1 / np.arange(1, 20_001) ** 0.9) * 1e5
    profile = profile_of_keys(KEY, keys, load, 1024, threshold=load.sum() / count / 20)
    previous = consistent(profile, None, numbered_channels(count))
    plan = plan_for("t", profile, previous, uniform(profile, None, numbered_channels(count)))
    pairs = {(m.source, m.target) for m in plan.moves}
    assert len(plan.moves) > 10 * len(pairs)
    way = stops(plan, previous, BatchLimit(files=1))
    assert len(pairs) <= len(way) + 1 < 1.25 * len(pairs)
    # Made when asked for, and the same each time.
    assert way[3] is not way[3] and way[3].digest == way[::-1][-4].digest


def test_a_heavy_key_and_its_slot_may_move_apart():
    profile, previous, _ = a_plan(5, 4)
    plan = plan_for("t", profile, previous, uniform(profile, None, numbered_channels(4)))
    assert not len(plan.function.explicit_keys)
    way = steps(plan, previous, 1.0)
    assert {m.kind for m in plan.moves} == {"key", "slot"}
    total = sum(moved(a, b, profile) for a, b in pairwise(way))
    assert total == pytest.approx(plan.bytes)


def test_state_without_bytes_keeps_to_the_limit_of_rows():
    keys = np.sort(np.random.default_rng(1).choice(2**62, 400, replace=False).astype(np.int64))
    load = np.random.default_rng(2).permutation(1 / np.arange(1, 401) ** 0.9) * 1e5
    profile = profile_of_keys(KEY, keys, load, 32, threshold=800.0)
    profile = replace(profile, bytes=profile.bytes * 0, heavy_bytes=profile.heavy_bytes * 0)
    previous = consistent(profile, None, numbered_channels(4))
    plan = plan_for("t", profile, previous, uniform(profile, None, numbered_channels(5)))
    rows = sum(m.rows for m in plan.moves)
    assert plan.bytes == 0 and len(stops(plan, previous, BatchLimit(rows=rows / 3))) >= 2
