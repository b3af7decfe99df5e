"""The order of moves: after every batch no channel is fuller than the fullest at either end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from partitioning.function.channels import numbered_channels
from partitioning.moves.safe_order import safe_order
from partitioning.planning.plan import make_plan
from partitioning.strategies.hashing import consistent
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import profile_of_keys


@st.composite
def problems(draw):
    n = draw(st.integers(2, 6))
    items = draw(
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(0, 20)),
            max_size=30,
        )
    )
    capacities = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=n, max_size=n)))
    capacities[draw(st.integers(0, n - 1))] = 1.0
    first = int(np.flatnonzero(capacities)[0])
    items = [(a, b if capacities[b] else first, float(w)) for a, b, w in items]
    return n, items, capacities


def _loads(n, channels, weights):
    return np.bincount(np.array(channels, int), np.array(weights, float), minlength=n)


def _fullest(loads, capacities):
    open_ = capacities > 0
    return float((loads[open_] / capacities[open_]).max())


@given(problems(), st.data())
def test_no_prefix_is_fuller_than_both_ends(problem, data):
    n, items, capacities = problem
    weights = [w for _, _, w in items]
    before = _loads(n, [a for a, _, _ in items], weights)
    after = _loads(n, [b for _, b, _ in items], weights)
    moves = [(a, b, w) for a, b, w in items if a != b]
    source, target, load = zip(*moves, strict=True) if moves else ((), (), ())
    last = data.draw(st.sets(st.integers(0, len(moves) - 1)) if moves else st.just(set()))
    alike = data.draw(st.none() | st.just([3 * b + a % 3 for a, b, _ in moves]))
    batches = safe_order(source, target, load, before, capacities, last, alike)
    assert last <= set(batches[-1] if batches else ())
    assert not last & {m for batch in batches[:-1] for m in batch}
    assert sorted(m for batch in batches for m in batch) == list(range(len(moves)))
    limit = max(_fullest(before, capacities), _fullest(after, capacities))
    now = before.copy()
    for batch in batches:
        for m in batch:
            now[source[m]] -= load[m]
            now[target[m]] += load[m]
        assert _fullest(now, capacities) <= limit * (1 + 1e-6) + 1e-6


def test_a_move_waits_for_the_room_that_another_makes():
    # 0 holds 10, 1 holds 9 and 2 nothing: 1 has no room for 5 before it has given 6 to 2.
    assert safe_order([0, 1], [1, 2], [5.0, 6.0], np.array([10.0, 9.0, 0.0]), np.ones(3)) == [
        [1],
        [0],
    ]
    assert safe_order([1, 0], [0, 1], [5.0, 6.0], np.array([10.0, 8.0]), np.ones(2)) == [[1, 0]]


def test_only_what_has_to_go_together_does():
    # A swap between two full channels, beside a move that is free to go alone.
    before = np.array([10.0, 8.0, 7.0, 1.0])
    batches = safe_order([0, 1, 2], [1, 0, 3], [6.0, 5.0, 3.0], before, np.ones(4))
    assert batches == [[2], [0, 1]]


def test_only_what_needs_the_last_moves_waits_for_them():
    # 3 fits with 0 alone, which is last; tried first, it is in nobody's way.
    before = np.array([20.0, 17.0])
    batches = safe_order(
        [0, 1, 0, 1], [1, 0, 1, 0], [10.0, 6.0, 7.0, 11.0], before, np.ones(2), {0}
    )
    assert batches == [[1, 2], [0, 3]]


@given(st.integers(0, 50), st.sampled_from([0.6, 1.0, 1.4]), st.integers(2, 9))
def test_a_plan_lists_its_moves_in_that_order(seed, skew, count):
    rng, channels = np.random.default_rng(seed), numbered_channels(count)
    load = rng.permutation(zipf(500, skew)) * 1e5
    profile = profile_of_keys(KEY, np.sort(hashed_keys(500, seed)), load, 64, threshold=500.0)
    previous = consistent(profile, None, channels)
    plan = make_plan("t", profile, previous, channels)
    moves = plan.moves
    now = np.array(plan.loads_before)
    batches = safe_order(
        [m.source for m in moves],
        [m.target for m in moves],
        [m.load for m in moves],
        now,
        np.ones(count),
    )
    assert [m for batch in batches for m in batch] == list(range(len(moves)))
    start = now.max()
    for batch in batches:
        for m in batch:
            now[moves[m].source] -= moves[m].load
            now[moves[m].target] += moves[m].load
        assert now.max() <= start * (1 + 1e-6)
    np.testing.assert_allclose(now, plan.loads_after)
