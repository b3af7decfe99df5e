"""Plans that leave every key whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.strategies.frontier.assignment import Ints
from partitioning.strategies.frontier.problem import Problem
from partitioning.strategies.frontier.request import Candidate, Request
from partitioning.strategies.frontier.tradeoff import CLOSE, best_state

#: Part of a mean slot's load, and of its bytes, up to which a heavy key needs no place of its own.
#: A larger value keeps fewer explicit keys, and may move more bytes when they return.
LIGHT = 0.1


def plan_whole_keys(request: Request, task: Problem) -> Candidate:
    """Return the state with the fewest bytes, or the least imbalance, that whole keys reach.

    Explicit keys that are light by now go back to their slots, where that costs no balance.

    Examples
    --------
    >>> from partitioning.function.function import numbered_channels
    >>> from partitioning.strategies.frontier.options import FrontierOptions
    >>> from partitioning.streams.zipf_stream import KEY, hashed_keys
    >>> from partitioning.workload.profile import profile_of_keys
    >>> profile = profile_of_keys(KEY, hashed_keys(100, 0), np.ones(100), 64)
    >>> request = Request.of(profile, None, numbered_channels(4), FrontierOptions())
    >>> round(plan_whole_keys(request, request.problem(profile, None)).imbalance, 6)
    1.0
    """
    options, previous, budget = request.options, request.previous, request.budget
    at = best_state(task, options.max_imbalance, budget)
    every = Candidate(task, at, task.worst(at))
    light = _light_keys(request, task, at)
    if previous is None or not len(light):
        return every
    dropped = np.isin(task.profile.heavy, light)
    budget -= float(task.sizes[task.profile.slots :][dropped].sum())
    fewer = request.problem(task.profile.without(light), _without(previous, light))
    if fewer.forced > budget:
        return every
    at = best_state(fewer, options.max_imbalance, budget)
    found = Candidate(fewer, at, fewer.worst(at))
    best = task.floor * (1 + CLOSE) if options.budget is None else 1.0
    worse = found.imbalance > max(every.imbalance, options.max_imbalance or best)
    return every if worse else found


def _without(function: PartitioningFunction, keys: Hashes) -> PartitioningFunction:
    """Return the function without these explicit keys, which then go with their slots."""
    kept = ~np.isin(function.explicit_keys, keys)
    return replace(
        function,
        explicit_keys=function.explicit_keys[kept],
        explicit_channels=function.explicit_channels[kept],
    )


def _light_keys(request: Request, task: Problem, at: Ints) -> Hashes:
    """Return the explicit keys that could go with their slots; none where nothing moves.

    Their load is known, no person named them, and they have at most `LIGHT` of a mean slot's load
    and bytes.
    """
    previous = request.previous
    if previous is None or (at == task.home).all():
        return np.empty(0, dtype=np.int64)
    named = [*(h for h, _ in request.pinned), *request.excluded]
    known = np.setdiff1d(request.profile.heavy, named)
    count = task.profile.slots
    items = count + np.searchsorted(task.profile.heavy, previous.explicit_keys)
    light = np.ones(len(items), dtype=np.bool_)
    for values in (task.load, task.sizes):
        light &= values[items] <= LIGHT * float(values.sum()) / count
    return previous.explicit_keys[light & np.isin(previous.explicit_keys, known)]
