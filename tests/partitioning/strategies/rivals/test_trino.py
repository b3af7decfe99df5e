"""trino: what its source promises, on small profiles."""

from dataclasses import replace

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.strategies.rivals.trino import MIN_SHARED_PART, SKEWNESS, trino
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf_profile
from partitioning.workload.metrics import channel_loads, imbalance, imbalance_of
from partitioning.workload.profile import Profile, profile_of_keys

SLOTS = 64


def shares(function) -> dict[int, dict[int, float]]:
    """Return the channels of each split key, with its share there."""
    split, found = function.split, {}
    for key, first, last in zip(split.keys, split.starts[:-1], split.starts[1:], strict=True):
        parts = split.shares[first:last] / split.shares[first:last].sum()
        found[int(key)] = dict(
            zip(split.channels[first:last].tolist(), parts.tolist(), strict=True)
        )
    return found


def hot(loads) -> Profile:
    """Return a profile of keys that are all listed."""
    loads = np.asarray(loads, float)
    return profile_of_keys(KEY, hashed_keys(len(loads)), loads, SLOTS, threshold=0.5)


def test_a_key_gets_one_channel_more_in_a_window():
    profile, channels, function = hot([100.0, *[1.0] * 20]), numbered_channels(4), None
    for owners in (2, 3, 4, 4):
        function = trino(profile, function, channels)
        (parts,) = shares(function).values()
        assert len(parts) == owners
        assert list(parts.values()) == pytest.approx([1 / owners] * owners, rel=1e-3)


def test_what_is_not_skewed_stays():
    """A channel gets a key only if it is emptier by more than 70% than the fullest."""
    for z in (0.0, 0.5):
        profile = zipf_profile(2000, z, slots=SLOTS, threshold=0.0001)
        function = trino(profile, None, numbered_channels(4))
        loads = channel_loads(function, profile)
        assert loads.min() >= (1 - SKEWNESS) * loads.max() and not len(function.split)


def test_owners_are_emptier_than_the_fullest_by_the_skewness():
    random = np.random.default_rng(1)
    for _ in range(50):
        profile = hot(random.pareto(0.8, 40) + 1.0)
        channels = numbered_channels(int(random.integers(2, 9)))
        before = trino(profile, None, channels, least=1e9)
        loads = channel_loads(before, profile)
        after = trino(profile, before, channels)
        assert imbalance_of(after, profile) <= imbalance(loads, before.capacities) * (1 + 1e-3)
        for key, parts in shares(after).items():
            new = set(parts) - {int(before.lookup_hashes(np.array([key]))[0])}
            assert len(new) == 1, "one more channel a window"
            assert loads[list(new)] < (1 - SKEWNESS) * loads.max()


def test_light_keys_are_not_shared():
    profile, channels = hot([100.0, 90.0, *[2.0] * 30]), numbered_channels(5)
    fair = profile.load.sum() / 5
    for least in (MIN_SHARED_PART, 1.0):
        found = shares(trino(profile, None, channels, least=least))
        loads = dict(zip(profile.heavy.tolist(), profile.heavy_load.tolist(), strict=True))
        assert found and all(loads[key] >= least * fair for key in found)
    assert not shares(trino(profile, None, channels, least=99.0))


def test_closed_channels_get_nothing():
    profile = hot([100.0, *[1.0] * 20])
    channels = (Channel("a"), Channel("b", 0.0), Channel("c"))
    function = None
    for _ in range(3):
        function = trino(profile, function, channels)
    assert [set(parts) for parts in shares(function).values()] == [{0, 2}]
    assert channel_loads(function, profile)[1] == 0


def test_no_key_goes_back():
    """A key that is cool by now stays shared, as a writer's partition does."""
    channels = numbered_channels(4)
    profile = hot([100.0, *[1.0] * 20])
    function = trino(profile, None, channels)
    cool = replace(profile, load=np.ones(SLOTS), heavy_load=np.full(21, 0.1))
    assert shares(trino(cool, function, channels)).keys() == shares(function).keys()


@pytest.mark.parametrize(
    ("option", "value"), [("skewness", 0.0), ("skewness", 1.0), ("least", -0.1), ("least", np.inf)]
)
def test_bad_options_are_named(option, value):
    with pytest.raises(InputError, match=option):
        trino(hot([2.0, 1.0]), None, numbered_channels(2), **{option: value})
