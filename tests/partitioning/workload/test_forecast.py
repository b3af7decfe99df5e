"""forecast: what it must find in made-up pasts."""

import tracemalloc
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import slot_of
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.forecast import DECAYS, NEAR, REACH, forecast
from partitioning.workload.profile import Profile, Sketch, merge, profile_of_keys
from tests.support.planning.pasts import SLOTS, N, profile_for, sketch, steady


def wandering(windows: int) -> list[Sketch]:
    """Every window is the last one changed, with little chance in it."""
    random = np.random.default_rng(1)
    load, out = np.full(300, 1e4), []
    for _ in range(windows):
        load = load * random.lognormal(0, 0.5, len(load))
        out.append(sketch(load))
    return out


def test_decay_follows_the_data():
    assert forecast(steady(12)).decay == 0.9
    assert forecast(wandering(12)).decay <= 0.35
    assert forecast(steady(12), 0.6).decay == 0.6


def squared_error(past, decay) -> float:
    """Sum of squared errors of the forecasts by one decay, each from the windows before."""
    total, mean, weight = 0.0, None, 1.0
    for window in past:
        share = window.load / window.load.sum()
        if mean is not None:
            total += float(np.square(share - mean).sum())
            weight = 1 + decay * weight
        mean = share.copy() if mean is None else mean + (share - mean) / weight
    return total


def test_of_decays_that_are_about_as_good_the_largest_is_taken():
    random, past = np.random.default_rng(3), []
    truth = np.full(300, 300.0)
    for _ in range(30):  # a slow walk with much chance
        truth = truth * random.lognormal(0, 0.02, 300)
        past.append(sketch(random.poisson(truth).astype(float)))
    errors = {decay: squared_error(past, decay) for decay in DECAYS}
    near = [d for d, e in errors.items() if e <= NEAR * min(errors.values())]
    assert forecast(past).decay == max(near) and len(near) > 1
    assert max(near) > min(errors, key=errors.get)


def test_errors_are_what_came_less_what_was_forecast():
    past = wandering(4)
    ahead = replace(forecast(past), best=0.0)  # each forecast is the window before
    heavy = merge(past).heavy
    errors = np.array(list(ahead.errors()))
    assert errors.shape == (3, SLOTS + len(heavy))
    assert errors.sum(axis=1) == pytest.approx(0, abs=1e-12)
    came = [s.load / s.load.sum() for s in past]
    assert np.allclose(errors[:, :SLOTS], np.diff(came, axis=0))


def test_chance_is_what_independent_windows_differ_by():
    """Windows of one truth, by Poisson's law: a channel of load l is off by the root of l."""
    random = np.random.default_rng(4)
    past = [sketch(random.poisson(100.0, 300).astype(float)) for _ in range(40)]
    function = uniform(profile_for(forecast(past)), None, numbered_channels(N))
    # The error of a forecast has the window's chance, and that of the mean of about 19 windows.
    window = 0.9 * (1 / 7500) * (1 + 1 / 19)
    for decay, gain in ((0.9, 0.1), (0.0, 1.0), (0.5, 0.5), (None, 1 / 40), (1.0, 1 / 40)):
        found = forecast(past, decay).chance(function)
        assert found == pytest.approx(np.sqrt(gain * window), rel=0.5), decay
    assert forecast(past).chance(None) == 0


def test_drift_alone_is_no_chance():
    ahead = replace(forecast(wandering(12)), best=0.0)
    assert ahead.chance(uniform(profile_for(ahead), None, numbered_channels(N))) < 0.001


def with_new_keys(windows: int, share: float, gone: int = 0) -> list[Sketch]:
    """Return windows in each of which 5 keys that never came before have a share of the load."""
    past = []
    for window in range(windows):
        hashes = np.append(hashed_keys(100), hashed_keys(5, window + 1 - gone))
        load = np.append(np.full(100, (1 - share) * 10), np.full(5, share * 200))
        order = np.argsort(hashes)
        profile = profile_of_keys(KEY, hashes[order], load[order], SLOTS, threshold=15)
        past.append(replace(profile.sketch(), error=(1 - share) * 10))
    return past


def test_room_is_left_for_new_keys_in_every_slot():
    ahead = forecast(with_new_keys(8, 0.2))
    # What an unlisted key may have had in the window before, 0.8%, does not count as new.
    assert ahead.new == pytest.approx(0.2 - 5 * 0.008)
    total = ahead.sketch.load.sum()
    assert total == pytest.approx(8 * 1000)
    assert ahead.sketch.load.min() >= 0.99 * ahead.new * total / SLOTS
    assert forecast(steady(8)).new < 0.01
    assert forecast(with_new_keys(1, 0.2)).new == 0


