"""Planning for a forecast pays the next time, and moves nothing for chance."""

from itertools import product

import numpy as np

from partitioning.function.channels import numbered_channels
from partitioning.planning.aims import aim_by_chance
from partitioning.strategies.frontier.strategy import frontier
from partitioning.workload.forecast import forecast
from partitioning.workload.metrics import imbalance_of
from tests.support.planning.pasts import N, profile_for, steady


def test_planning_for_it_is_more_even_next_time_and_moves_no_more():
    scores = []
    for told, seed in product((False, True), range(8)):
        function, score = None, []
        past = steady(13, seed)
        for t in range(12):
            ahead = forecast(past[: t + 1] if told else past[t : t + 1])
            profile = profile_for(ahead)
            before, function = function, frontier(profile, function, numbered_channels(N))
            after = profile_for(forecast(past[t + 1 : t + 2]))
            kept = before is None or (before.slots == function.slots).mean()
            even = imbalance_of(function, after)
            score.append((even - 1, 1 - kept))
        scores.append(np.mean(score[3:], axis=0))
    last, ahead = np.reshape(scores, (2, 8, 2)).mean(axis=1)
    assert ahead[0] < 0.85 * last[0] and ahead[1] < 1.1 * last[1], (last, ahead)


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
