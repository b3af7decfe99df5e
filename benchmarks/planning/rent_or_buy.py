"""When to rebalance, as a problem of rent or buy, and how far from the best in hindsight that is.

To stay uneven costs a little in each window, as rent does. To move costs once, and then windows are
cheaper. Nobody knows how long the gain will last.
"""

from __future__ import annotations

import numpy as np

from partitioning.errors import InputError
from partitioning.workload.profile import Floats

#: Trust in forecasts, over 0 to 1. A smaller value costs less if forecasts are right, and more if
#: they are wrong. 1 does not look at them.
TRUST = 0.5


def is_due(regret: float, predicted: float, cost: float, trust: float = TRUST) -> bool:
    """Return whether to move now, after what staying has cost so far.

    If a forecast says that moving pays, it is due once staying has cost `trust` times its cost.
    Else it is due once staying has cost 1 / `trust` times its cost. With a right forecast this
    costs at most 1 + `trust` times the best in hindsight. With a wrong one it is at most
    1 + 1 / `trust` times. So no trust gives both 1.2 and 2: these two are for measurements.

    Source: Purohit, Svitkina and Kumar, Improving Online Algorithms via ML Predictions (NeurIPS
    2018), algorithm 2.

    Parameters
    ----------
    regret : what staying has cost so far over what the other function would have cost
    predicted : what staying will cost in all, by a forecast
    cost : of moving, in the same unit as the others

    Raises
    ------
    InputError : a trust that is not over 0 to 1

    Examples
    --------
    >>> [is_due(regret, predicted=9.0, cost=4.0) for regret in (1.0, 2.0)]
    [False, True]
    >>> [is_due(regret, predicted=0.0, cost=4.0) for regret in (4.0, 8.0)]
    [False, True]
    """
    if not 0 < trust <= 1:
        raise InputError(f"must be over 0, and 1 at most, got {trust:g}", "trust", "Give, say, 0.5")
    return regret >= cost * (trust if predicted >= cost else 1 / trust)


def least_cost(windows: Floats, moves: Floats, first: int = 0) -> float:
    """Return the least cost of a sequence of functions, known in hindsight (dynamic programming).

    Parameters
    ----------
    windows : float64 (T, K): cost of each window with each function; infinite: not known yet then
    moves : float64 (K, K): cost of moving from each function to each other one; 0 to itself
    first : the function in force before the first window

    Examples
    --------
    >>> windows = np.array([[3.0, 1.0], [3.0, 1.0], [1.0, 3.0]])
    >>> least_cost(windows, np.array([[0.0, 2.0], [9.0, 0.0]]))
    7.0
    """
    least = np.full(len(moves), np.inf)
    least[first] = 0.0
    for cost in windows:
        least = (least[:, None] + moves).min(axis=0) + cost
    return float(least.min())
