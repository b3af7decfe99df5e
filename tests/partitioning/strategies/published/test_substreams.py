"""elb, clb and uhlb: what Guo and Zhou's text promises of each."""

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.published.covariance import split_by_covariance
from partitioning.strategies.published.substreams import clb, elb, uhlb
from partitioning.streams.zipf_stream import KEY, zipf_profile
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import Profile

EMPTY = np.empty(0)


def window(loads) -> Profile:
    """A profile with one slot a substream."""
    load = np.array(loads, dtype=np.float64)
    none = np.empty(0, np.int64)
    return Profile(KEY, load, load, np.ones(len(load)), none, EMPTY, EMPTY, EMPTY, ())


def variance(function, profile) -> float:
    loads = channel_loads(function, profile)
    return float((loads / loads.mean()).var())


@pytest.mark.parametrize("strategy", [elb, clb, uhlb])
def test_a_substream_sits_on_one_channel(strategy):
    profile = zipf_profile(1000, 1.0, slots=256)
    function = None
    for _ in range(3):
        function = strategy(profile, function, numbered_channels(5), substreams=30)
    for i in range(30):
        assert len(set(function.slots[i::30].tolist())) == 1
    assert not len(function.explicit_keys)


def test_elb_by_hand():
    """Mean 20. Channel 0 is 10 over: 9 is the largest substream under that; 1 more has no room.
    Channel 1 is 3 over: 2 fits. Channel 2 takes both."""
    profile = window([15, 9, 5, 1, 21, 2, 7])
    before = successor(KEY, None, numbered_channels(3), [0, 0, 0, 0, 1, 1, 2], "")
    function = elb(profile, before, numbered_channels(3), substreams=7, width=2.0)
    assert function.slots.tolist() == [0, 2, 0, 0, 1, 2, 2]
    narrow = elb(profile, before, numbered_channels(3), substreams=7, width=0.2)
    assert narrow.slots.tolist() == [0, 0, 0, 2, 1, 2, 2]


def test_elb_moves_only_from_over_to_under_the_mean():
    random = np.random.default_rng(3)
    for _ in range(30):
        profile = window(random.lognormal(0, 1, 100))
        before = successor(KEY, None, numbered_channels(10), random.integers(0, 10, 100), "")
        function = elb(profile, before, numbered_channels(10))
        loads = channel_loads(before, profile)
        moved = before.slots != function.slots
        assert moved.any()
        assert (loads[before.slots[moved]] > loads.mean()).all()
        assert (loads[function.slots[moved]] <= loads.mean()).all()
        after = channel_loads(function, profile)
        assert (after[loads > loads.mean()] >= loads.mean() - 1e-9).all()
        assert variance(function, profile) <= variance(before, profile)


def test_substreams_stay_where_another_strategy_had_most_of_their_load():
    profile = zipf_profile(1000, 1.0, slots=64)
    slots = np.arange(64) % 8 % 4
    before = successor(KEY, None, numbered_channels(4), slots, "")
    function = elb(profile, before, numbered_channels(4), substreams=8, width=1e-6)
    assert (function.slots == slots).all()


def test_clb_balances_once_a_period():
    random = np.random.default_rng(5)
    functions, function = [], None
    for _ in range(13):
        function = clb(window(random.poisson(100, 40)), function, numbered_channels(4),
                       substreams=40, period=4)  # fmt: skip
        # What is carried survives the trip through JSON.
        function = PartitioningFunction.from_dict(function.to_dict())
        functions.append(function)
    changed = [i for i in range(1, 13) if (functions[i].slots != functions[i - 1].slots).any()]
    assert changed == [3, 7, 11]
    assert len(function.options["history"]) == 4


def test_clb_puts_apart_what_rises_together():
    series = 100 + 50 * np.array([[1, -1, 1, -1], [-1, 1, -1, 1]] * 3, dtype=float)
    two = split_by_covariance(series, 2, 0.5)
    assert two[0] != two[2]
    three = split_by_covariance(series, 3, 0.5)
    assert three[0] != three[2] and three[1] != three[3]


def test_every_set_is_made_even_where_nothing_correlates():
    sets = split_by_covariance(np.ones((3, 20)), 6, 0.0)
    assert set(sets.tolist()) == set(range(6))
    assert set(split_by_covariance(np.ones((3, 2)), 6, 0.0).tolist()) == {0, 1}


def test_uhlb_never_gets_less_even_than_the_hash_in_force():
    random = np.random.default_rng(8)
    before = None
    for _ in range(10):
        profile = window(random.lognormal(0, 0.5, 100))
        function = uhlb(profile, before, numbered_channels(5))
        if before is not None:
            assert variance(function, profile) <= variance(before, profile) + 1e-12
        before = function


@pytest.mark.parametrize("strategy", [elb, clb, uhlb])
def test_more_substreams_than_slots_are_refused_before_memory_is_taken(strategy):
    channels, profile = numbered_channels(2), zipf_profile(10, 1.0, slots=256)
    assert len(strategy(profile, None, channels, substreams=256).slots) == 256
    for count in (257, 10**15):
        told = rf"substreams: {count:,} substreams\. Give at most (256|4,096): "
        with pytest.raises(InputError, match=told):
            strategy(profile, None, channels, substreams=count)
    few = zipf_profile(10, 1.0, slots=8)
    assert len(strategy(few, None, channels).slots) == 8, "the default always will do"


def test_clb_refuses_more_substreams_than_it_can_compare():
    profile = zipf_profile(10, 1.0, slots=2**14)
    assert len(elb(profile, None, numbered_channels(2), substreams=2**14).slots) == 2**14
    with pytest.raises(InputError, match="5,000 substreams. Give at most 4,096: every two"):
        clb(profile, None, numbered_channels(2), substreams=5_000)


def test_uhlb_follows_capacity():
    profile = window(np.ones(100))
    channels = (Channel("a", 1), Channel("b", 0), Channel("c", 3))
    loads = channel_loads(uhlb(profile, None, channels), profile)
    assert loads[1] == 0 and loads[2] == pytest.approx(75, abs=12)


@pytest.mark.parametrize(
    ("strategy", "option", "value"),
    [
        (elb, "substreams", 0),
        (elb, "width", 0.0),
        (clb, "period", 0),
        (clb, "theta", 1.0),
        (clb, "theta", -0.1),
        (uhlb, "draws", 0),
        (uhlb, "seed", -1),
    ],
)
def test_bad_options_are_refused(strategy, option, value):
    with pytest.raises(InputError, match=option):
        strategy(zipf_profile(10, 1.0), None, numbered_channels(2), **{option: value})
