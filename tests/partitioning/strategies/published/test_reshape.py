"""Reshape's decisions and strategies, against the paper's own examples and plain readings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import successor
from partitioning.strategies.hashing import uniform
from partitioning.strategies.published.dkg import dkg, dkg_pkg, oapx, sia, universal
from partitioning.strategies.published.reshape import flowjoin, flux, sbk, sbr
from partitioning.strategies.skew import (
    Threshold,
    early,
    helpers,
    pays,
    skewed_pairs,
    standard_error,
)
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf_profile
from partitioning.workload.metrics import channel_loads, imbalance, imbalance_of
from partitioning.workload.profile import profile_of_keys

#: Fig. 1 (c): tweets of each month in percent, and the worker that has it, six in all. December
#: and June are on J6, October on J4.
MONTHS = {"june": (1, 5), "december": (25, 5), "october": (6, 3), "april": (1, 3), "may": (3, 4),
          "november": (15, 4), "february": (5, 1), "august": (10, 1), "march": (7, 2),
          "september": (9, 2), "january": (8, 0), "july": (10, 0)}  # fmt: skip


def months():
    """(profile, function) of the example: every month is a key of its own slot."""
    hashes = np.arange(12)
    load = np.array([float(load) for load, _ in MONTHS.values()])
    profile = profile_of_keys(KEY, hashes, load, 12, names=list(MONTHS))
    return profile, successor(KEY, None, numbered_channels(6), [w for _, w in MONTHS.values()], "x")


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.integers(0, 20), st.integers(0, 9))
def test_pairs_are_skewed_and_disjoint(workloads, eta, tau):
    pairs = skewed_pairs(np.array(workloads, float), eta, tau)
    busy = [w for pair in pairs for w in pair]
    assert len(busy) == len(set(busy))
    free = [w for w in range(len(workloads)) if w not in busy]
    for s, h in pairs:
        assert workloads[s] >= eta and workloads[s] - workloads[h] >= max(tau, 1)
        assert all(workloads[h] <= workloads[w] for w in free)
    for s in free:
        gaps = [workloads[s] - workloads[h] for h in free]
        assert workloads[s] < eta or max(gaps) < max(tau, 1)


def test_the_papers_example():
    """26 : 7 comes to 17 : 16 by records (9 of 26), while June alone, by keys, changes little."""
    profile, previous = months()
    assert channel_loads(previous, profile).tolist() == [18, 15, 16, 7, 18, 26]
    by_records = sbr(profile, previous, previous.channels, eta=1.5)
    assert channel_loads(by_records, profile) == pytest.approx([18, 15, 16, 16.5, 18, 16.5])
    (december,) = by_records.split.keys.tolist()
    assert profile.heavy_names[december] == "december"
    assert by_records.split.shares[1] / 2**24 == pytest.approx(9.5 / 25)
    by_keys = sbk(profile, previous, previous.channels, eta=1.5)
    assert channel_loads(by_keys, profile).tolist() == [18, 15, 16, 8, 18, 25]
    shared = flowjoin(profile, previous, previous.channels, eta=1.5)
    assert channel_loads(shared, profile).tolist() == [18, 15, 16, 19.5, 18, 13.5]


@pytest.mark.parametrize("strategy", [sbk, sbr, flux, flowjoin])
def test_iterations_even_out_as_far_as_each_can(strategy):
    profile = zipf_profile(5000, 1.5, slots=256, threshold=0.001)
    function = uniform(profile, None, numbered_channels(8))
    found = []
    for _ in range(12):
        function = strategy(profile, function, function.channels)
        found.append(imbalance_of(function, profile))
        assert channel_loads(function, profile).sum() == pytest.approx(profile.load.sum())
    heaviest = profile.heavy_load.max() * 8 / profile.load.sum()
    assert heaviest > 3
    if strategy is sbr:
        assert found == sorted(found, reverse=True) and found[-1] < 1.05
        assert (np.diff(function.split.starts) <= 8).all()
    elif strategy is flowjoin:
        assert max(channel_loads(function, profile)) >= profile.heavy_load.max() / 2
        assert function.split.shares.tolist() == [2**23] * len(function.split.channels)
        assert strategy(profile, function, function.channels).split.to_dict() == (
            function.split.to_dict()
        )
    else:
        assert found[-1] >= heaviest * (1 - 1e-12) and not len(function.split)
        assert not len(function.explicit_keys) or strategy is sbk


def test_even_load_is_left_alone_and_capacity_counts():
    profile = profile_of_keys(KEY, np.arange(4), np.array([3.0, 1.0, 1.0, 1.0]), 4)
    channels = (Channel("a", 3), Channel("b"), Channel("c"), Channel("d"))
    previous = successor(KEY, None, channels, np.arange(4), "x")
    for strategy in (sbk, sbr, flux, flowjoin):
        function = strategy(profile, previous, channels)
        assert function.slots.tolist() == [0, 1, 2, 3] and not len(function.split)
    equal = sbr(profile, previous, numbered_channels(4))
    assert channel_loads(equal, profile) == pytest.approx([2, 2, 1, 1])


def test_parts_leave_channels_that_close():
    profile = profile_of_keys(KEY, np.arange(4), np.array([8.0, 1.0, 1.0, 2.0]), 4)
    previous = successor(
        KEY, None, numbered_channels(4), np.arange(4), "x", split={0: {0: 2.0, 2: 1.0, 3: 1.0}}
    )
    closing = (Channel("0"), Channel("1"), Channel("2"), Channel("3", 0))
    function = sbr(profile, previous, closing, tau=9.0)
    assert function.split.to_dict()["owners"] == [[0, 2]]
    assert function.split.shares / 2**24 == pytest.approx([2 / 3, 1 / 3])


def test_threshold_follows_algorithm_1():
    tau = Threshold(10, 98, 110)
    assert tau.adjusted(12, 300) == Threshold(60, 98, 110, left=2)
    assert tau.adjusted(9, 300) is tau and tau.adjusted(12, 105) is tau
    assert tau.adjusted(12, 50) is tau and tau.adjusted(9, 100) is tau
    high = Threshold(1000, 98, 110)
    assert high.adjusted(700, 97) == Threshold(700, 98, 110, left=2)
    assert high.adjusted(-5, 97) is high and high.adjusted(90, 97) is high
    assert Threshold(10, 98, 110, left=0).adjusted(12, 300).tau == 10
    assert standard_error([1.0, 3.0, 5.0]) == pytest.approx(2 * math.sqrt(4 / 3))
    assert standard_error([1.0]) == math.inf
    # The sum of the next 4 values against 4 times the mean of 9, drawn many times.
    drawn = np.random.default_rng(0).normal(5, 2, (40_000, 13))
    off = drawn[:, 9:].sum(axis=1) - 4 * drawn[:, :9].mean(axis=1)
    said = np.mean([standard_error(row, 4) ** 2 for row in drawn[:4000, :9]]) ** 0.5
    assert said == pytest.approx(off.std(), rel=0.02)


def test_migration_time_is_reckoned_with():
    assert early(100, 0.26, 0.07, rate=50, migration=4) == pytest.approx(100 - 0.19 * 200)
    assert early(10, 0.9, 0.1, rate=50, migration=4) == 0
    assert pays(3, 4) and not pays(4, 4)
    candidates = np.array([0.01, 0.02, 0.02, 0.03])
    # 0.5 of 1,000 tuples: with n helpers LR_max is 245, 323.3, 362.5, 384, and moving eats up F.
    for slow, expected in ((0, 4), (100, 3), (200, 2), (420, 1), (1900, 0)):
        chosen = helpers(0.5, candidates, 1000, 900, 1, lambda n, slow=slow: slow * n / 2)
        reductions = [
            min(
                (0.5 - (0.5 + candidates[:n].sum()) / (n + 1)) * 1000,
                (900 - slow * n / 2) * 0.5,
            )
            for n in range(1, 5)
        ]
        assert chosen == (int(np.argmax(reductions)) + 1 if max(reductions) > 0 else 0) == expected


def test_dkg_stands_where_the_paper_has_it():
    """Zipf-2, k = 4 (Fig. 2, 14): O-apx and DKG at their best, DKG-PKG below, SIA at k - 1."""
    profile, channels = zipf_profile(10_000, 2.0, slots=4096, threshold=1e-4), numbered_channels(4)

    def even(strategy, **options):
        function = strategy(profile, None, channels, **options)
        return imbalance_of(function, profile) - 1

    assert even(sia) == pytest.approx(3)
    floor = profile.heavy_load.max() * 4 / profile.load.sum() - 1
    assert even(oapx) == pytest.approx(floor)
    assert even(dkg) == pytest.approx(floor, rel=0.02)
    assert even(dkg_pkg) < even(dkg) / 2
    spread = [even(universal, seed=seed) for seed in range(20)]
    assert floor <= min(spread) < max(spread) < 3 and np.mean(spread) > floor
    copies = np.diff(dkg_pkg(profile, None, channels).split.starts)
    assert len(copies) and (copies == 2).all()


def test_bad_options_are_refused():
    profile = zipf_profile(50, 1.0, slots=64)
    for strategy, options in ((sbr, {"eta": -1.0}), (flux, {"tau": math.nan}),
                              (flowjoin, {"hot": 0.0}), (universal, {"seed": -1})):  # fmt: skip
        with pytest.raises(InputError, match=next(iter(options))):
            strategy(profile, None, numbered_channels(2), **options)


def test_keys_of_one_hash_keep_to_one_function():
    """A skewed key whose slot holds others: those stay whole."""
    hashes = hashed_keys(20, 0)
    profile = profile_of_keys(KEY, hashes, np.array([100.0] + [1.0] * 19), 4, threshold=50)
    function = sbr(profile, None, numbered_channels(4))
    assert function.split.keys.tolist() == [hashes[0]]
    assert imbalance(channel_loads(function, profile), np.ones(4)) < 2
