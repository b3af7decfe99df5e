"""mixed: its bound on the table, its order of moves, and what stays, on small profiles."""

from dataclasses import replace

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.strategies.hashing import consistent
from partitioning.strategies.rivals import mixed as module
from partitioning.strategies.rivals.mixed import mixed
from partitioning.streams.zipf_stream import zipf_profile
from partitioning.workload.metrics import channel_loads, imbalance_of
from partitioning.workload.profile import Profile
from tests.support.planning.listed_keys import SLOTS, listed


def slots_of(channels) -> list[np.ndarray]:
    """Return the slots of each channel, by the hash."""
    slots = consistent(zipf_profile(10, 1.0, slots=SLOTS), None, channels).slots
    return [np.flatnonzero(slots == c) for c in range(len(channels))]


def random_profile(random, count=60) -> Profile:
    loads, sizes = random.pareto(1.2, count) + 0.1, random.uniform(1, 100, count)
    hashes = random.choice(10**6, count, replace=False)
    return listed(dict(zip(hashes.tolist(), zip(loads, sizes, strict=True), strict=True)), 0.2)


@pytest.mark.parametrize("table", [0.0, 1.0, 3.0])
def test_the_table_is_never_longer_than_its_bound(table):
    random, channels, function, full = np.random.default_rng(1), numbered_channels(4), None, 0
    for _ in range(40):
        function = mixed(random_profile(random), function, channels, table=table)
        assert len(function.explicit_keys) <= table * 4
        full += len(function.explicit_keys) == table * 4
    assert full, "the bound is met in some window, or this shows nothing"


def test_a_long_table_loses_its_smallest_keys_first():
    """Keys 1 to 4 lie away from home; two of them may stay so: those with the most bytes."""
    channels = numbered_channels(2)
    own = slots_of(channels)[0]
    keys = {int(own[i]): (1.0, 10.0 * (i + 1)) for i in range(4)}
    profile = listed(keys, 10.0)
    start = consistent(profile, None, channels)
    away = replace(start, explicit_keys=sorted(keys), explicit_channels=[1] * 4)
    after = mixed(profile, away, channels, theta=5.0, table=1.0)
    assert after.explicit_keys.tolist() == [int(own[2]), int(own[3])]


def test_what_is_within_the_limit_stays():
    channels, random = numbered_channels(4), np.random.default_rng(2)
    function = mixed(random_profile(random), None, channels, table=50.0)
    even = imbalance_of(function, p := random_profile(random))
    after = mixed(p, function, channels, theta=even - 1 + 1e-6, table=50.0)
    assert after.lookup_hashes(p.heavy).tolist() == function.lookup_hashes(p.heavy).tolist()


def test_keys_are_spread_to_the_limit():
    random = np.random.default_rng(3)
    for _ in range(20):
        count = int(random.integers(2, 8))
        keys = {int(h): (1.0, 1.0) for h in random.choice(10**6, 300, replace=False)}
        profile, channels = listed(keys, 0.1), numbered_channels(count)
        function = mixed(profile, None, channels, theta=0.08, table=99.0)
        assert imbalance_of(function, profile) <= 1.08


def test_the_most_load_for_a_byte_moves():
    """Two keys of one load are on a full channel; the one with fewer bytes leaves it."""
    channels = numbered_channels(2)
    a, b = slots_of(channels)[0][:2].tolist()
    for small, large in ((a, b), (b, a)):
        profile = listed({small: (10.0, 1.0), large: (10.0, 2.0)}, 0.001)
        assert mixed(profile, None, channels).explicit_keys.tolist() == [small]


def test_the_exponent_weighs_load_against_bytes():
    channels = numbered_channels(2)
    a, b = slots_of(channels)[0][:2].tolist()
    profile = listed({a: (12.0, 5.0), b: (8.0, 2.0)}, 0.001)
    found = [mixed(profile, None, channels, theta=0.25, beta=e).explicit_keys for e in (1.0, 3.0)]
    assert [f.tolist() for f in found] == [[b], [a]]


def test_a_key_makes_smaller_ones_leave(monkeypatch):
    """6 of channel 0 fits on 1 only if 2 of it leaves; the limit is 8."""
    channels = numbered_channels(3)
    first, second, third = slots_of(channels)
    keys = {(6.0, 1.0): first, (7.0, 100.0): first, (4.0, 100.0): second, (2.0, 1.0): second,
            (5.0, 1.0): third}  # fmt: skip
    placed = {int(own[i]): k for i, (k, own) in enumerate(keys.items())}
    profile = listed(placed, 0.0)
    function = mixed(profile, None, channels, theta=0.3, table=9.0)
    loads = channel_loads(function, profile)
    assert loads.max() <= 1.3 * 8
    monkeypatch.setattr(module, "MOST_EXCHANGES", 0)
    without = mixed(profile, None, channels, theta=0.3, table=9.0)
    assert channel_loads(without, profile).max() > 1.3 * 8


def test_a_key_over_the_limit_stays_and_others_leave_it():
    channels = numbered_channels(3)
    own = slots_of(channels)[0]
    hot, beside = int(own[0]), int(own[1])
    function = mixed(listed({hot: (100.0, 1.0), beside: (3.0, 9.0)}, 0.1), None, channels)
    assert function.explicit_keys.tolist() == [beside]


def test_closed_channels_get_nothing():
    profile = random_profile(np.random.default_rng(4))
    before = mixed(profile, None, numbered_channels(3))
    channels = (Channel("0"), Channel("1", 0.0), Channel("2", 2.0))
    loads = channel_loads(mixed(profile, before, channels), profile)
    assert loads[1] == 0 and loads[2] > loads[0] > 0


@pytest.mark.parametrize(
    ("option", "value"), [("theta", -0.1), ("table", np.nan), ("beta", np.inf), ("beta", -1.0)]
)
def test_bad_options_are_named(option, value):
    with pytest.raises(InputError, match=option):
        mixed(listed({1: (1.0, 1.0)}), None, numbered_channels(2), **{option: value})
