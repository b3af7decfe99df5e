"""Partials: where they belong, what goes where as owners change, and plans that split keys."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioning.errors import InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import successor
from partitioning.moves.moves import moves_between
from partitioning.moves.partial_rows import flows, shared_keys
from partitioning.planning.batches import BatchLimit, stops
from partitioning.planning.decide import Pace, Policy, decide
from partitioning.planning.plan import Plan, make_plan, plan_for
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.metrics import channel_loads, imbalance, placements
from partitioning.workload.profile import Profile, profile_of_keys
from tests.support.planning.hot_key import CHANNELS, ROW, hot, owners
from tests.support.reached import must_reach, reach


def function(split, explicit=None, epoch=0):
    """Keys by hash with their owners' weights; slot s of 6 is channel s."""
    return successor(
        KEY, None, numbered_channels(CHANNELS), np.arange(CHANNELS), "x", None, explicit, split
    )


@given(st.lists(st.tuples(owners, owners), min_size=1, max_size=4))
def test_flows_lead_from_one_to_the_other_and_every_partial_ends_on_an_owner(keys):
    before, after = (function(dict(enumerate(side))) for side in zip(*keys, strict=True))
    hashes = np.arange(len(keys))
    had, has = (np.zeros((len(keys), CHANNELS)) for _ in range(2))
    for shares, f in ((had, before), (has, after)):
        item, channel, share = placements(f, hashes)
        shares[item, channel] = share
    homes = after.lookup_hashes(hashes)
    found = list(flows(before, after, hashes))
    assert len(found) == len(keys)
    for k, ways in enumerate(found):
        reached = had[k].copy()
        for way in ways:
            assert way.source != way.target and (way.share > 0 or way.partials)
            reached[way.source] -= way.share
            reached[way.target] += way.share
            assert way.partials == (way.target == homes[k] and not has[k, way.source])
        assert reached == pytest.approx(has[k], abs=1e-12)
        assert sorted(w.target for w in ways if w.copies) == [
            c for c in range(CHANNELS) if has[k, c] and not had[k, c]
        ]
        gone = {c for c in range(CHANNELS) if had[k, c] and not has[k, c]}
        assert gone == {w.source for w in ways if w.partials}
        assert len({(w.source, w.target) for w in ways}) == len(ways)


@pytest.mark.parametrize(
    ("limits", "owners"),
    [({}, 4), ({"copies": 5}, 4), ({"copies": 5, "worth": 0.0}, 5), ({"worth": 0.0}, 8)],
)
def test_half_of_the_load_on_one_key_comes_even_by_splitting_it_alone(limits, owners):
    profile, before = hot()
    plan = make_plan("t", profile, before, before.channels, max_imbalance=1.02, row=ROW, **limits)
    assert plan.imbalance_after <= 1.02 < 3 < plan.imbalance_before
    assert plan.floor == 1.0
    (h,) = plan.function.split.keys.tolist()
    assert profile.heavy_load[profile.heavy == h] == profile.heavy_load.max()
    # As few as can hold it, for which slots must move; or as many as have room, for which none has.
    assert len(plan.function.split.channels) == owners
    assert any(m.kind == "slot" for m in plan.moves) == (owners < 8)
    assert plan.bytes <= (0.5 if owners < 8 else 0.0) * float(profile.bytes.sum())
    assert plan.function.row == ROW
    shares = [m for m in plan.moves if m.kind == "share"]
    assert {m.item for m in shares} == {h}
    assert all("4.000 of a mean channel's load" in m.reason for m in shares)
    # Where it stands it stays: to split a key moves none of its state, but from a channel that
    # gets none of it.
    kept = before.lookup_hashes(np.array([h]))[0] in plan.function.split.channels
    assert sum(m.bytes for m in shares) == (0.0 if kept else 40.0)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))).digest == plan.digest
    # The curve tells what it costs, and its bound what it must.
    assert plan.curve[-1].imbalance == plan.imbalance_after
    assert all(p.imbalance > q.imbalance for p, q in zip(plan.curve, plan.curve[1:], strict=False))
    assert min(p.bytes for p in plan.bound) == 0.0


