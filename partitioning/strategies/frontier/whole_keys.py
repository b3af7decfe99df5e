"""Plans that leave every key whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, positions
from partitioning.strategies.frontier.assignment import Ints
from partitioning.strategies.frontier.options import FrontierOptions
from partitioning.strategies.frontier.problem import Problem
from partitioning.strategies.frontier.request import Candidate, Request
from partitioning.strategies.frontier.tradeoff import (
    GOOD_ENOUGH_PART,
    best_assignment,
    whole_path,
)
from partitioning.workload.profile import Profile

#: Part of a mean slot's load, and of its bytes, up to which a heavy key needs no place of its own.
#: A larger value keeps fewer pinned keys, and may move more bytes when they return.
LIGHT_KEY_PART = 0.1
#: Imbalance that a move must gain for each part of all state that it moves. At 1 a plan has the
#: least sum of both. A larger value moves less state, and leaves more imbalance. It matters where
#: keys are few. Chosen on half of the sets of `make bench ARGS=unseen`.
PRICE = 1.0


def level_worth(
    profile: Profile, previous: PartitioningFunction, channels: Sequence[Channel], aim: float
) -> float:
    """Return the imbalance down to which evening out is worth its bytes; at least `aim`.

    The last bit of balance may take as many bytes as all before it, where keys are few.

    Parameters
    ----------
    profile, previous, channels : as in `trace`
    aim : imbalance below which nothing is gained

    Raises
    ------
    InputError : as in `trace`

    Examples
    --------
    Half of the load would move to get from 1.02 to 1.

    >>> from partitioning.function.channels import numbered_channels
    >>> from partitioning.strategies.hashing import uniform
    >>> from partitioning.streams.zipf_stream import KEY
    >>> from partitioning.workload.profile import profile_of_keys
    >>> profile = profile_of_keys(KEY, np.arange(4), np.array([26.0, 24, 25, 25]), 4)
    >>> before = uniform(profile, None, numbered_channels(2))
    >>> round(level_worth(profile, before, numbered_channels(2), 1.005), 2)
    1.02
    """
    problem = Request.of(profile, previous, channels, FrontierOptions()).problem(profile, previous)
    size = float(profile.bytes.sum())
    if not size or problem.worst(problem.start) <= aim:
        return aim
    path = whole_path(problem)
    kept = path.pareto()
    imbalance = np.maximum(path.imbalance[kept], aim)
    best = int((imbalance + PRICE * path.bytes[kept] / size).argmin())
    # At the end of the path the other channels may still come even, down to the aim.
    return aim if best == len(kept) - 1 else float(imbalance[best])


def plan_whole_keys(request: Request, problem: Problem) -> Candidate:
    """Return the candidate of whole keys with the fewest bytes, or the least imbalance.

    Pinned keys that are light by now go back to their slots, where that costs no balance.

    Examples
    --------
    >>> from partitioning.function.channels import numbered_channels
    >>> from partitioning.strategies.frontier.options import FrontierOptions
    >>> from partitioning.streams.zipf_stream import KEY, hashed_keys
    >>> from partitioning.workload.profile import profile_of_keys
    >>> profile = profile_of_keys(KEY, hashed_keys(100, 0), np.ones(100), 64)
    >>> request = Request.of(profile, None, numbered_channels(4), FrontierOptions())
    >>> round(plan_whole_keys(request, request.problem(profile, None)).imbalance, 6)
    1.0
    """
    options, previous, budget = request.options, request.previous, request.budget
    at = best_assignment(problem, options.max_imbalance, budget)
    every = Candidate(problem, at, problem.worst(at))
    light = _light_keys(request, problem, at)
    if previous is None or not len(light):
        return every
    dropped = np.isin(problem.profile.heavy, light)
    budget -= float(problem.sizes[problem.profile.slots :][dropped].sum())
    fewer = request.problem(problem.profile.without(light), _without(previous, light))
    if fewer.forced > budget:
        return every
    at = best_assignment(fewer, options.max_imbalance, budget)
    found = Candidate(fewer, at, fewer.worst(at))
    best = problem.floor * (1 + GOOD_ENOUGH_PART) if options.budget is None else 1.0
    worse = found.imbalance > max(every.imbalance, options.max_imbalance or best)
    return every if worse else found


def _without(function: PartitioningFunction, keys: Hashes) -> PartitioningFunction:
    """Return the function without these pinned keys, which then go with their slots."""
    kept = ~np.isin(function.explicit_keys, keys)
    return replace(
        function,
        explicit_keys=function.explicit_keys[kept],
        explicit_channels=function.explicit_channels[kept],
    )


def _light_keys(request: Request, problem: Problem, at: Ints) -> Hashes:
    """Return the pinned keys that could go with their slots; none where nothing moves.

    Their load is known, and no person named them. Their load and bytes are at most `LIGHT_KEY_PART`
    of a mean slot's.
    """
    previous = request.previous
    if previous is None or (at == problem.home).all():
        return np.empty(0, dtype=np.int64)
    named = [*(h for h, _ in request.pinned), *request.excluded]
    count = problem.profile.slots
    items = count + np.searchsorted(problem.profile.heavy, previous.explicit_keys)
    light = np.ones(len(items), dtype=np.bool_)
    for values in (problem.load, problem.sizes):
        light &= values[items] <= LIGHT_KEY_PART * float(values.sum()) / count
    explicit = previous.explicit_keys
    known = (positions(explicit, request.profile.heavy) >= 0) & ~np.isin(explicit, named)
    return explicit[light & known]