def test_slots_that_never_had_load_tell_of_light_new_keys():
    """30 of 64 slots are filled at first; 20% of the load is of light keys, new each time."""
    random, found = np.random.default_rng(5), []
    for _ in range(40):
        old = random.choice(SLOTS, 30, replace=False)
        past = []
        for _ in range(3):
            load = np.zeros(SLOTS)
            load[old] = 800 / 30
            np.add.at(load, random.integers(0, SLOTS, 40), 5.0)
            none = np.zeros(0)
            past.append(Sketch(load, none.astype(np.int64), none, (), 30.0, 1000))
        found.append(forecast(past).new)
    assert np.mean(found) == pytest.approx(0.2, rel=0.15)
    full = [replace(s, load=np.full(SLOTS, 10.0)) for s in past]
    assert forecast(full).new == 0  # no slot is empty


def test_a_forecast_of_many_slots_holds_few_of_them_at_once():
    """60 windows of 100,000 slots: the forecast adds less memory than 30 of them have."""
    random = np.random.default_rng(6)
    none = np.zeros(0)
    past = [
        Sketch(random.random(100_000), none.astype(np.int64), none, (), 1.0, 10**6)
        for _ in range(60)
    ]
    tracemalloc.start()
    ahead = forecast(past)
    assert sum(1 for _ in ahead.errors()) == 59
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 30 * 100_000 * 8


def test_room_for_new_keys_pays_beside_a_key_that_is_too_heavy():
    """Beside a key of 60%, its channel keeps no slots that new keys could come to."""
    past = []
    for window in with_new_keys(10, 0.3):
        heavy = hashed_keys(1, 99)
        own = np.argsort(np.append(window.heavy, heavy))
        load = np.append(window.heavy_load, 1500.0)[own]
        slots = window.load + np.bincount(slot_of(heavy, SLOTS), [1500.0], minlength=SLOTS)
        names = tuple(np.append(window.heavy_names, "hot")[own])
        past.append(
            Sketch(slots, np.append(window.heavy, heavy)[own], load, names, window.error, 1)
        )
    ahead = forecast(past[:9])
    profile = profile_for(ahead)
    function = frontier(profile, None, numbered_channels(N), max_imbalance=1.005)
    hot = int(function.lookup_hashes(hashed_keys(1, 99))[0])
    assert (function.slots == hot).sum() <= 1


def test_what_makes_a_forecast_uncertain():
    past = steady(6)
    none = replace(past[0], load=past[0].load * 0, heavy_load=past[0].heavy_load * 0)
    large = replace(past[-1], load=past[-1].load * 100, heavy_load=past[-1].heavy_load * 100)
    one_key = [sketch(np.append(np.full(20, 1.0), 1980.0), 100)] * 4
    new = with_new_keys(6, 0.9)
    for decay in ("auto", 0.5, None):
        assert forecast(past, decay).uncertain == ""
        assert forecast(past[:1], decay).uncertain.startswith("one window with load")
        assert forecast([none, past[0], none], decay).uncertain.startswith("one window with load")
        assert forecast([none], decay).uncertain == "no window has load"
        assert "times the load" in forecast([*past, large], decay).uncertain
        few = forecast([large] * 3 + past[-1:], decay).uncertain
        assert few.startswith("the last window has 1.") and few.endswith("of those before")
        for windows in (1, 50):  # more than the latest that a forecast looks at
            found = forecast(one_key * windows, decay)
            assert found.uncertain == "one key has 99% of the load"
            assert decay is not None or found.weights[-1] == 1 / (4 * windows)
        assert "keys that were not listed before" in forecast(new, decay).uncertain


@pytest.mark.parametrize("decay", ["auto", 0.5, 0.0, 1.0, None])
@pytest.mark.parametrize("windows", [2, 61, 70])
def test_each_window_that_counts_has_a_weight(windows, decay):
    """Also where the last one is left out, as all of its keys are new."""
    for past in (steady(windows), [*steady(windows - 1), *with_new_keys(1, 1.0)]):
        found = forecast(past, decay)
        assert len(found.weights) == len(found.past) <= REACH
        assert found.chance(PartitioningFunction(KEY, numbered_channels(N), np.arange(SLOTS) % N))


