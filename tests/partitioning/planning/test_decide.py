"""decide: it prices the plan that is made, and begins nothing for chance; also on bad input."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from partitioning.function.channels import Channel, numbered_channels
from partitioning.planning.aims import aim_by_chance, most_by_chance
from partitioning.planning.decide import Pace, Policy, decide
from partitioning.planning.plan import Plan, make_plan
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.forecast import forecast
from partitioning.workload.metrics import imbalance_of
from partitioning.workload.profile import Profile, Sketch, profile_of_keys
from tests.support.planning.hot_key import ROW, hot

N, SLOTS = 10, 1024
POLICY = Policy(trigger=1.1, max_imbalance=None, horizon=28)


def window(load, seed: int = 0, heavy: float = 0.001) -> Sketch:
    """Sketch a window of keys with this load."""
    load = np.asarray(load, float)
    least = max(heavy * load.sum(), 1e-9)
    profile = profile_of_keys(KEY, hashed_keys(len(load), seed), load, SLOTS, threshold=least)
    error = float(load[load < least].max(initial=0.0))
    return replace(profile.sketch(), error=error, rows=int(load.sum()))


def expected(past: list[Sketch], decay="auto", function=None) -> tuple[Profile, Policy, Any]:
    """Forecast as a run does: the profile, the policy, and the function in force."""
    ahead = forecast(past, decay)
    s, none = ahead.sketch, np.zeros(len(ahead.sketch.heavy))
    profile = Profile(KEY, s.load, s.load, s.load, s.heavy, s.heavy_load, s.heavy_load, none,
                      s.heavy_names, s.error)  # fmt: skip
    function = function or uniform(profile, None, numbered_channels(N))
    profile = ahead.onto(profile, function)
    return profile, replace(POLICY, max_imbalance=aim_by_chance(profile)), function


def asked(past: list[Sketch], decay="auto", function=None, **policy):
    """Forecast, decide and plan as a run does: the decision, the plan that it would make."""
    profile, own, function = expected(past, decay, function)
    found = decide(profile, function, function.channels, replace(own, **policy))
    aim = own.max_imbalance
    return found, make_plan("t", profile, function, function.channels, max_imbalance=aim), profile


@pytest.mark.parametrize("aim", [None, 1.0, 1.05, 2.0])
@pytest.mark.parametrize("z", [0.8, 1.2, 1.5])
def test_the_price_is_that_of_the_plan(z, aim):
    """With z = 1.5 a key is heavier than the aim: the plan evens out the others, too."""
    profile = profile_of_keys(
        KEY, hashed_keys(2000), 1e6 * zipf(2000, z), SLOTS, threshold=1e6 * 0.001
    )
    before = uniform(profile, None, numbered_channels(N))
    found = decide(profile, before, before.channels, replace(POLICY, max_imbalance=aim))
    plan = make_plan("t", profile, before, before.channels, max_imbalance=aim)
    assert found.bytes == pytest.approx(plan.bytes) and (plan.bytes > 0 or aim == 2.0)
    assert found.reachable == pytest.approx(plan.imbalance_after)


def test_a_budget_and_options_are_priced_too():
    profile = profile_of_keys(KEY, hashed_keys(2000), 1e6 * zipf(2000, 0.8), SLOTS, threshold=1e3)
    before = uniform(profile, None, numbered_channels(N))
    free = decide(profile, before, before.channels, POLICY)
    budget = free.bytes / 3
    found = decide(profile, before, before.channels, replace(POLICY, budget=budget))
    plan = make_plan("t", profile, before, before.channels, budget=budget)
    assert found.bytes == pytest.approx(plan.bytes) and 0 < plan.bytes <= budget
    assert found.reachable == pytest.approx(plan.imbalance_after) and found.reachable > 1.01
    options = {"resources": "C"}
    found = decide(profile, before, before.channels, replace(POLICY, options=options))
    plan = make_plan("t", profile, before, before.channels, options=options)
    assert found.bytes == pytest.approx(plan.bytes)


def test_a_budget_that_does_not_pay_for_whole_keys_fails_no_decision():
    """The plan says that it does not. A table that is even enough asks for no plan."""
    profile, before = hot()
    now = make_plan(
        "t", profile, before, before.channels, max_imbalance=1.02, row=ROW, worth=0.0
    ).function
    policy = replace(POLICY, budget=1)
    found = decide(profile, now, now.channels, policy)
    assert not found.rebalance and "is not over the trigger" in found.reason and found.bytes > 1
    assert decide(profile, now, now.channels, policy, force=True).rebalance


@pytest.mark.parametrize("decay", ["auto", 0.0, 0.5, 1.0, None])
def test_chance_begins_nothing(decay):
    """Even keys, 500 rows in 10 channels: what is uneven is chance, whatever the decay."""
    random, begun, uneven = np.random.default_rng(1), 0, []
    for _ in range(30):
        past = [window(random.poisson(0.05, 10_000)) for _ in range(random.integers(1, 4))]
        profile, policy, function = expected(past, decay)
        found = decide(profile, function, function.channels, policy)
        uneven.append(found.imbalance)
        begun += found.rebalance
        assert found.imbalance <= 1.1 or found.rebalance or "chance" in found.reason
    assert np.mean(np.array(uneven) > 1.1) > 0.3 and begun <= 4


def test_an_aim_over_the_trigger_is_said_to_be_reached():
    past = [window(1e6 * zipf(2000, 0.9))]
    profile, own, function = expected(past)
    found = decide(profile, function, function.channels, replace(own, trigger=1.0))
    assert found.rebalance
    reached = replace(own, trigger=1.0, max_imbalance=round(found.imbalance + 0.1, 2))
    found = decide(profile, function, function.channels, reached)
    assert not found.rebalance
    assert f"is not over the aim, {reached.max_imbalance:g}" in found.reason


def test_what_is_no_chance_is_begun():
    random = np.random.default_rng(2)
    past = [window(random.poisson(1e6 * zipf(2000, 1.0))) for _ in range(3)]
    for decay in ("auto", 0.0, None):
        found, plan, profile = asked(past, decay)
        assert found.rebalance and found.imbalance > most_by_chance(profile, N) > 1
        assert plan.uncertain == found.uncertain == ""


def test_even_channels_stay_within_chance():
    random = np.random.default_rng(3)
    for channels in (2, 10, 100):
        profile = replace(asked([window(np.ones(2000))])[2], chance=0.1)
        worst = 1 + 0.1 * random.standard_normal((4000, channels)).max(axis=1)
        within = float((worst <= most_by_chance(profile, channels)).mean())
        assert within == pytest.approx(0.95, abs=0.02)


STEADY = 1e5 * zipf(3000, 0.9)


def steady(windows: int, seed: int = 7) -> list[Sketch]:
    random = np.random.default_rng(seed)
    return [window(random.poisson(STEADY)) for _ in range(windows)]


def all_new() -> list[Sketch]:
    random = np.random.default_rng(8)
    return [window(random.poisson(200.0, 300), seed=seed) for seed in range(4)]


BAD = {
    "one window only": steady(1),
    "no load": [window(STEADY * 0)],
    "windows without load, and one": [window(STEADY * 0), *steady(1), window(STEADY * 0)],
    "the last 100 times the others": [*steady(5), window(100 * STEADY)],
    "all keys new": all_new(),
    "one key of 99%": [window(np.append(STEADY / 100, 99 * STEADY.sum() / 100))] * 4,
}


@pytest.mark.parametrize("decay", ["auto", 0.5, None])
@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_a_valid_plan_said_to_be_uncertain(name, decay):
    past = BAD[name]
    found, plan, profile = asked(past, decay)
    assert plan.uncertain and found.uncertain == plan.uncertain == profile.uncertain
    assert Plan.from_bytes(plan.to_bytes()).uncertain == plan.uncertain
    assert np.isfinite([plan.bytes, plan.imbalance_after, found.reachable, found.bytes]).all()
    assert plan.imbalance_after <= plan.imbalance_before * (1 + 1e-9)
    # A run that follows on the same windows has no reason to move anything; only a person has.
    again, forced, _ = asked(past, decay, function=plan.function)
    assert not again.rebalance and forced.bytes <= 0.001 * forced.state_bytes


@pytest.mark.parametrize("name", [n for n in BAD if n not in ("all keys new", "one key of 99%")])
def test_bad_input_moves_no_byte_for_chance(name):
    """The function is even for the truth; what the bad windows show beside it is chance."""
    function = asked(steady(30, seed=9))[1].function
    found, _, _ = asked(BAD[name], function=function)
    assert not found.rebalance, found.reason


def test_a_certain_plan_keeps_its_digest():
    _, plan, _ = asked(steady(5))
    assert not plan.uncertain and "uncertain" not in plan.to_dict()
    profile = asked(steady(5))[2]
    assert Profile.from_bytes(replace(profile, uncertain="x").to_bytes()).uncertain == "x"
    assert imbalance_of(plan.function, profile) < 1.05


def test_what_moves_pays_within_the_horizon():
    found, _, _ = asked(steady(5), seconds_per_load=1e-6, pace=Pace(1.0))
    assert not found.rebalance and "saves" in found.reason


def test_what_a_move_saves_counts_open_channels_alone():
    channels = [Channel(str(i), float(i < 2)) for i in range(N)]
    profile, own, function = expected(steady(5))
    function = uniform(profile, None, channels)
    priced = replace(own, seconds_per_load=1.0, pace=Pace(1.0), horizon=1, max_imbalance=1.0)
    found = decide(profile, function, channels, priced, force=True)
    fullest = (found.imbalance - found.reachable) * profile.load.sum() / 2
    assert fullest > 0 and found.saved_seconds == pytest.approx(fullest)


def test_what_a_move_saves_counts_the_channels_that_come():
    """The fullest of 4 channels and of 8 are compared by their load, not by their imbalance."""
    profile, own, _ = expected(steady(5))
    function = uniform(profile, None, numbered_channels(N // 2))
    priced = replace(own, seconds_per_load=1.0, pace=Pace(1.0), horizon=1, max_imbalance=1.0)
    found = decide(profile, function, numbered_channels(N), priced)
    fuller = found.imbalance * 2 - found.reachable
    assert found.rebalance
    assert found.saved_seconds == pytest.approx(fuller * profile.load.sum() / N)
