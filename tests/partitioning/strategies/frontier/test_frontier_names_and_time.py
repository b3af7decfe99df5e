"""Frontier: keys put by hand or left out, light explicit keys, and a limit on time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from benchmarks.planning.own_bytes import CLOSE, moved
from partitioning.errors import InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.planning.plan import make_plan
from partitioning.strategies.frontier.problem import Problem
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import consistent, uniform
from partitioning.streams.zipf_stream import (
    KEY,
    hashed_keys,
    zipf,
    zipf_profile,
)
from partitioning.workload.metrics import channel_loads, imbalance, imbalance_of
from partitioning.workload.profile import Profile, profile_of_keys
from tests.support.planning.problems import SLOTS, by_hand, problems


@given(problems(same_channels=True))
def test_planning_again_on_unchanged_input_moves_nothing(problem):
    once = frontier(problem.profile, problem.previous, problem.channels)
    again = make_plan("t", problem.profile, once, problem.channels)
    assert again.moves == ()


def named(count: int = 200) -> tuple[Profile, PartitioningFunction, np.ndarray]:
    """Bigint keys 0, 1, ... of Zipf loads, the heavy ones listed, on 3 channels."""
    hashes = hashed_keys(count)
    profile = profile_of_keys(KEY, hashes, zipf(count, 0.8), SLOTS, threshold=0.01)
    return profile, consistent(profile, None, numbered_channels(3)), hashes


@pytest.mark.parametrize("resources", ["L", "LC"])
def test_pinned_and_excluded_keys_are_where_they_shall_be(resources):
    profile, previous, hashes = named()
    free = frontier(profile, previous, numbered_channels(3), resources=resources)
    moved = np.flatnonzero(previous.lookup_hashes(hashes) != free.lookup_hashes(hashes))
    stay, put = moved[:3], [int(k) for k in (0, 1, 199)]
    pinned = {str(k): str((int(previous.lookup_hashes(hashes[[k]])[0]) + 1) % 3) for k in put}
    excluded = [str(k) for k in stay if k not in put]
    function = frontier(
        profile,
        previous,
        numbered_channels(3),
        resources=resources,
        pinned=pinned,
        excluded=excluded,
    )
    for key, channel in pinned.items():
        assert function.lookup_hashes(hashes[[int(key)]])[0] == int(channel)
    kept = [int(k) for k in excluded]
    before, after = (f.lookup_hashes(hashes[kept]) for f in (previous, function))
    assert (before == after).all() and len(kept)
    again = PartitioningFunction.from_dict(function.to_dict())
    assert again.digest == function.digest
    without = frontier(profile, previous, numbered_channels(3), resources=resources)
    assert without.digest == free.digest


def test_an_excluded_key_leaves_a_channel_that_closes():
    profile, previous, hashes = named()
    on_last = np.flatnonzero(previous.lookup_hashes(hashes) == 2)[:3]
    excluded = [str(k) for k in on_last]
    function = frontier(profile, previous, numbered_channels(2), excluded=excluded)
    assert (function.lookup_hashes(hashes[on_last]) < 2).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pinned": {"1": "9"}}, "pinned: no open channel 9"),
        ({"pinned": {"one": "1"}}, "pinned: expected a key .key bigint., got 'one'"),
        ({"excluded": ["1 | 2"]}, "excluded: expected a key .key bigint., got '1 . 2'"),
        ({"seconds": 0}, "seconds"),
    ],
)
def test_names_that_are_not_there_are_refused(options, message):
    profile, previous, _ = named()
    with pytest.raises(InputError, match=message.replace("|", r"\|")):
        frontier(profile, previous, numbered_channels(3), **options)


def test_explicit_keys_that_are_light_by_now_go_back_to_their_slots():
    hashes, channels = hashed_keys(3000), numbered_channels(5)
    load = zipf(3000, 1.0)
    profile = profile_of_keys(KEY, hashes, load, 256, threshold=0.002)
    before = frontier(profile, uniform(profile, None, channels), channels)
    named = before.explicit_keys
    assert len(named) > 10
    # The heavy keys turn light, and what they leave behind, too; others are heavy now.
    turned = load[::-1].copy()
    later = profile_of_keys(KEY, hashes, turned, 256, threshold=0.002, listed=named)
    after = frontier(later, before, channels)
    assert not np.isin(named, after.explicit_keys).any()
    assert imbalance_of(after, later) < 1 + CLOSE
    again = frontier(later, after, channels)
    assert moved(later, after, again) == 0
    reasons = {m.reason for m in make_plan("t", later, before, channels).moves if m.kind == "key"}
    assert "it is light by now and goes back to its slot" in reasons
    # They stay where their state is much, where the budget is short, and where nothing moves.
    rich = profile_of_keys(KEY, hashes, turned, 256, state=load, threshold=0.002, listed=named)
    assert np.isin(named, frontier(rich, before, channels).explicit_keys).any()
    assert len(frontier(later, before, channels, budget=0).explicit_keys) == len(named)
    idle = frontier(later, before, channels, max_imbalance=5.0)
    assert len(idle.explicit_keys) == len(named)


@pytest.mark.parametrize(("z", "splitting"), [(0.8, {}), (1.5, {"splitting": True})])
def test_out_of_time_it_gives_the_best_so_far(z, splitting):
    profile = zipf_profile(20_000, z, threshold=0.0005)
    previous = uniform(profile, None, numbered_channels(10))

    def even(**options):
        function = frontier(profile, previous, numbered_channels(11), **splitting, **options)
        return imbalance_of(function, profile)

    start = imbalance(channel_loads(previous, profile), np.ones(10)) * 11 / 10
    assert even() <= even(seconds=1e-9) <= start
    # Weights fill what room there is without a search.
    assert splitting or even() < even(seconds=1e-9)
    assert even(seconds=60) == even()


def test_out_of_time_no_other_search_begins(monkeypatch):
    profile, walks = zipf_profile(20_000, 0.8, threshold=0.0005), []
    previous = uniform(profile, None, numbered_channels(10))
    once = Problem.search
    monkeypatch.setattr(Problem, "search", lambda *given: walks.append(1) or once(*given))
    frontier(profile, previous, numbered_channels(11), seconds=60)
    unhurried, walks[:] = len(walks), []
    frontier(profile, previous, numbered_channels(11), seconds=1e-9)
    assert len(walks) == 1 < unhurried


def test_of_slots_that_are_alike_neighbours_move():
    # The last of 12 slots costs least and goes first; of the others, that are alike, the nearest.
    profile, previous = by_hand([1] * 12, [5] * 11 + [1], [0] * 12, 3)
    after = frontier(profile, previous, numbered_channels(3))
    assert np.flatnonzero(after.slots).tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    assert np.bincount(after.slots).tolist() == [4, 4, 4]


@pytest.mark.parametrize("resource", ["B", "C"])
def test_one_resource_is_even_whatever_key_has_the_load(resource):
    """A key with half of the load is no reason to leave rows, or bytes, uneven."""
    random = np.random.default_rng(1)
    load = np.append(np.ones(300), 300.0)
    sizes = random.uniform(1, 50, 301)
    profile = profile_of_keys(KEY, hashed_keys(301), load, 64, state=sizes, threshold=5.0)
    before = uniform(profile, None, numbered_channels(4))
    found = make_plan("t", profile, before, before.channels, options={"resources": resource})
    per_slot = profile.bytes if resource == "B" else profile.rows
    heavy = profile.heavy_bytes if resource == "B" else profile.heavy_rows
    light = profile.tail(per_slot, heavy)
    held = np.bincount(found.function.slots, light, minlength=4)
    held += np.bincount(found.function.lookup_hashes(profile.heavy), heavy, minlength=4)
    assert held.max() / held.mean() < 1.05
