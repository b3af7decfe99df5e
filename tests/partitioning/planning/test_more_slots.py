"""Plans that split slots: what moves, what it weighs, and how far rows know of it."""

from dataclasses import replace

import numpy as np
import pytest

from evenkeel.quality.gates import plan_gate
from partitioning.errors import InputError
from partitioning.function.channels import numbered_channels
from partitioning.planning.batches import BatchLimit, stops
from partitioning.planning.decide import Policy, decide
from partitioning.planning.plan import Plan, make_plan, plan_for
from partitioning.strategies import PRODUCTION
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys
from partitioning.workload.metrics import channel_loads, channel_sums
from partitioning.workload.profile import profile_of_keys

#: Rows' slots, and those to be.
OLD, NEW = 16, 48
CHANNELS = numbered_channels(5)
#: One more, so that plans have moves.
MORE = numbered_channels(6)
HASHES = hashed_keys(2000)
LOAD = np.random.default_rng(5).permutation(1e5 / np.arange(1, 2001) ** 0.7)
SIZE = np.random.default_rng(6).integers(10, 500, 2000).astype(float)


def profile(slots, threshold=3e3):
    return profile_of_keys(KEY, HASHES, LOAD, slots, state=SIZE, threshold=threshold)


@pytest.fixture
def before():
    """A function of few slots with heavy keys of their own, as epoch 3."""
    first = uniform(profile(OLD), None, CHANNELS)
    made = make_plan("t", profile(OLD), first, CHANNELS).function
    assert len(made.explicit_keys)
    return replace(made, epoch=3)


def weighed(previous, function):
    """Bytes of the keys that change their channel, each for itself."""
    return SIZE[previous.lookup_hashes(HASHES) != function.lookup_hashes(HASHES)].sum()


@pytest.mark.parametrize("strategy", sorted(PRODUCTION))
def test_a_plan_of_any_strategy_moves_between_channels_alone(before, strategy):
    known = profile(NEW)
    plan = make_plan("t", known, before, MORE, strategy=strategy)
    function = plan.function
    assert (len(function.slots), function.row_slots) == (NEW, OLD)
    assert (function.epoch, function.parent) == (4, before.digest) == (4, plan.parent_digest)
    assert 0 < plan.bytes == pytest.approx(weighed(before, function))
    assert plan_gate(plan, before, profile=known, going_back=strategy != "frontier").success
    assert Plan.from_bytes(plan.to_bytes()).digest == plan.digest
    assert np.allclose(plan.loads_before[:5], channel_loads(before, profile(OLD)))


def test_more_slots_are_more_even(before):
    known = [profile(n, threshold=np.inf) for n in (OLD, 16 * OLD)]
    few, more = (make_plan("t", p, before.unsplit, MORE) for p in known)
    assert more.imbalance_after < few.imbalance_after - 0.03
    policy = Policy(trigger=1.0, max_imbalance=None, horizon=28)
    few, more = (decide(p, before, MORE, policy).reachable for p in known)
    assert more < few - 0.03


def test_each_stop_places_a_key_as_before_or_as_planned(before):
    plan = make_plan("t", profile(NEW), before, MORE)
    assert any(m.kind == "slot" and m.item >= OLD for m in plan.moves)
    found = stops(plan, before, BatchLimit(plan.bytes / 6))
    assert len(found) > 2
    places = {f.row_slots for f in found}
    assert places == {OLD}
    old, new = before.lookup_hashes(HASHES), plan.function.lookup_hashes(HASHES)
    for stop in found:
        at = stop.lookup_hashes(HASHES)
        assert ((at == old) | (at == new)).all()


def test_a_way_back_to_fewer_slots_keeps_the_slots(before):
    there = make_plan("t", profile(NEW), before, MORE).function
    back = plan_for("t", profile(NEW), there, before, reason="back to epoch 3")
    assert (len(back.function.slots), back.function.row_slots) == (NEW, OLD)
    assert (back.function.lookup_hashes(HASHES) == before.lookup_hashes(HASHES)).all()
    assert 0 < back.bytes == pytest.approx(weighed(before, there))
    assert back.parent_digest == there.digest
    # As far as rows know, also of a function that was made from nothing.
    fresh = uniform(profile(NEW), None, CHANNELS)
    assert (fresh.row_slots, plan_for("t", profile(NEW), before, fresh).function.row_slots) == (
        NEW,
        OLD,
    )
    # With nothing to move, slots alone are split.
    none = plan_for("t", profile(NEW), before, before)
    assert (none.moves, len(none.function.slots)) == ((), NEW)


def test_a_profile_of_other_slots_is_fitted(before):
    exact = np.bincount(before.lookup_hashes(HASHES), LOAD, 5)
    assert np.allclose(channel_loads(before, profile(NEW)), exact)
    there = make_plan("t", profile(NEW), before, CHANNELS).function
    spread = channel_loads(there, profile(OLD))
    assert spread.sum() == pytest.approx(exact.sum())
    # Each part of a slot counts as much as the others.
    one = np.zeros(OLD)
    one[3] = 6.0
    parts = channel_sums(there, profile(OLD), one, np.zeros(len(profile(OLD).heavy)))
    assert np.allclose(parts, np.bincount(there.slots[[3, 3 + OLD, 3 + 2 * OLD]], minlength=5) * 2)


def test_a_profile_of_slots_that_are_no_multiple_is_refused(before):
    for slots in (8, 24, 40):
        with pytest.raises(InputError, match=f"16 slots in force, got {slots}. Learn again"):
            make_plan("t", profile(slots), before, CHANNELS)
