"""The contract that every strategy keeps: each test runs over the whole STRATEGIES dict."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.strategies import PRODUCTION, SPLITTING, STRATEGIES, WHOLE, hashing
from partitioning.strategies.hashing import consistent, uniform
from partitioning.streams.zipf_stream import zipf_profile
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import Profile

SLOTS = 256


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]


@pytest.fixture(scope="module")
def profile() -> Profile:
    return zipf_profile(5000, 1.0, slots=SLOTS, threshold=0.002)


@pytest.fixture(scope="module")
def first(profile) -> dict[str, PartitioningFunction]:
    """Every strategy's first function for 5 channels."""
    return {name: f(profile, None, numbered_channels(5)) for name, f in STRATEGIES.items()}


def weighted(*capacities: float) -> tuple[Channel, ...]:
    return tuple(Channel(f"c{i}", c) for i, c in enumerate(capacities))


def check(function: PartitioningFunction, profile: Profile, channels: Sequence[Channel]) -> None:
    """Every slot and key is owned; closed channels own no load; no load is lost."""
    assert function.key == profile.key
    assert function.channels == tuple(channels)
    assert len(function.slots) == profile.slots
    assert function.slots.min() >= 0
    assert function.slots.max() < len(channels)
    loads = channel_loads(function, profile)
    assert loads.sum() == pytest.approx(profile.load.sum())
    assert not loads[function.capacities == 0].any()
    home = function.slots[function.explicit_keys % SLOTS]
    assert (home != function.explicit_channels).all(), "an explicit key that its slot places anyway"
    assert (function.capacities[function.split.channels] > 0).all()
    assert np.isin(function.split.keys, profile.heavy).all()


@pytest.mark.parametrize(
    "channels",
    [
        numbered_channels(1),
        numbered_channels(10),
        weighted(1, 2, 4),
        weighted(1, 0, 1),
        weighted(0, 0, 3),
        weighted(0.1, 0.2, 0.7),
        numbered_channels(SLOTS + 44),
    ],
    ids=["one", "ten", "weights", "drained", "one left", "fractions", "more than slots"],
)
def test_first_function_is_whole(strategy, profile, channels):
    function = strategy(profile, None, channels)
    check(function, profile, channels)
    assert function.epoch == 0
    assert function.parent is None


@pytest.mark.parametrize(
    "channels",
    [
        numbered_channels(1),
        numbered_channels(4),
        numbered_channels(5),
        numbered_channels(9),
        weighted(1, 0, 1, 1, 2, 3),
    ],
    ids=["down to one", "down", "same", "up", "drained, weights, up"],
)
def test_next_function_is_whole(strategy, profile, first, channels):
    for name, previous in first.items():
        function = strategy(profile, previous, channels)
        check(function, profile, channels)
        assert (function.epoch, function.parent) == (1, previous.digest), name


def test_only_those_that_say_so_split_keys():
    profile = zipf_profile(5000, 1.5, slots=SLOTS, threshold=0.002)
    start = uniform(profile, None, numbered_channels(20))
    split = {n for n, f in STRATEGIES.items() if len(f(profile, start, start.channels).split)}
    assert split == SPLITTING == set(STRATEGIES) - set(WHOLE)


def test_tables_are_planned_by_production_strategies_alone():
    assert set(PRODUCTION) == {"uniform", "consistent", "scan", "redist", "readj", "frontier"}
    assert not SPLITTING & set(PRODUCTION), "frontier alone splits keys of tables, where told to"


@pytest.mark.parametrize("name", PRODUCTION)
def test_a_production_strategy_moves_nothing_where_nothing_has_changed(name, profile):
    channels = numbered_channels(5)
    once = STRATEGIES[name](profile, uniform(profile, None, channels), channels)
    again = STRATEGIES[name](profile, once, channels)
    assert (again.slots == once.slots).all()


def test_equal_input_gives_equal_function(strategy, profile):
    previous = consistent(profile, None, numbered_channels(4))
    again = PartitioningFunction.from_dict(previous.to_dict())
    first = strategy(profile, previous, numbered_channels(6))
    assert first.digest == strategy(deepcopy(profile), again, list(numbered_channels(6))).digest
    assert first.digest == PartitioningFunction.from_dict(first.to_dict()).digest


def test_input_is_left_alone(strategy, profile):
    previous = consistent(profile, None, numbered_channels(4))
    before, stored = previous.digest, profile.to_bytes()
    strategy(profile, previous, numbered_channels(3))
    assert PartitioningFunction.from_dict(previous.to_dict()).digest == before
    assert profile.to_bytes() == stored


@pytest.mark.parametrize("keys", [0, 1, 3])
def test_fewer_keys_than_channels(strategy, keys):
    if keys:
        profile = zipf_profile(keys, 1.0, slots=SLOTS)
    else:
        profile = zipf_profile(1, 1.0, slots=SLOTS, threshold=np.inf)
        profile = replace(profile, **dict.fromkeys(("load", "bytes", "rows"), np.zeros(SLOTS)))
    for previous in (None, uniform(profile, None, numbered_channels(2))):
        for count in (1, 2, 7):
            check(
                strategy(profile, previous, numbered_channels(count)),
                profile,
                numbered_channels(count),
            )


