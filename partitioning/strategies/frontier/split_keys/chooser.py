"""The choice between plans that split keys, plans of whole keys, and no change at all."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.local_search import SHARE_TOLERANCE
from partitioning.strategies.frontier.problem import Problem
from partitioning.strategies.frontier.request import Candidate, Request
from partitioning.strategies.frontier.split_keys.splitting import shared_plan
from partitioning.strategies.frontier.tradeoff import GOOD_ENOUGH_PART, lowest
from partitioning.strategies.frontier.whole_keys import plan_whole_keys
from partitioning.workload.metrics import imbalance_of

#: Relative margin below the aim when planning split keys, because shares are rounded to whole
#: parts of `PARTS_OF_A_KEY`.
SHARE_ROUNDING = 2e-6


def choose_plan(request: Request, problem: Problem) -> PartitioningFunction:
    """Return the function that splits keys only where whole keys do not do.

    Examples
    --------
    >>> from partitioning.function.channels import numbered_channels
    >>> from partitioning.strategies.frontier.options import FrontierOptions
    >>> from partitioning.streams.zipf_stream import KEY, hashed_keys
    >>> from partitioning.workload.profile import profile_of_keys
    >>> load = np.append(np.ones(99), 99.0)  # one key has half of the load
    >>> profile = profile_of_keys(KEY, hashed_keys(100, 0), load, 64, threshold=2.0)
    >>> options = FrontierOptions(max_imbalance=1.01, splitting=True)
    >>> request = Request.of(profile, None, numbered_channels(4), options)
    >>> len(choose_plan(request, request.problem(profile, None)).split)
    1

    Raises
    ------
    InputError : several resources, or a budget that does not empty the channels that close
    """
    if len(set(request.options.resources)) > 1:
        raise InputError("splitting evens out one resource", "resources", "Give one, say L")
    whole = _whole_keys_suffice(request, problem)
    return request.function(_best_split(request, problem)) if whole is None else whole


def _whole_keys_suffice(request: Request, problem: Problem) -> PartitioningFunction | None:
    """Return the function of whole keys if it is good enough, else None."""
    aim = request.options.max_imbalance
    if aim is None:
        return None
    if problem.forced > request.budget:
        return None
    function = request.function(plan_whole_keys(request, problem))
    reached = imbalance_of(function, request.profile)
    enough = reached <= aim * (1 + SHARE_TOLERANCE)
    affordable = enough and request.bytes_to_join(problem, function) <= request.budget
    return function if affordable else None


@dataclass
class _SplitPlanner:
    """Plan split keys for one aim after another, and keep every candidate in `tried`."""

    request: Request
    problem: Problem
    tried: list[Candidate] = field(default_factory=list)

    @property
    def reached(self) -> float:
        """Least imbalance of all candidates."""
        return min(c.imbalance for c in self.tried)

    def plan(self, aim: float) -> tuple[float, Candidate] | None:
        """Return the imbalance reached and its candidate; None where the aim is missed."""
        options = self.request.options
        found = shared_plan(
            self.problem,
            self.request.previous,
            aim,
            self.request.budget,
            options.copies,
            options.worth,
        )
        self.tried.append(found)
        return (found.imbalance, found) if found.imbalance <= _rounded(aim) else None


def _rounded(aim: float) -> float:
    """Return the most imbalance that counts as the aim."""
    return aim * (1 + SHARE_ROUNDING)


def _best_split(request: Request, problem: Problem) -> Candidate:
    """Return the best of several plans with split keys, or the unchanged function."""
    aim, copies = request.options.max_imbalance, request.options.copies
    aim = 1 + GOOD_ENOUGH_PART if aim is None else max(1.0, aim * (1 - SHARE_ROUNDING))
    level, unchanged = _unchanged(request, problem)

    def allowed(candidate: Candidate) -> bool:
        return copies is None or candidate.most_copies <= copies

    stays = unchanged is not None and allowed(unchanged)
    if unchanged is not None and stays and unchanged.imbalance <= _rounded(aim):
        return unchanged
    planner = _SplitPlanner(request, problem)
    if planner.plan(aim) is None and unchanged is not None and stays:
        planner.tried.append(unchanged)
    if request.budget < np.inf and planner.reached > _rounded(aim):
        # A budget too small for the aim would be spent on the first channels only.
        if level < planner.tried[0].imbalance:
            planner.plan(_rounded(level))
        lowest(aim, planner.reached, planner.plan, request.deadline)
    found = [c for c in planner.tried if allowed(c)]
    if not found:
        # The budget does not pay for all of the way to fewer copies: as far as it goes, if at all.
        found = planner.tried if unchanged is None or stays else [unchanged, *planner.tried]
        if even := [c for c in found if c.imbalance <= _rounded(aim)]:
            return min(even, key=lambda c: c.copies)
    # A candidate that missed its own aim may still be the most even.
    return min(found, key=lambda c: c.imbalance)


def _unchanged(request: Request, problem: Problem) -> tuple[float, Candidate | None]:
    """Return the imbalance of the previous function, and the function if it may stay.

    The imbalance is infinite where the channels change. It may not stay where channels
    close, where a key was put elsewhere by hand, or where a named key is split.
    """
    previous = request.previous
    if previous is None or previous.channels != request.channels:
        return np.inf, None
    level = imbalance_of(previous, request.profile)
    fixed = problem.profile.heavy[problem.fixed[problem.profile.slots :]]
    named_is_split = (previous.split.find(fixed) >= 0).any()
    if named_is_split or (problem.start != problem.home).any():
        return level, None
    return level, Candidate(problem, problem.home, level, previous.split.weights)
