"""forecast: what it must find in made-up pasts, and that planning for it pays the next time."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.function import Channel, numbered_channels
from partitioning.function.hashing import slot_of
from partitioning.planning.decide import aim_by_chance
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.forecast import NEAR, forecast
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import Profile, Sketch, merge, profile_of_keys

SLOTS, N = 64, 4


def sketch(load, threshold=np.inf, listed=None) -> Sketch:
    hashes = hashed_keys(len(load))
    return profile_of_keys(KEY, hashes, load, SLOTS, threshold=threshold, listed=listed).sketch()


def steady(windows: int, seed: int = 0) -> list[Sketch]:
    """One truth, drawn from again and again."""
    random = np.random.default_rng(seed)
    return [sketch(random.poisson(2000 * zipf(300, 0.8)).astype(float), 60) for _ in range(windows)]


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


def test_of_decays_that_are_about_as_good_the_largest_is_taken():
    # A slow walk with much chance: 0.8 is best by little, and 0.9 moves less.
    errors = {}
    past = steady(30, seed=3)
    for decay in (0.65, 0.8, 0.9):
        errors[decay] = np.square(forecast(past, decay).errors).sum()
    least = min(errors.values())
    near = [d for d, e in errors.items() if e <= NEAR * least]
    assert forecast(past).decay == max(near) and len(near) > 1


def test_errors_are_what_came_less_what_was_forecast():
    past = steady(4)
    ahead = forecast(past, 0.0)
    heavy = merge(past).heavy
    assert ahead.errors.shape == (3, SLOTS + len(heavy))
    assert ahead.errors.sum(axis=1) == pytest.approx(0, abs=1e-12)
    # With a decay of 0 the forecast is the window before.
    assert np.allclose(forecast(past[:3], 0.0).errors, ahead.errors[:2])


def test_chance_is_what_independent_windows_differ_by():
    """Windows of one truth, by Poisson's law: a channel of load l is off by the root of l."""
    random = np.random.default_rng(4)
    past = [sketch(random.poisson(100.0, 300).astype(float)) for _ in range(40)]
    function = uniform(profile_for(forecast(past)), None, numbered_channels(N))
    ahead = forecast(past, 0.9)
    # The error of a forecast has the window's chance, and that of the mean of about 19 windows.
    expected = np.sqrt(0.9 * 0.1 * (1 / 7500) * (1 + 1 / 19))
    assert ahead.chance(function) == pytest.approx(expected, rel=0.5)
    assert forecast(past, 0.0).chance(function) == 0  # the last window differs by drift alone
    assert ahead.chance(None) == 0


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
    assert one.sketch.load == pytest.approx(past[0].load) and not len(one.errors)
    last = forecast(wandering(9), 0.0)
    assert last.sketch.load / last.sketch.load.sum() == pytest.approx(
        wandering(9)[-1].load / wandering(9)[-1].load.sum()
    )


def test_all_alike_without_chance_is_the_merge():
    same = [sketch(zipf(300, 1.0), 0.01)] * 4
    assert forecast(same, 1.0).sketch.load == pytest.approx(merge(same).load)
    assert not forecast(same).errors.round(12).any()


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
    assert np.abs(ahead.errors).max() < 1e-9


@pytest.mark.parametrize("keys", [lambda w: w, lambda w: 0], ids=["all new", "all return"])
def test_keys_that_are_all_listed_are_foretold_whether_they_return_or_not(keys):
    random, past = np.random.default_rng(4), []
    for window in range(6):
        load = random.permutation(np.arange(1.0, 8.0))
        profile = profile_of_keys(KEY, hashed_keys(7, keys(window)), load, SLOTS, threshold=0.5)
        past.append(profile.sketch())
    for ahead in (forecast(past), forecast(past, 0.7)):
        assert ahead.sketch.load.sum() == pytest.approx(merge(past).load.sum())
        assert np.isfinite(ahead.errors).all() and (ahead.sketch.heavy_load >= 0).all()


def profile_for(ahead) -> Profile:
    s = ahead.sketch
    none = np.zeros(len(s.heavy))
    bare = Profile(
        KEY, s.load, s.load, s.load, s.heavy, none, s.heavy_load, none, s.heavy_names, s.error
    )
    return ahead.onto(bare)


def test_planning_for_it_is_more_even_next_time_and_moves_less():
    scores = []
    for told in (False, True):
        function, score = None, []
        past = steady(13, seed=4)
        for t in range(12):
            ahead = forecast(past[: t + 1] if told else past[t : t + 1])
            profile = profile_for(ahead)
            before, function = function, frontier(profile, function, numbered_channels(N))
            after = profile_for(forecast(past[t + 1 : t + 2]))
            kept = before is None or (before.slots == function.slots).mean()
            even = imbalance(channel_loads(function, after), function.capacities)
            score.append((even, 1 - kept))
        scores.append(np.mean(score[3:], axis=0))
    assert (scores[1] < 0.97 * scores[0]).any() and (scores[1] < scores[0]).all()


def test_planning_again_on_a_forecast_moves_nothing():
    profile = profile_for(forecast(steady(8)))
    once = frontier(profile, None, numbered_channels(N))
    again = frontier(profile, once, numbered_channels(N))
    assert (again.slots == once.slots).all()
    assert again.explicit_keys.tolist() == once.explicit_keys.tolist()


def test_nothing_moves_for_chance():
    """Windows of one truth: after the first plan the aim by chance is kept without a move."""
    past, function, moved = steady(30, seed=9), None, []
    for count in range(4, len(past)):
        ahead = forecast(past[:count])
        profile = ahead.onto(profile_for(ahead), function)
        before = function
        aim = aim_by_chance(profile)
        function = frontier(profile, before, numbered_channels(N), max_imbalance=aim)
        if before is not None:
            moved.append((before.slots != function.slots).mean())
    assert np.mean(moved[10:]) < 0.01  # a slot of 64 in every second plan


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