def test_other_number_of_slots_is_refused(strategy, profile):
    previous = uniform(zipf_profile(10, 1.0, slots=SLOTS * 2), None, numbered_channels(2))
    with pytest.raises(InputError, match="512 slots.*256"):
        strategy(profile, previous, numbered_channels(2))


@pytest.mark.parametrize("channels", [(), weighted(0, 0), (Channel("a"), Channel("a"))])
def test_unusable_channels_are_refused(strategy, profile, channels):
    with pytest.raises(InputError):
        strategy(profile, None, channels)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_uniform_is_slot_mod_n(profile, count):
    function = uniform(profile, None, numbered_channels(count))
    assert function.slots.tolist() == [s % count for s in range(SLOTS)]


def test_uniform_skips_drained_and_follows_weights(profile):
    assert set(uniform(profile, None, weighted(1, 0, 1)).slots.tolist()) == {0, 2}
    assert np.bincount(uniform(profile, None, weighted(1, 2, 5)).slots).tolist() == [32, 64, 160]


@pytest.mark.parametrize("added", [1.0, 0.3, 2.0])
def test_consistent_moves_only_to_the_added_channel(added):
    profile = zipf_profile(10, 1.0)
    before = consistent(profile, None, numbered_channels(9))
    after = consistent(profile, before, (*numbered_channels(9), Channel("new", added)))
    changed = before.slots != after.slots
    assert set(after.slots[changed].tolist()) == {9}
    share = added / (9 + added)
    assert changed.mean() == pytest.approx(share, rel=0.2)
    back = consistent(profile, after, numbered_channels(9))
    assert (back.slots == before.slots).all()


def test_consistent_drains_only_the_drained_channel():
    profile = zipf_profile(10, 1.0)
    before = consistent(profile, None, weighted(1, 1, 1, 1))
    after = consistent(profile, before, weighted(1, 0, 1, 1))
    assert ((before.slots != after.slots) == (before.slots == 1)).all()


def test_consistent_keeps_its_unit_where_the_first_channel_closes_and_opens():
    profile = zipf_profile(100, 1.0, slots=8192)
    first = consistent(profile, None, weighted(1, 2, 3, 2))
    assert first.options == {"points": 1000}
    before, drained = first, 0
    for capacities in ((0, 2, 3, 2), (0, 0, 3, 2), (0, 0, 3, 2)):
        after = consistent(profile, before, weighted(*capacities))
        assert after.options == {"points": 1000, "unit": 1.0}
        moved = after.slots != before.slots
        assert moved.sum() == np.isin(before.slots, np.flatnonzero(after.capacities == 0)).sum()
        before, drained = after, drained + moved.sum()
    assert drained > 0
    again = consistent(profile, before, weighted(1, 2, 3, 2))
    assert (again.slots == first.slots).all()
    assert again.options == first.options
    # Capacities in another unit altogether: a ring of its own.
    assert consistent(profile, before, weighted(0, 2e6, 3e6)).options == {"points": 1000}


def test_a_tiny_first_capacity_makes_no_ring_without_end(monkeypatch: pytest.MonkeyPatch):
    places, counts = hashing._places, []

    def counted(name: str, count: int):
        counts.append(count)
        assert sum(counts) < 2**22, "points without end"
        return places(name, count)

    monkeypatch.setattr(hashing, "_places", counted)
    owner = hashing.ring_slots(4096, weighted(1e-6, 1, 1, 2))
    assert np.bincount(owner, minlength=4)[1:] == pytest.approx([1024, 1024, 2048], rel=0.1)


def test_consistent_ignores_names_and_is_frozen():
    profile = zipf_profile(10, 1.0)
    slots = consistent(profile, None, numbered_channels(10)).slots
    assert (slots == consistent(profile, None, weighted(*[1.0] * 10)).slots).all()
    # These would change state's place in every table: never update them.
    assert slots[:12].tolist() == [3, 8, 1, 1, 5, 7, 6, 4, 4, 1, 7, 4]


def test_arrays_of_profiles_and_sketches_are_read_only(profile):
    read = Profile.from_bytes(profile.to_bytes())
    records = profile, read, replace(profile, error=1.0), profile.sketch(), read.without(read.heavy)
    for record in records:
        arrays = {n: v for n, v in vars(record).items() if isinstance(v, np.ndarray)}
        assert arrays.keys() >= {"load", "heavy", "heavy_load"}
        for values in arrays.values():
            with pytest.raises(ValueError, match="read-only"):
                values[...] = 0


def test_what_its_maker_writes_later_does_not_reach_a_profile(profile):
    owned, whole = profile.load.copy(), np.stack([profile.load, profile.load])
    of_owned = replace(profile, load=owned)
    owned[0] = 1.0
    assert (of_owned.load == profile.load).all()
    of_view = replace(profile, load=whole[0])
    whole[0] = 0
    assert (of_view.load == profile.load).all()


def test_no_view_from_before_writes_to_a_profile(profile):
    load = profile.load.copy()
    locked, view = load[:], load[1:]
    locked.flags.writeable = False
    for given in (locked, load):  # a locked view of open memory, and memory with an open view
        kept = replace(profile, load=given)
        before = kept.load.copy()
        view += 1.0
        np.testing.assert_array_equal(kept.load, before)
    assert replace(kept, events=1).load is kept.load  # copied once only
