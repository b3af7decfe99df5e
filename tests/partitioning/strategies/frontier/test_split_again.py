"""frontier with splitting, planned again: what does not need to move stays."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import successor
from partitioning.moves.moves import moves_between
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf, zipf_profile
from partitioning.workload.metrics import imbalance_of, moved_shares
from partitioning.workload.profile import profile_of_keys
from tests.support.planning.problems import Instance, problems
from tests.support.reached import must_reach, reach


def moved(problem: Instance, before, after) -> float:
    return float(moved_shares(before, after, problem.hashes) @ problem.state)


@must_reach("as many keys are split")
@settings(deadline=None, max_examples=100)
@given(problems(same_channels=True), st.sampled_from([None, 1.05, 1.5]))
def test_planning_again_on_unchanged_input_moves_nothing(problem, aim):
    p, channels = problem.profile, problem.channels
    once = frontier(p, problem.previous, channels, max_imbalance=aim, splitting=True)
    again = frontier(p, once, channels, max_imbalance=aim, splitting=True)
    if len(again.split) == len(once.split):  # whole keys may do by now
        reach("as many keys are split")
        assert moved(problem, once, again) == 0


@pytest.mark.parametrize("seed", [274, 281, 319])
def test_rounding_of_the_last_plan_does_not_move_again(seed):
    rng, count = np.random.default_rng(seed), 6 if seed % 2 else 24
    channels = tuple(Channel(str(i), 3.0 if i == 5 else 1.0) for i in range(count))
    load = np.append(rng.uniform(0.5, 0.9), rng.uniform(0.05, 0.45))
    profile = profile_of_keys(KEY, hashed_keys(2), load, 32, threshold=0.5, state=np.ones(2))
    once = frontier(profile, uniform(profile, None, channels), channels, splitting=True)
    again = frontier(profile, once, channels, splitting=True)
    assert moved_shares(once, again, profile.heavy).sum() == 0


def one_hot(share: float):
    """A key of that share, and 2,000 of a row each."""
    load = np.append(share, zipf(2000, 0.5) * (1 - share))
    return profile_of_keys(KEY, hashed_keys(2001), load, 512, threshold=0.05, state=np.ones(2001))


def planned(profile, before, channels, **options):
    """Owners of the split key, slots that moved, and the function."""
    after = frontier(profile, before, channels, splitting=True, **options)
    return len(after.split.channels), int((after.slots != before.slots).sum()), after


def test_slots_make_room_for_what_it_is_worth():
    profile, channels = one_hot(0.5), numbered_channels(8)
    before = uniform(profile, None, channels)
    found = [
        planned(profile, before, channels, max_imbalance=1.02, worth=worth)[:2]
        for worth in (0.0, 2.0, 10.0)
    ]
    assert found[0] == (8, 0) and found[1] == found[2] and found[1][0] == 4 and found[1][1] > 100
    # Of a budget, as much as it makes room for.
    owners, slots = zip(
        *(
            planned(profile, before, channels, max_imbalance=1.02, budget=budget)[:2]
            for budget in (200, 400, 1500)
        ),
        strict=True,
    )
    assert owners == (8, 6, 4) and slots[0] == 0 < slots[1] < slots[2]


@pytest.mark.parametrize("worth", [0.0, 0.1, 2.0, 4.0])
@pytest.mark.parametrize("copied", [0.0, 1.0])
def test_partials_that_are_gathered_and_copies_that_come_count_against_worth(worth, copied):
    """A key of 1.4 channels' load and most of the state is on 6 of 20 channels."""
    hashes, channels = hashed_keys(4000), numbered_channels(20)
    load, state = np.append(300.0, np.ones(3999)), np.append(40_000.0, np.ones(3999))
    profile = profile_of_keys(KEY, hashes, load, 1024, state=state, threshold=30.0)
    one = profile.heavy_load == 300.0
    mean, key = float(profile.bytes.sum()) / 20, int(profile.heavy[one][0])
    aims = {"max_imbalance": 1.02, "splitting": True, "worth": worth}
    # Its state is partials, or a build side's row, that each owner has all of.
    weighed = replace(profile, heavy_copy_bytes=np.where(one, copied * 40_000.0 / 6, 0.0))
    other = replace(weighed, load=profile.tail(profile.load, profile.heavy_load))
    light = replace(other, heavy_load=np.where(one, 0.0, profile.heavy_load))
    even = frontier(light, uniform(profile, None, channels), channels, max_imbalance=1.01)
    shares = {key: dict.fromkeys(range(6), 1.0)}
    now = successor(KEY, even, channels, even.slots, "x", None, {}, shares)
    after = frontier(weighed, now, channels, **aims)
    assert imbalance_of(after, weighed) <= 1.02
    size = sum(m.bytes for m in moves_between(now, after, weighed))
    # No more than over all channels, where no slot moves, but copies come to 14.
    fewer = 20 - len(after.split.channels)
    assert size <= fewer * worth * mean + copied * 14 * 40_000.0 / 6
    if not copied:
        # Nor than as it is now, where slots make some room.
        few = (6 - len(after.split.channels)) * worth * mean
        assert worth == 0 or size <= few + 0.2 * mean
        assert (len(after.split.channels) < 6) == (worth == 4)


