"""Partials and copies are moved as far as the budget pays for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import successor
from partitioning.moves.moves import moves_between
from partitioning.planning.plan import make_plan
from partitioning.strategies.frontier.split_keys.shares import affordable_shares
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import profile_of_keys
from tests.support.planning.hot_key import ROW, hot


@pytest.mark.parametrize("budget", [0, 100])
def test_without_a_previous_function_no_budget_binds(budget):
    load = np.append(300.0, np.ones(200))
    profile = profile_of_keys(KEY, hashed_keys(201), load, 64, state=load, threshold=2)
    channels = numbered_channels(4)
    free, held = (
        frontier(profile, None, channels, max_imbalance=1.02, splitting=True, budget=b)
        for b in (None, budget)
    )
    assert np.array_equal(free.slots, held.slots)
    assert free.split.weights == held.split.weights and len(held.split)


@pytest.mark.parametrize("budget", [0, 6, 7, 100])
def test_no_partial_moves_that_the_budget_does_not_pay_for(budget):
    """A share is counted for less than the partial that moves with the last of it."""
    profile, before = hot()
    split = make_plan(
        "t", profile, before, before.channels, max_imbalance=1.02, row=ROW, worth=0.0
    ).function
    (h,) = split.split.keys.tolist()
    weights = dict.fromkeys(range(5), 1.0) | {5: 1e-3}
    now = successor(KEY, split, split.channels, split.slots, "x", None, {}, {h: weights})
    plan = make_plan(
        "t", profile, now, now.channels, max_imbalance=1.02, row=ROW, budget=budget, copies=5
    )
    assert plan.bytes <= budget
    # Its row has 40 bytes, a partial a sixth of them.
    assert (5 not in plan.function.split.channels) == (budget >= 7)


def test_a_budget_that_does_not_pay_for_whole_keys_is_told_at_once():
    profile, before = hot()
    split = make_plan(
        "t", profile, before, before.channels, max_imbalance=1.02, row=ROW, worth=0.0
    ).function
    whole = make_plan("t", profile, split, split.channels, max_imbalance=1.02)
    assert not len(whole.function.split) and whole.bytes > 1
    with pytest.raises(InputError, match="making split keys whole takes .* bytes, over 1"):
        frontier(profile, split, split.channels, max_imbalance=1.02, budget=1)
    paid = frontier(profile, split, split.channels, max_imbalance=1.02, budget=whole.bytes)
    assert not len(paid.split)


def test_what_is_left_of_the_budget_once_keys_are_whole_moves_others():
    """Each of the key's partials has 5 bytes, and 7 of 8 go to its home."""
    profile, before = hot()
    (h,) = profile.heavy[profile.heavy_load == profile.heavy_load.max()].tolist()
    now = successor(
        KEY, before, before.channels, before.slots, "x", None, {}, {h: dict.fromkeys(range(8), 1.0)}
    )
    free = make_plan("t", profile, now, now.channels)
    assert free.bytes > 1000
    reached = []
    for budget in (35, 200, 1000):
        held = make_plan("t", profile, now, now.channels, budget=budget)
        assert 35 <= held.bytes <= budget and not len(held.function.split)
        reached.append(held.imbalance_after)
    assert reached[0] > reached[1] > reached[2] > free.imbalance_after
    with pytest.raises(InputError, match="making split keys whole takes 35 bytes, over 34"):
        make_plan("t", profile, now, now.channels, budget=34)
    fewer = now.channels[:7]
    with pytest.raises(InputError, match="whole takes 35 bytes, and channels that go .*, over 40"):
        frontier(profile, now, fewer, budget=40)


@pytest.mark.parametrize("budget", [0, 19, 20])
def test_no_key_is_whole_again_that_the_budget_does_not_pay_for(budget):
    """Of a key's 40 bytes half is the partial of an owner of a thousandth of it."""
    profile, before = hot()
    (h,) = profile.heavy[profile.heavy_load == profile.heavy_load.max()].tolist()
    weights = {3: 1.0, 5: 1e-3}
    now = successor(KEY, before, before.channels, before.slots, "x", None, {}, {h: weights})
    load = np.append(1e-3, zipf(2000, 0.5)) * 1e6
    light = profile_of_keys(
        KEY, hashed_keys(2001), load, 512, threshold=1e4, listed=np.array([h]),
        state=np.full(2001, 40.0),
    )  # fmt: skip
    plan = make_plan("t", light, now, now.channels, max_imbalance=2.0, row=ROW, budget=budget)
    assert plan.bytes <= budget and len(plan.function.split) == (budget < 20)


def test_no_copy_comes_that_the_budget_does_not_pay_for():
    profile, before = hot()
    one = profile.heavy == profile.heavy[profile.heavy_load.argmax()]
    profile = replace(profile, heavy_copy_bytes=np.where(one, 30.0, 0.0))
    reached = [5.0]
    for budget in (0, 29, 61, 95, 121, 151, None):
        aims = {"max_imbalance": 1.02, "row": ROW, "budget": budget, "worth": 0.0}
        plan = make_plan("t", profile, before, before.channels, **aims)
        most = 210 if budget is None else budget
        # Slots that make room for few owners are paid from the same budget.
        few = make_plan("t", profile, before, before.channels, **{**aims, "worth": 2.0})
        assert few.bytes <= (budget or np.inf)
        assert plan.bytes == 30 * max(len(plan.function.split.channels) - 1, 0) <= most
        reached.append(plan.imbalance_after)
        # Once more, from there.
        again = make_plan("t", profile, plan.function, before.channels, **aims)
        assert again.bytes <= most and again.imbalance_after <= plan.imbalance_after + 1e-6
    # Under a copy's bytes nothing is split; then the more the more even.
    assert reached[1] == reached[2] and np.all(np.diff(reached[2:]) < 0) and reached[-1] <= 1.02


