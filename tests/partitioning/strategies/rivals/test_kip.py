"""kip: which heavy keys stay, where others go, and how the hash fills channels up."""

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.strategies.hashing import uniform
from partitioning.strategies.rivals.kip import kip
from partitioning.streams.zipf_stream import zipf_profile
from partitioning.workload.metrics import channel_loads, imbalance
from tests.support.planning.listed_keys import at, keyed


def test_a_key_that_fits_stays_and_the_next_goes_to_the_emptiest():
    """4, 8 and 12 are on channel 0. The level is the fair share, 25, and a thousandth of 100."""
    profile = keyed({4: 20.0, 8: 6.0, 12: 5.0, 1: 1.0}, 68 / 64)
    function = kip(profile, None, numbered_channels(4))
    assert at(function, 4, 12, 1) == [0, 0, 1]
    assert at(function, 8) == [2], "channel 1 has a heavy key, and 2 is the first that has none"


def test_the_level_is_the_heaviest_keys_load_if_that_is_more():
    profile = keyed({4: 60.0, 1: 30.0, 5: 29.0}, 0.01)
    assert at(kip(profile, None, numbered_channels(4)), 4, 1, 5) == [0, 1, 1]


def test_a_key_that_leaves_goes_to_the_channel_of_its_hash_first():
    channels = numbered_channels(4)
    before = kip(keyed({4: 20.0, 8: 6.0, 1: 1.0}, 73 / 64), None, channels)
    slots = before.slots
    assert at(before, 8) != [int(slots[8])]
    (moved,) = at(before, 8)
    full = int(np.flatnonzero(slots == moved)[0]) + 64
    after = kip(keyed({full: 24.0, 8: 6.0}, 70 / 64), before, channels)
    assert at(after, full) == [moved] and at(after, 8) == [int(slots[8])]


def test_the_hash_fills_channels_up():
    """Heavy keys of 40, 10 and 10 and 1 for each slot: 31 a channel; 40 alone gets no slot."""
    function = kip(keyed({0: 40.0, 1: 10.0, 2: 10.0}, 1.0), None, numbered_channels(4))
    counts = np.bincount(function.slots, minlength=4)
    level = (64 + 20) / 3
    assert counts[0] == 0 and counts.sum() == 64
    assert counts[1:] == pytest.approx([level - 10, level - 10, level], abs=1)


def test_few_slots_move_if_weights_change():
    channels = numbered_channels(4)
    before = kip(keyed({0: 10.0}, 1.0), None, channels)
    after = kip(keyed({0: 14.0}, 1.0), before, channels)
    left = np.bincount(before.slots, minlength=4) - np.bincount(after.slots, minlength=4)
    assert 0 < (before.slots != after.slots).sum() == left[left > 0].sum() <= 4
    assert (before.slots[before.slots != after.slots] == 0).all()


def test_nothing_moves_where_nothing_has_changed():
    profile, channels = zipf_profile(5000, 1.1, slots=256, threshold=0.001), numbered_channels(6)
    once = kip(profile, None, channels)
    again = kip(profile, once, channels)
    assert (again.slots == once.slots).all()
    assert at(again, *profile.heavy) == at(once, *profile.heavy)


def test_so_many_keys_are_placed_by_name():
    """13 keys of channel 0 are too much for it; those that are not named go with the hash."""
    profile = keyed({4 * i: 10.0 - 0.1 * i for i in range(1, 14)}, 0.1)
    named = [len(kip(profile, None, numbered_channels(4), excess=e).explicit_keys)
             for e in (0.25, 0.5, 1.0)]  # fmt: skip
    assert named == [1, 2, 4]


def test_it_is_more_even_than_the_hash():
    profile, channels = zipf_profile(5000, 1.1, slots=256, threshold=0.001), numbered_channels(6)
    even = [imbalance(channel_loads(f(profile, None, channels), profile), np.ones(6))
            for f in (uniform, kip)]  # fmt: skip
    assert even[1] < even[0]


def test_closed_channels_get_nothing():
    profile = zipf_profile(5000, 1.0, slots=256, threshold=0.001)
    before = kip(profile, None, numbered_channels(3))
    function = kip(profile, before, (Channel("0"), Channel("1", 0.0), Channel("2", 3.0)))
    loads = channel_loads(function, profile)
    assert loads[1] == 0 and loads[2] == pytest.approx(3 * loads[0], rel=0.3)


@pytest.mark.parametrize("excess", [0.0, -1.0, np.nan, np.inf])
def test_bad_options_are_named(excess):
    with pytest.raises(InputError, match="excess"):
        kip(keyed({1: 1.0}, 1.0), None, numbered_channels(2), excess=excess)
