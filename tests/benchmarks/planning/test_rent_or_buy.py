"""rent or buy: its two guarantees on every single purchase, and the best in hindsight by force."""

import doctest
from itertools import product

import numpy as np
import pytest

from benchmarks.planning import rent_or_buy
from benchmarks.planning.rent_or_buy import is_due, least_cost
from partitioning.errors import InputError


def paid(days: int, predicted: float, cost: float, trust: float, rent: float) -> float:
    """What the rule pays in all if a gain of `rent` a window lasts for `days` windows."""
    for day in range(days):
        if is_due(day * rent, predicted, cost, trust):
            return day * rent + cost
    return days * rent


@pytest.mark.parametrize("trust", [0.2, 0.5, 1.0])
def test_the_guarantees_hold_and_are_met(trust):
    rent, cost, right, wrong = 0.01, 1.0, [], []
    for days in (1, 10, 19, 20, 21, 50, 51, 99, 100, 101, 150, 200, 201, 499, 500, 501, 2000):
        best = min(days * rent, cost)
        for predicted in (0.0, days * rent, 100.0):
            ratio = paid(days, predicted, cost, trust, rent) / best
            exact = (predicted >= cost) == (days * rent >= cost)
            (right if exact else wrong).append(ratio)
    # A window is a whole step, so that the limits are passed by no more than its rent.
    assert max(right) <= 1 + trust + rent and max(wrong) <= 1 + 1 / trust + rent / trust
    assert max(right) >= 1 + trust - rent and max(wrong) >= 1 + 1 / trust - 5 * rent


def test_the_best_in_hindsight_is_that_of_all_sequences():
    random = np.random.default_rng(1)
    for _ in range(20):
        windows, moves = random.random((4, 3)), random.random((3, 3)) * 0.7
        np.fill_diagonal(moves, 0.0)
        windows[0, 2] = np.inf
        every = [
            sum(windows[t, k] for t, k in enumerate(path))
            + sum(moves[a, b] for a, b in zip((1, *path), path, strict=False))
            for path in product(range(3), repeat=4)
        ]
        assert least_cost(windows, moves, first=1) == pytest.approx(min(every))


def test_a_trust_out_of_range_is_refused():
    for trust in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="trust"):
            is_due(1.0, 1.0, 1.0, trust)


def test_its_examples_print_what_they_say():
    done = doctest.testmod(rent_or_buy)
    assert done.failed == 0 < done.attempted
