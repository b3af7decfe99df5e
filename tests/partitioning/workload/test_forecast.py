"""forecast: what it must find in made-up pasts, and that planning for it pays the next time."""

import os
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.function.function import numbered_channels
from partitioning.function.hashing import slot_of
from partitioning.strategies.frontier.strategy import frontier
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.forecast import best_sketches, forecast, next_window
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import Profile, Sketch, merge, profile_of_keys

ROOT = Path(__file__).resolve().parents[3]
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
    assert min(forecast(steady(12)).decays) >= 0.95
    assert max(forecast(wandering(12)).decays) <= 0.15


def test_tails_and_keys_have_decays_of_their_own():
    # Keys that wander, beside slots that only chance tells apart.
    random, past, keys = np.random.default_rng(5), [], np.full(20, 200.0)
    for _ in range(12):
        keys = keys * random.lognormal(0, 0.5, len(keys))
        keys *= 4000 / keys.sum()
        tail = random.poisson(10.0, 280).astype(float)
        past.append(sketch(np.concatenate([keys, tail]), listed=hashed_keys(20)))
    ahead = forecast(past)
    of_tails, of_keys = ahead.decays
    assert of_keys <= 0.3 and of_tails >= 0.85
    assert forecast(past, 0.6).decays == (0.6, 0.6)


def test_pieces_are_taken_where_they_foretell_better():
    random, walk = np.random.default_rng(6), drifting(8)
    assert best_sketches(walk[:1]) == walk[0]
    assert best_sketches(walk) == [s for window in walk for s in window]
    # One truth, but for what part of a window belongs to which piece.
    chance = []
    for _ in range(8):
        parts = random.dirichlet(np.full(3, 0.5), 300).T * 100
        chance.append([sketch(x) for x in parts])
    found = best_sketches(chance)
    assert len(found) == 8
    assert found[0].load == pytest.approx(merge(chance[0]).load)


def test_the_next_window_is_surprised_less_than_a_piece():
    chance = np.random.default_rng(9)
    past = [[sketch(chance.poisson(50.0, 300).astype(float)) for _ in range(4)]]
    ahead, of_pieces = next_window(past), forecast(past[0])
    assert np.square(ahead.surprises).sum() == pytest.approx(
        np.square(of_pieces.surprises).sum() / 4
    )
    assert (ahead.sketch.load == of_pieces.sketch.load).all()
    with pytest.raises(InputError, match="no sketch"):
        next_window([])


def drifting(windows: int) -> list[list[Sketch]]:
    """A walk of three steps a window."""
    random, load, out = np.random.default_rng(8), np.full(300, 1e4), []
    for _ in range(windows):
        steps = []
        for _ in range(3):
            load = load * random.lognormal(0, 0.3, 300)
            steps.append(sketch(load))
        out.append(steps)
    return out


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
    assert one.sketch.load == pytest.approx(past[0].load) and not len(one.surprises)
    # Drift is not chance: what the last window says is not drawn in.
    last = forecast(wandering(9), 0.0)
    assert last.sketch.load / last.sketch.load.sum() == pytest.approx(
        wandering(9)[-1].load / wandering(9)[-1].load.sum()
    )
    assert not len(last.surprises)


def test_all_alike_without_chance_is_the_merge():
    same = [sketch(zipf(300, 1.0), 0.01)] * 4
    assert forecast(same, 1.0).sketch.load == pytest.approx(merge(same).load)
    assert not forecast(same).surprises.round(12).any()


def test_chance_is_drawn_in():
    # Slots that are all alike: what differs between them is chance, and will not last.
    random = np.random.default_rng(2)
    bare = sketch(np.ones(1))
    past = [replace(bare, load=random.poisson(40.0, SLOTS).astype(float)) for _ in range(10)]
    spread, last = forecast(past).sketch.load, past[-1].load
    assert spread.std() / spread.mean() < 0.5 * last.std() / last.mean()


def test_an_unlisted_key_does_not_come_from_nothing():
    load = np.append(np.full(300, 10.0), 100.0)
    key = hashed_keys(301)[-1:]
    past = [sketch(load, 101), sketch(load, 101), sketch(load, 50), sketch(load, 50)]
    ahead = forecast(past)
    assert ahead.sketch.heavy.tolist() == key.tolist()
    assert ahead.sketch.heavy_load == pytest.approx([4 * 100.0])
    assert np.abs(ahead.surprises).max(initial=0.0) < 1e-9 * load.sum()