def test_whole_again_its_partials_move_to_its_home_and_are_counted():
    profile, before = hot()
    split = make_plan("t", profile, before, before.channels, max_imbalance=1.02, row=ROW).function
    (h,) = split.split.keys.tolist()
    copies = len(split.split.channels)
    one = profile.heavy == h
    grown = replace(
        profile,
        heavy_rows=np.where(one, copies, profile.heavy_rows),
        heavy_bytes=np.where(one, copies * 40.0, profile.heavy_bytes),
    )
    back = plan_for("t", grown, split, before, splitting=True)
    joined = [m for m in back.moves if m.kind == "share" and m.bytes]
    assert {m.target for m in joined} == {before.lookup_hashes(np.array([h]))[0]}
    assert {m.source for m in joined} == set(split.split.channels.tolist()) - {joined[0].target}
    assert all(m.bytes == pytest.approx(40.0) and m.rows == 1 for m in joined)
    assert sum(m.share for m in back.moves if m.kind == "share") == pytest.approx(
        1
        - dict(zip(split.split.channels.tolist(), split.split.shares / 2**24, strict=True)).get(
            joined[0].target, 0.0
        )
    )
    assert all("one channel holds it again" in m.reason for m in joined)


def test_copies_are_paid_for_by_each_new_owner_and_taken_away_for_nothing():
    profile, before = hot()
    one = profile.heavy == profile.heavy[profile.heavy_load.argmax()]
    # Of the key's 40 bytes 30 are a row that every owner has a copy of.
    profile = replace(
        profile,
        heavy_rows=np.where(one, 2.0, 1.0),
        heavy_copy_bytes=np.where(one, 30.0, 0.0),
        heavy_copy_rows=np.where(one, 1.0, 0.0),
    )
    (h,) = profile.heavy[one].tolist()
    start = int(before.lookup_hashes(np.array([h]))[0])
    shared = successor(
        KEY, before, before.channels, before.slots, "x", None, {},
        {h: {start: 2.0, (start + 1) % 8: 1.0, (start + 2) % 8: 1.0}},
    )  # fmt: skip
    moves = moves_between(before, shared, profile)
    assert [(m.bytes, m.rows) for m in moves] == [(30.0, 1.0), (30.0, 1.0)]
    # Three copies and two partials, by now.
    grown = replace(
        profile,
        heavy_bytes=np.where(one, 3 * 30.0 + 2 * 12.0, 40.0),
        heavy_rows=np.where(one, 5.0, 1.0),
    )
    back = moves_between(shared, before, grown)
    assert [(m.bytes, m.rows) for m in back] == [(8.0, pytest.approx(2 / 3))] * 2
    # To a channel that was no owner: the copy goes there once, and the partials all do.
    away = successor(
        KEY, before, before.channels, before.slots, "x", None, {h: (start + 3) % 8}, {}
    )
    there = moves_between(shared, away, grown)
    assert sum(m.bytes for m in there) == 30.0 + 3 * 8.0 and len(there) == 3
    with pytest.raises(InputError, match="heavy_copy_bytes must be one a heavy key"):
        replace(profile, heavy_copy_bytes=np.zeros(1))


def test_a_profile_of_before_there_were_copies_has_none():
    profile, _ = hot()
    with np.load(io.BytesIO(profile.to_bytes())) as archive:
        old = {name: archive[name] for name in archive.files if "copy" not in name}
    assert len(archive.files) == len(old) + 2
    buffer = io.BytesIO()
    np.savez(buffer, **old)
    read = Profile.from_bytes(buffer.getvalue())
    assert read.heavy_copy_bytes.tolist() == [0.0] * len(profile.heavy)
    assert read.heavy_copy_rows.tolist() == [0.0] * len(profile.heavy)


def test_a_light_key_is_whole_again_by_the_next_plan_and_other_strategies_are_held_to_frontier():
    profile, before = hot()
    split = make_plan("t", profile, before, before.channels, max_imbalance=1.02, row=ROW).function
    load = np.append(1e-3, zipf(2000, 0.5)) * 1e6
    light = profile_of_keys(
        KEY, hashed_keys(2001), load, 512, threshold=1e4, listed=split.split.keys
    )
    for row in (ROW, None):
        calm = make_plan("t", light, split, split.channels, max_imbalance=1.02, row=row)
        assert not len(calm.function.split)
        assert calm.imbalance_after <= 1.02
        assert any(m.kind == "share" for m in calm.moves)
    other = make_plan("t", profile, before, before.channels, strategy="sbr", row=ROW)
    assert len(other.function.split) and other.imbalance_after > other.curve[-1].imbalance


def test_without_a_row_column_no_key_is_split():
    profile, before = hot()
    plan = make_plan("t", profile, before, before.channels, max_imbalance=1.02)
    assert not len(plan.function.split) and plan.imbalance_after > 3
    with pytest.raises(InputError, match="sbr splits keys, and the spec does not allow it"):
        make_plan("t", profile, before, before.channels, strategy="sbr")