def test_one_window_has_the_chance_of_its_rows():
    one = forecast(steady(1))
    function = uniform(profile_for(one), None, numbered_channels(N))
    assert one.chance(function) == pytest.approx(np.sqrt(N / one.sketch.rows))
    closed = uniform(profile_for(one), None, [Channel("a", 0.0), Channel("b", 1.0)])
    assert one.chance(closed) == pytest.approx(np.sqrt(1 / one.sketch.rows))


def test_a_window_a_hundred_times_the_last_counts_as_one():
    past = steady(6)
    large = replace(past[-1], load=past[-1].load * 100, heavy_load=past[-1].heavy_load * 100)
    ahead, same = forecast([*past[:-1], large], 0.5), forecast(past, 0.5)
    share, other = (s.sketch.load / s.sketch.load.sum() for s in (ahead, same))
    assert share == pytest.approx(other)


def test_total_slots_and_keys_agree():
    past = steady(5)
    ahead, whole = forecast(past).sketch, merge(past)
    assert ahead.load.sum() == pytest.approx(whole.load.sum())
    assert ahead.heavy.tolist() == whole.heavy.tolist()
    in_slot = np.bincount(slot_of(ahead.heavy, SLOTS), ahead.heavy_load, minlength=SLOTS)
    assert (ahead.load >= in_slot * (1 - 1e-12)).all()


def test_one_window_or_no_decay_is_the_last_window():
    past = steady(6)
    one = forecast(past[:1])
    assert one.sketch.load == pytest.approx(past[0].load) and not len(list(one.errors()))
    last = forecast(wandering(9), 0.0)
    assert last.sketch.load / last.sketch.load.sum() == pytest.approx(
        wandering(9)[-1].load / wandering(9)[-1].load.sum()
    )


def test_all_alike_without_chance_is_the_merge():
    same = [sketch(zipf(300, 1.0), 0.01)] * 4
    assert forecast(same, 1.0).sketch.load == pytest.approx(merge(same).load)
    assert not np.round(list(forecast(same).errors()), 12).any()


def test_windows_without_load_count_for_nothing():
    past = steady(3)
    none = replace(past[0], load=past[0].load * 0, heavy_load=past[0].heavy_load * 0)
    assert forecast([none, *past, none], 0.5).sketch.load == pytest.approx(
        forecast(past, 0.5).sketch.load
    )
    assert not forecast([none]).sketch.load.any()


def test_an_unlisted_key_does_not_come_from_nothing():
    load = np.append(np.full(300, 10.0), 100.0)
    key = hashed_keys(301)[-1:]
    past = [sketch(load, 101), sketch(load, 101), sketch(load, 50), sketch(load, 50)]
    ahead = forecast(past)
    assert ahead.sketch.heavy.tolist() == key.tolist()
    assert ahead.sketch.heavy_load == pytest.approx([4 * 100.0])
    assert np.abs(list(ahead.errors())).max() < 1e-9


@pytest.mark.parametrize("keys", [lambda w: w, lambda w: 0], ids=["all new", "all return"])
def test_keys_that_are_all_listed_are_foretold_whether_they_return_or_not(keys):
    random, past = np.random.default_rng(4), []
    for window in range(6):
        load = random.permutation(np.arange(1.0, 8.0))
        profile = profile_of_keys(KEY, hashed_keys(7, keys(window)), load, SLOTS, threshold=0.5)
        past.append(profile.sketch())
    for ahead in (forecast(past), forecast(past, 0.7)):
        assert ahead.sketch.load.sum() == pytest.approx(merge(past).load.sum())
        assert np.isfinite(list(ahead.errors())).all() and (ahead.sketch.heavy_load >= 0).all()


def test_profiles_keep_chance():
    profile = replace(profile_for(forecast(steady(8))), chance=0.25)
    again = Profile.from_bytes(profile.to_bytes())
    assert again.chance == 0.25 and isinstance(again.chance, float)
    with pytest.raises(InputError, match="chance"):
        replace(profile, chance=-1.0)


def test_a_profile_of_an_earlier_version_is_read():
    """Those had surprises, (E, S + K), in place of chance."""
    profile = profile_for(forecast(steady(3)))
    with np.load(BytesIO(profile.to_bytes())) as archive:
        old = {name: archive[name] for name in archive.files if name != "chance"}
    file = BytesIO()
    np.savez_compressed(file, surprises=np.zeros((2, SLOTS + len(profile.heavy))), **old)
    again = Profile.from_bytes(file.getvalue())
    assert again.chance == 0 and (again.load == profile.load).all()


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="no sketch"):
        forecast([])
    with pytest.raises(InputError, match="decay"):
        forecast(steady(2), -0.1)