weights = st.lists(st.sampled_from([0.0, 1e-4, 1.0, 2.0]), min_size=4, max_size=4)


@given(
    st.lists(
        st.tuples(
            weights,
            weights.filter(any),
            st.floats(1, 9),
            st.floats(0, 9),
            st.floats(0, 9),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=4,
    ),
    st.floats(0, 60),
)
def test_what_is_afforded_costs_no_more_than_the_budget(keys, budget):
    before, after = (np.array([k[i] for k in keys]) for i in range(2))
    before /= np.maximum(before.sum(axis=1, keepdims=True), 1.0)
    before = np.where(before.sum(axis=1, keepdims=True) > 0.99, before, 0.0)
    after /= after.sum(axis=1, keepdims=True)
    loads, copies, partials, closing = (np.array([k[i] for k in keys]) for i in range(2, 6))
    owners = np.count_nonzero(before, axis=1)
    had = np.maximum(owners + closing, 1)
    sizes = had * (copies + partials)
    found = affordable_shares(before, after, had, loads, sizes, copies, budget)
    assert found.sum(axis=1) == pytest.approx(1.0) and found.min() >= 0
    new = np.count_nonzero((before == 0) & (found > 0), axis=1)
    gone = np.count_nonzero((before > 0) & (found == 0), axis=1)
    # What is on channels that close moves at any price; where all do, so does the first copy.
    closed = owners == 0
    forced = float(partials @ (had - owners) + copies @ closed)
    paid = float(copies @ (new - closed) + partials @ gone)
    assert paid <= max(budget - forced, 0.0) + 1e-9


@pytest.mark.parametrize("budget", [0, 200, 1500, 2000, 2200, None])
def test_on_the_way_to_fewer_copies_no_plan_is_worse_than_what_is(budget):
    """A key of 4,000 bytes is on four channels, and is to be on two."""
    hashes, channels = np.arange(1, 400) * 7919, numbered_channels(4)
    load, state = np.append(260.0, np.ones(398)), np.append(4000.0, np.ones(398))
    profile = profile_of_keys(KEY, hashes, load, 64, state=state, threshold=20.0)
    slots = uniform(profile, None, channels).slots
    four = {int(hashes[0]): dict.fromkeys(range(4), 1.0)}
    now = successor(KEY, None, channels, slots, "x", None, {}, four)
    plan = make_plan(
        "t", profile, now, channels, max_imbalance=1.1, row=ROW, budget=budget, copies=2
    )
    reached = len(plan.function.split.channels) == 2
    assert reached == (budget in (2200, None))
    assert plan.imbalance_before < plan.imbalance_after <= 1.1 if reached else plan.moves == ()


@pytest.mark.parametrize("copy", [0.0, 400.0])
@pytest.mark.parametrize("aim", [None, 1.5])
def test_the_partial_of_an_owner_that_closes_is_paid_for_first(copy, aim):
    """A key of 4,000 bytes is on four channels: each has 1,000, however small its share."""
    hashes, channels = np.arange(1, 400) * 7919, numbered_channels(4)
    load, state = np.append(400.0, np.ones(398)), np.append(4000.0, np.ones(398))
    profile = profile_of_keys(KEY, hashes, load, 64, state=state, threshold=20.0)
    one = profile.heavy == hashes[0]
    profile = replace(profile, heavy_copy_bytes=np.where(one, copy, 0.0))
    even = uniform(profile, None, channels).slots
    slots = np.where(even == 3, 0, even)
    shares = {int(hashes[0]): {0: 50.0, 1: 40.0, 2: 9.0, 3: 1.0}}
    now = successor(KEY, uniform(profile, None, channels), channels, slots, "x", None, {}, shares)
    drained = (*channels[:3], Channel("3", 0.0))
    for budget in (0, 1000 - copy - 10):
        with pytest.raises(InputError, match="emptying the channels that go, and"):
            make_plan("t", profile, now, drained, max_imbalance=aim, row=ROW, budget=budget)
    for budget in (1000 - copy, 1100, 3000):
        plan = make_plan("t", profile, now, drained, max_imbalance=aim, row=ROW, budget=budget)
        assert 1000 - copy <= plan.bytes <= budget


def test_a_key_that_must_be_whole_or_leave_all_its_channels_is_paid_for_in_full():
    profile, before = hot()
    (h,) = profile.heavy[profile.heavy_load == profile.heavy_load.max()].tolist()
    shares = {h: {6: 3.0, 7: 1.0}}
    slots = before.slots % 6
    now = successor(KEY, before, before.channels, slots, "x", None, {}, shares)
    fewer = before.channels[:6]
    for options, forced in (({}, 40.0), ({"pinned": {"0": "2"}}, 40.0)):
        for budget in (0, forced - 1):
            with pytest.raises(InputError, match="pinned keys, takes 40 bytes"):
                frontier(profile, now, fewer, budget=budget, splitting=True, **options)
        after = frontier(profile, now, fewer, budget=forced, splitting=True, **options)
        moves = moves_between(now, after, profile)
        assert sum(m.bytes for m in moves) == pytest.approx(forced)
