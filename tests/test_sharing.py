"""frontier with splitting: keys too heavy to stay whole fill the room that the others leave."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.dicer import WORKERS, chaos
from partitioning.errors import InputError
from partitioning.function import Channel, numbered_channels
from partitioning.generator import KEY, hashed_keys, zipf, zipf_profile
from partitioning.metrics import channel_loads, imbalance, moved_shares
from partitioning.profile import profile_of_keys
from partitioning.strategies.curve import CLOSE
from partitioning.strategies.frontier import frontier
from partitioning.strategies.hashing import uniform
from tests.test_frontier import Problem, problems

#: The module, whose name in the package is that of its function.
module = sys.modules[frontier.__module__]


def reached(profile, function) -> float:
    return imbalance(channel_loads(function, profile), function.capacities)


def moved(problem: Problem, before, after) -> float:
    return float(moved_shares(before, after, problem.hashes) @ problem.state)


@settings(deadline=None, max_examples=100)
@given(problems(same_channels=True), st.sampled_from([None, 1.0, 1.1, 1.5]), st.floats(0, 1))
def test_it_is_at_least_as_even_as_whole_keys_and_keeps_the_budget(problem, aim, part):
    p, previous, channels = problem.profile, problem.previous, problem.channels
    budget = part * float(problem.state.sum())
    split = frontier(p, previous, channels, max_imbalance=aim, splitting=True)
    whole = frontier(p, previous, channels, max_imbalance=aim)
    assert reached(p, split) <= max(reached(p, whole), aim or 1.0) * (1 + 2 * CLOSE)
    if reached(p, whole) <= (aim or 0):
        assert not len(split.split), "what whole keys reach, they reach"
    for before in (previous, split):
        limited = frontier(p, before, channels, max_imbalance=aim, budget=budget, splitting=True)
        assert moved(problem, before, limited) <= budget * (1 + 1e-9) + 1e-9
        assert reached(p, limited) <= reached(p, before) * (1 + 1e-6)


def test_of_all_that_a_budget_was_tried_on_the_most_even_is_taken(monkeypatch):
    real, several = module._shared, 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        load = zipf(300, random.uniform(1, 2.5))
        profile = profile_of_keys(KEY, hashed_keys(300, seed), load, 64, threshold=0.005)
        before = uniform(profile, None, numbered_channels(int(random.integers(3, 7))))
        tried = []

        def spied(*given, tried=tried):
            found = real(*given)
            tried.append(found[0])
            return found

        monkeypatch.setattr(module, "_shared", spied)
        budget = float(profile.bytes.sum()) * random.uniform(0.05, 0.3)
        after = frontier(profile, before, before.channels, budget=budget, splitting=True)
        several += len(tried) > 1
        assert reached(profile, after) <= min(tried) * (1 + 1e-6)
    assert several > 6


def test_half_of_all_load_on_one_key_comes_even():
    load = np.append(1.0, zipf(2000, 0.5))
    profile = profile_of_keys(KEY, hashed_keys(2001), load, 512, threshold=0.9)
    channels = (Channel("a", 2.0), *numbered_channels(4), Channel("closed", 0.0))
    before = uniform(profile, None, channels)
    after = frontier(profile, before, channels, splitting=True)
    assert len(after.split) == 1
    assert reached(profile, after) <= 1 + 2 * CLOSE
    assert reached(profile, frontier(profile, before, channels)) > 1.4
    again = frontier(profile, after, channels, splitting=True)
    assert moved_shares(after, again, profile.heavy).max() < 1e-6  # shares are whole parts of 2^24
    # Light again, it is whole again, where most of it was.
    light = profile_of_keys(KEY, hashed_keys(2001), np.append(1e-3, load[1:]), 512, threshold=0.9)
    calm = frontier(light, after, channels, splitting=True)
    assert not len(calm.split)
    owner = int(calm.lookup_hashes(profile.heavy)[0])
    assert owner == after.split.homes[0]


@pytest.mark.parametrize("copies", range(2, 9))
def test_no_more_channels_share_a_key_than_are_allowed(copies):
    load = np.append([4.0, 1.9, 0.7, 0.6], zipf(2000, 0.5) * 8)
    profile = profile_of_keys(KEY, hashed_keys(2004), load, 512, threshold=0.5)
    before = uniform(profile, None, numbered_channels(8))
    options = {"max_imbalance": 1.01, "splitting": True}
    any_number = frontier(profile, before, before.channels, **options)
    assert reached(profile, any_number) <= 1.01
    after = frontier(profile, before, before.channels, copies=copies, **options)
    assert np.diff(after.split.starts).max() <= copies
    # A channel's fair share is 1.9: two hold no more than 3.8 of the heaviest.
    assert (reached(profile, after) <= 1.01) == (copies > 2)
    again = frontier(profile, after, before.channels, copies=copies, **options)
    assert np.diff(again.split.starts).max() <= copies


@pytest.mark.parametrize("options", [{"copies": 1, "splitting": True}, {"copies": 3}])
def test_copies_are_two_or_more_of_split_keys(options):
    with pytest.raises(InputError, match="copies: .*Give 2 or more"):
        frontier(zipf_profile(20, 1.0, slots=64), None, numbered_channels(2), **options)


def test_keys_that_do_not_pack_are_split_too():
    # Three keys of two thirds of a channel: whole, one channel has two of them.
    profile = profile_of_keys(KEY, hashed_keys(3), np.ones(3), 64, threshold=0.5)
    before = uniform(profile, None, numbered_channels(2))
    after = frontier(profile, before, numbered_channels(2), splitting=True)
    assert reached(profile, after) <= 1 + 2 * CLOSE
    assert len(after.split) == 1


def test_it_is_for_one_resource():
    profile = zipf_profile(20, 1.0, slots=64)
    with pytest.raises(InputError, match="resources: splitting evens out one"):
        frontier(profile, None, numbered_channels(2), resources="LC", splitting=True)


def test_the_chaos_test_of_dicer():
    """Its bounds hold a tenth as wide; `make papers` runs 1,000 rounds."""
    rounds = list(chaos(60, 1.005))
    overload = np.percentile([r.overload for r in rounds], [50, 90, 99])
    assert (overload <= [0.005, 0.01, 0.02]).all()
    assert all(r.least - 1e-9 <= r.moved < 0.6 for r in rounds)
    assert {r.copies for r in rounds} <= {0, *range(2, WORKERS + 1)}