def test_what_must_move_anyway_is_not_weighed_against_copies():
    profile = one_hot(0.5)
    before = uniform(profile, None, numbered_channels(16))
    channels = numbered_channels(8)
    spread, forced, _ = planned(profile, before, channels, max_imbalance=1.02, worth=0.0)
    owners, slots, _ = planned(profile, before, channels, max_imbalance=1.02)
    assert spread == 8 and owners < 8 and slots > forced > 0


def test_a_load_about_a_whole_number_of_channels_changes_no_owners():
    channels = numbered_channels(8)
    function = uniform(one_hot(0.5), None, channels)
    owners, moved = [], []
    for share in (0.499, 0.505, 0.499, 0.505):
        count, slots, function = planned(one_hot(share), function, channels, max_imbalance=1.001)
        owners.append(count)
        moved.append(slots)
    assert owners == [4, 5, 5, 5] and moved[0] > 20 * max(moved[1:])


def test_a_window_like_the_last_one_moves_little():
    rng, channels = np.random.default_rng(1), numbered_channels(50)
    hashes, shares = hashed_keys(20_000), zipf(20_000, 1.0)
    function, moved = uniform(zipf_profile(20, 1.0), None, channels), []
    for _ in range(2):
        profile = profile_of_keys(
            KEY,
            hashes,
            rng.poisson(shares * 1e7).astype(float),
            4096,
            state=np.ones(20_000),
            threshold=2e4,
            listed=function.explicit_keys,
        )
        _, slots, function = planned(profile, function, channels, max_imbalance=1.02)
        moved.append(slots)
    assert moved[0] > 400 and moved[1] <= 5


@pytest.mark.parametrize(("budget", "owners"), [(None, 2), (1e15, 2), (0, 4)])
def test_a_key_keeps_more_owners_than_allowed_only_where_the_budget_asks(budget, owners):
    load = np.append(np.ones(100), 900.0)
    profile = profile_of_keys(KEY, hashed_keys(101), load, 64, threshold=2.0)
    options = {"splitting": True, "max_imbalance": 1.05}
    before = frontier(profile, None, numbered_channels(4), **options)
    assert np.diff(before.split.starts).tolist() == [4]
    after = frontier(profile, before, before.channels, copies=2, budget=budget, **options)
    assert np.diff(after.split.starts).tolist() == [owners]


@settings(deadline=None, max_examples=150)
@given(problems(same_channels=True), st.floats(0, 0.2), st.integers(2, 3))
def test_whole_keys_get_no_more_owners_than_allowed_whatever_the_budget(problem, part, copies):
    budget = part * float(problem.state.sum())
    options = {"splitting": True, "max_imbalance": 1.05, "worth": 0.0}
    known = problem.profile, problem.previous, problem.channels
    after = frontier(*known, budget=budget, copies=copies, **options)
    assert np.diff(after.split.starts).max(initial=0) <= copies


@pytest.mark.parametrize(("loads", "aim"), [((11, 10, 9), 1.1), ((12, 9, 9), 1.2)])
def test_rounding_alone_splits_no_key(loads, aim):
    profile = profile_of_keys(KEY, hashed_keys(3), np.array(loads, float), 64, threshold=0.01)
    channels = [Channel(str(i), 0.1) for i in range(3)]
    assert not len(frontier(profile, None, channels, splitting=True, max_imbalance=aim).split)
