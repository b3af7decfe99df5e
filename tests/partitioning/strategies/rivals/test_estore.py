"""estore: hot tuples by heat, then blocks in order, as long as their channel is over its share."""

import numpy as np
import pytest

from partitioning.function.channels import Channel, numbered_channels
from partitioning.strategies.hashing import uniform
from partitioning.strategies.rivals.estore import estore
from partitioning.streams.zipf_stream import zipf_profile
from partitioning.workload.metrics import channel_loads
from tests.support.planning.listed_keys import at, keyed


def test_hot_tuples_go_to_the_least_loaded_until_their_channel_has_its_share():
    """Channel 0 has 18 of 24, its share is 8: 9 goes to 1, then 5 to 2. Then 2 and 1 have more."""
    profile = keyed({0: 9.0, 3: 5.0, 6: 4.0, 1: 2.0, 2: 4.0}, 0.0)
    function = estore(profile, None, numbered_channels(3))
    assert at(function, 0, 3, 6, 1, 2) == [1, 2, 0, 2, 0]


def test_nothing_asks_what_is_gained():
    """10 of 19 is over the share: it goes to 9, and then 9 goes to where 10 was."""
    profile = keyed({0: 10.0, 1: 9.0}, 0.0)
    assert at(estore(profile, None, numbered_channels(2)), 0, 1) == [1, 0]


def test_blocks_follow_in_order_where_hot_tuples_were_not_enough():
    """Slots of channel 0 have 1 each and those of 1 have 0.5: 8 blocks of 32 go, the first ones."""
    profile = keyed({}, 0.5)
    load = profile.load.copy()
    load[::2] = 1.0
    profile = type(profile)(**{**vars(profile), "load": load})
    channels = numbered_channels(2)
    function = estore(profile, None, channels)
    assert np.flatnonzero(function.slots != uniform(profile, None, channels).slots).tolist() == [
        2 * i for i in range(8)
    ]
    assert channel_loads(function, profile).tolist() == [24.0, 24.0]


def test_greedy_moves_no_block():
    profile, channels = zipf_profile(5000, 1.0, slots=256, threshold=0.01), numbered_channels(5)
    start = uniform(profile, None, channels)
    assert (estore(profile, start, channels, cold=False).slots == start.slots).all()
    function = estore(profile, start, channels)
    assert (function.slots != start.slots).any()
    loads = channel_loads(function, profile)
    largest = profile.tail(profile.load, profile.heavy_load).max()
    assert loads.max() <= loads.mean() + max(largest, profile.heavy_load.max())


def test_an_even_table_is_left_alone():
    profile, channels = keyed({}, 1.0), numbered_channels(4)
    start = uniform(profile, None, channels)
    assert (estore(profile, start, channels).slots == start.slots).all()


def test_closed_channels_get_nothing_and_capacities_count():
    profile = zipf_profile(5000, 0.8, slots=256, threshold=0.001)
    before = estore(profile, None, numbered_channels(3))
    function = estore(profile, before, (Channel("0"), Channel("1", 0.0), Channel("2", 3.0)))
    loads = channel_loads(function, profile)
    assert loads[1] == 0 and loads[2] == pytest.approx(3 * loads[0], rel=0.3)
