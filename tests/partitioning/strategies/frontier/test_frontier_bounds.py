"""Frontier and its bounds: the curve, the floor, the least bytes for an imbalance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.hashing import slot_of
from partitioning.strategies import STRATEGIES
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.frontier.tradeoff import trace
from partitioning.streams.zipf_stream import (
    KEY,
    hashed_keys,
    zipf_profile,
)
from partitioning.workload.bounds import floor, least_bytes
from partitioning.workload.metrics import imbalance
from partitioning.workload.profile import Floats, profile_of_keys
from tests.support.planning.problems import SLOTS, Instance, by_hand, problems
from tests.support.reached import must_reach, reach


@settings(deadline=None, max_examples=80)
@given(problems())
def test_curve_is_monotone_feasible_and_above_its_bounds(problem):
    curve = trace(problem.profile, problem.previous, problem.channels)
    assert (np.diff(curve.bytes) > 0).all()
    assert (np.diff(curve.imbalance) < 0).all()
    assert curve.floor == floor(problem.profile, problem.channels)
    assert curve.imbalance[-1] >= curve.floor * (1 - 1e-9)
    assert (np.diff(curve.bound_bytes) >= 0).all()
    assert (np.diff(curve.bound_imbalance) <= 0).all()
    assert (curve.bytes >= bound(problem, curve.imbalance) * (1 - 1e-9) - 1e-9).all()
    points = list(zip(curve.bytes, curve.imbalance, strict=True))
    for size, reached in points[:: -(len(points) // 4 + 1)]:
        function = frontier(problem.profile, problem.previous, problem.channels, budget=size)
        assert problem.imbalance(function) <= reached * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_curve_and_bounds_round_the_floor_alike(seed):
    load = np.random.default_rng(seed).lognormal(0, 2, 7)
    profile = profile_of_keys(KEY, hashed_keys(7, seed), load, SLOTS, state=load, threshold=0.0)
    channels = numbered_channels(2)
    assert trace(profile, None, channels).floor == floor(profile, channels)


@must_reach("no key is split")
@settings(deadline=None, max_examples=60)
@given(problems())
def test_no_strategy_beats_bound_or_floor(problem):
    for name, strategy in STRATEGIES.items():
        function = strategy(problem.profile, problem.previous, problem.channels)
        if len(function.split):  # the floor is that of whole keys
            continue
        reach("no key is split")
        reached = problem.imbalance(function)
        assert reached >= floor(problem.profile, problem.channels) * (1 - 1e-9), name
        least = float(bound(problem, np.array([reached]))[0])
        assert problem.moved(function) >= least * (1 - 1e-9) - 1e-9, name


@must_reach("even enough already")
@settings(deadline=None, max_examples=80)
@given(problems(same_channels=True), st.sampled_from([None, 1.1, 1.5]))
def test_never_worse_and_nothing_moves_twice(problem, max_imbalance):
    function = frontier(
        problem.profile, problem.previous, problem.channels, max_imbalance=max_imbalance
    )
    before = problem.imbalance(problem.previous)
    assert problem.imbalance(function) <= before * (1 + 1e-9)
    if max_imbalance is not None and before <= max_imbalance * (1 + 1e-13):
        reach("even enough already")
        assert problem.moved(function) == 0
    again = frontier(problem.profile, function, problem.channels, max_imbalance=max_imbalance)
    assert (again.slots == function.slots).all()
    assert again.explicit_keys.tolist() == function.explicit_keys.tolist()
    assert again.explicit_channels.tolist() == function.explicit_channels.tolist()


def bound(problem: Instance, imbalances: Floats) -> Floats:
    """The LP bound, from the keys: tails and heavy keys put together anew."""
    p, previous = problem.profile, problem.previous
    heavy = np.isin(problem.hashes, p.heavy)
    slot = slot_of(problem.hashes[~heavy], SLOTS)
    load = np.bincount(slot, problem.load[~heavy], minlength=SLOTS)
    state = np.bincount(slot, problem.state[~heavy], minlength=SLOTS)
    return least_bytes(
        np.concatenate([load, problem.load[heavy]]),
        np.concatenate([state, problem.state[heavy]]),
        np.concatenate([previous.slots, previous.lookup_hashes(problem.hashes[heavy])]),
        np.array([c.capacity for c in problem.channels]),
        imbalances,
    )


def test_least_bytes_takes_the_densest_and_a_part():
    # Channel 0 holds 6 of 8, its fair share is 4: sheds the 2 of 1 byte; at 1.25, 1 of those.
    got = least_bytes(
        np.array([2.0, 4, 2]),
        np.array([1.0, 40, 7]),
        np.array([0, 0, 1]),
        np.ones(2),
        np.array([1.5, 1.25, 1.0]),
    )
    assert got.tolist() == [0.0, 0.5, 1.0]
    drained = least_bytes(
        np.array([2.0, 4, 2]),
        np.array([1.0, 40, 7]),
        np.array([0, 0, 1]),
        np.array([0.0, 1.0]),
        np.array([1.0]),
    )
    assert drained.tolist() == [41.0]


def test_floor_is_the_heaviest_key_on_the_best_channel():
    profile = zipf_profile(2, 1.0, threshold=0.0)  # loads 2/3 and 1/3
    assert floor(profile, numbered_channels(1)) == 1
    assert floor(profile, numbered_channels(3)) == pytest.approx(2.0)
    unequal = (Channel("a", 4), Channel("b", 1), Channel("c", 1), Channel("d", 0))
    assert floor(profile, unequal) == pytest.approx(1.2)  # both keys on the two largest


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
)
def test_no_assignment_of_whole_keys_beats_the_floor(loads, capacities):
    channels = tuple(Channel(str(i), c) for i, c in enumerate(capacities))
    keys = np.arange(len(loads), dtype=np.int64)
    profile = profile_of_keys(KEY, keys, np.array(loads, float), 8, threshold=0.0)
    best = min(
        imbalance(
            np.bincount(a, loads, minlength=len(channels)).astype(float), np.array(capacities)
        )
        for a in itertools.product(range(len(channels)), repeat=len(loads))
    )
    assert floor(profile, channels) <= best * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_tiny_problems_against_all_assignments(seed):
    random = np.random.default_rng(seed)
    loads, sizes = random.integers(1, 20, 7), random.integers(1, 9, 7)
    owners = random.integers(0, 3, 7)
    profile, previous = by_hand(loads, sizes, owners, 3)
    every = np.array(list(itertools.product(range(3), repeat=7)))
    reached = np.array([np.bincount(a, loads, minlength=3).max() for a in every]) * 3 / loads.sum()
    moved = (every != owners) @ sizes
    curve = trace(profile, previous, numbered_channels(3))
    for size, value in zip(curve.bytes, curve.imbalance, strict=True):
        assert size >= moved[reached <= value * (1 + 1e-9)].min()
        assert value >= reached[moved <= size].min() * (1 - 1e-9)
    assert curve.imbalance[-1] <= reached.min() * 1.1