def test_to_split_is_worth_a_rebalance_where_whole_keys_cannot_be_more_even():
    profile, before = hot()
    even = make_plan("t", profile, before, before.channels, max_imbalance=1.02).function
    policy = Policy(1.1, 1.02, 28)
    whole = decide(profile, even, even.channels, policy)
    assert not whole.rebalance and "cannot be improved on (floor 4.000)" in whole.reason
    split = decide(profile, even, even.channels, replace(policy, splitting=True))
    assert split.rebalance and split.reachable <= 1.02 and split.floor == 1.0
    after = make_plan("t", profile, even, even.channels, max_imbalance=1.02, row=ROW).function
    assert not decide(profile, after, after.channels, replace(policy, splitting=True)).rebalance


def test_where_room_for_a_key_costs_more_than_it_saves_it_is_shared_without():
    profile, before = hot()
    saving = Policy(1.1, 1.02, 28, 1e-6, Pace(1e9), splitting=True)
    found = decide(profile, before, before.channels, saving)
    assert found.rebalance and found.worth is None and found.bytes > 0
    dear = replace(saving, pace=Pace(1.0))
    found = decide(profile, before, before.channels, dear)
    assert found.rebalance and found.worth == 0.0 and found.bytes == 0
    # Where nothing that it could do pays, it does nothing; nor under the trigger.
    idle = replace(dear, pace=Pace(1.0, least_seconds=1e9))
    found = decide(profile, before, before.channels, idle)
    assert not found.rebalance and found.worth is None and "saves" in found.reason
    assert not decide(profile, before, before.channels, replace(dear, trigger=9.0)).rebalance


def test_in_batches_split_keys_come_last():
    profile, before = hot()
    plan = make_plan("t", profile, before, numbered_channels(6), max_imbalance=1.02, row=ROW)
    assert len(plan.function.split) == 1
    way = stops(plan, before, BatchLimit(plan.bytes / 4))
    assert len(way) >= 2 and not any(len(f.split) for f in way)
    back = plan_for("t", profile, plan.function, before)
    assert not any(len(f.split) for f in stops(back, plan.function, BatchLimit(back.bytes / 4)))


@must_reach("a stop on the way")
@given(st.integers(0, 10**6), st.integers(2, 12))
@settings(max_examples=40)
def test_in_batches_no_channel_is_fuller_before_split_keys_come(seed, parts):
    """Slots that make room, or take what is left, wait for the partials that do."""
    rng = np.random.default_rng(seed)
    _, before = hot(400)
    for _ in range(3):
        load = rng.permutation(1 / np.arange(1, 401) ** rng.uniform(0.8, 1.8)) * 1e6
        profile = profile_of_keys(
            KEY, hashed_keys(400), load, 512, threshold=1e4, state=rng.integers(1, 100, 400) * 1.0
        )
        plan = make_plan("t", profile, before, before.channels, max_imbalance=1.02, row=ROW)
        listed = profile.listing(
            np.unique(np.concatenate([f.explicit_keys for f in (before, plan.function)]))
        )
        shared = shared_keys(before, plan.function)
        listed = listed.listing(shared)
        ends = [channel_loads(f, listed).max() for f in (before, plan.function)]
        way = stops(plan, before, BatchLimit(plan.bytes / parts))
        for stop in way:
            reach("a stop on the way")
            # Rows of keys that are split, or shall be, are where they were.
            keys = np.setdiff1d(np.union1d(stop.explicit_keys, shared), before.split.keys)
            at = np.where(np.isin(keys, shared), *(f.lookup_hashes(keys) for f in (before, stop)))
            now = replace(stop, split=before.split, explicit_keys=keys, explicit_channels=at)
            loads = channel_loads(now, listed)
            assert loads.max() <= max(ends) * (1 + 1e-6)
        before = plan.function


def test_loads_follow_the_moves():
    profile, before = hot()
    plan = make_plan("t", profile, before, before.channels, max_imbalance=1.02, row=ROW)
    loads = channel_loads(before, profile)
    for move in moves_between(before, plan.function, profile):
        loads[move.source] -= move.load
        loads[move.target] += move.load
    assert loads == pytest.approx(channel_loads(plan.function, profile))
    assert imbalance(loads, before.capacities) == pytest.approx(plan.imbalance_after)