@pytest.mark.parametrize("keys", [lambda w: w, lambda w: 0], ids=["all new", "all return"])
def test_keys_that_are_all_listed_are_foretold_whether_they_return_or_not(keys):
    random, past = np.random.default_rng(4), []
    for window in range(6):
        load = random.permutation(np.arange(1.0, 8.0))
        profile = profile_of_keys(KEY, hashed_keys(7, keys(window)), load, SLOTS, threshold=0.5)
        past.append(profile.sketch())
    for ahead in (forecast(past), next_window([[s] for s in past]), forecast(past, 0.7)):
        assert ahead.sketch.load.sum() == pytest.approx(merge(past).load.sum())
        assert np.isfinite(ahead.surprises).all() and (ahead.sketch.heavy_load >= 0).all()


def test_surprises_keep_the_mean_products():
    # Keys 0 and 1 rise and fall together, key 2 against them.
    random, past = np.random.default_rng(3), []
    for swing in random.normal(0, 30, 30):
        load = np.full(100, 50.0)
        load[:3] += 100 + np.array([swing, swing, -swing])
        past.append(sketch(load, 70, hashed_keys(3)))
    ahead = forecast(past, 1.0)
    order = np.searchsorted(ahead.sketch.heavy, hashed_keys(3))
    products = ahead.surprises.T @ ahead.surprises
    keys = products[SLOTS:, SLOTS:][np.ix_(order, order)]
    assert (np.sign(keys) == [[1, 1, -1], [1, 1, -1], [-1, -1, 1]]).all()
    assert np.sqrt(keys[0, 0]) == pytest.approx(30 * 30, rel=0.3)  # 30 windows of a swing of 30


def test_keys_that_rise_together_sit_apart():
    load = np.array([40.0, 40, 40, 40])
    past = []
    for i in range(12):
        swing = 15.0 * (-1) ** (i // 2)
        past.append(sketch(load + np.array([swing, swing, -swing, -swing]), 1))
    ahead = forecast(past, 1.0)
    function = frontier(profile_for(ahead), None, numbered_channels(2))
    at = function.lookup_hashes(hashed_keys(4))
    assert at[0] != at[1] and at[2] != at[3]


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


def test_where_no_key_is_too_heavy_surprises_count_though_keys_may_be_split():
    ahead, channels = forecast(steady(12)), numbered_channels(N)
    whole = frontier(profile_for(ahead), None, channels)
    may = frontier(profile_for(ahead), None, channels, splitting=True)
    assert not len(may.split) and (may.slots == whole.slots).all()
    assert (may.lookup_hashes(hashed_keys(300)) == whole.lookup_hashes(hashed_keys(300))).all()
    # A key that is heavier than a channel's share is split all the same.
    hot = [sketch(np.append(500.0 * t, np.full(299, 3.0)), 60) for t in range(1, 12)]
    assert len(frontier(profile_for(forecast(hot)), None, channels, splitting=True).split)


def test_a_plan_is_the_same_on_any_processor():
    """Linear algebra's last bits hang on the processor's kernels; no plan may."""
    said = set()
    for kernels in ("Prescott", "Nehalem", None):
        env = os.environ if kernels is None else {**os.environ, "OPENBLAS_CORETYPE": kernels}
        code = "from tests.partitioning.workload.test_forecast import planned; print(planned())"
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        said.add(done.stdout)
    assert len(said) == 1


def planned() -> str:
    """The surprises of a row of forecasts, and what the functions planned for them say."""
    past, function, said = steady(20, seed=7), None, sha256()
    for t in range(8, len(past)):
        ahead = forecast(past[:t])
        function = frontier(profile_for(ahead), function, numbered_channels(N))
        said.update(ahead.surprises.tobytes() + function.lookup_hashes(hashed_keys(300)).tobytes())
    return said.hexdigest()


def test_profiles_keep_surprises():
    profile = profile_for(forecast(steady(8)))
    again = Profile.from_bytes(profile.to_bytes())
    assert (again.surprises == profile.surprises).all() and len(again.surprises)
    more = profile.listing(hashed_keys(310)[-3:])
    old = np.isin(more.heavy, profile.heavy)
    assert (more.surprises[:, SLOTS:][:, old] == profile.surprises[:, SLOTS:]).all()
    assert not more.surprises[:, SLOTS:][:, ~old].any()
    with pytest.raises(InputError, match="surprises"):
        replace(profile, surprises=profile.surprises[:, 1:])


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="no sketch"):
        forecast([])
    with pytest.raises(InputError, match="decay"):
        forecast(steady(2), -0.1)
