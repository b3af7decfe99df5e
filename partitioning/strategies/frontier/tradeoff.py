"""The whole curve of imbalance against bytes moved, and the best point of it for what is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from partitioning.errors import InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.assignment import Ints
from partitioning.strategies.frontier.cheapest_shedding import cheaper_shedding, packed
from partitioning.strategies.frontier.local_search import SHARE_TOLERANCE
from partitioning.strategies.frontier.pair_repack import FEW_ITEMS, repack_pairs
from partitioning.strategies.frontier.problem import Path, Problem, problem_of
from partitioning.workload.bounds import least_bytes
from partitioning.workload.profile import Floats, Profile

State = TypeVar("State")
#: Part of the best imbalance that counts as equal to it. A larger value ends searches earlier.
GOOD_ENOUGH_PART = 8e-4
#: Points of the lower bound. A larger value draws it finer, and takes longer.
GRID = 64
#: Times that the search may begin again from its own result. It ends when nothing more is found.
PASSES = 8
#: Times that the span between two levels is halved, in search of the lowest for a budget. Each
#: halving costs one search.
HALVINGS = 5
#: States of a path from which few items are packed. A larger value may find a more even one.
STARTS = 4


@dataclass(frozen=True, eq=False)
class Curve:
    """The cost of balance.

    Parameters
    ----------
    bytes, imbalance : float64 (m,): feasible functions, bytes rising and imbalance falling
    bound_bytes, bound_imbalance : float64 (g,): no function moves less for that imbalance
    floor : no function without splitting has less imbalance
    """

    bytes: Floats
    imbalance: Floats
    bound_bytes: Floats
    bound_imbalance: Floats
    floor: float


@lru_cache(maxsize=4)
def whole_path(problem: Problem) -> Path:
    """Return the path to as even as possible; planning again from its end finds nothing."""
    path = _searched(problem)
    for _ in range(PASSES):
        if time.monotonic() > problem.deadline:
            break
        end = path.pareto()[-1]
        at = path.at(end)
        again = _searched(replace(problem, start=at, home=at))
        if again.imbalance.min() >= path.imbalance[end] * (1 - SHARE_TOLERANCE):
            break
        path = problem.replay([*path.moves[: end + 1], *again.moves[1:]])
    return path


def _searched(problem: Problem) -> Path:
    """Search until as even as possible; pack few items at the end."""
    path = problem.search(problem.floor, problem.floor * (1 + GOOD_ENOUGH_PART))
    end = path.pareto()[-1]
    at = path.at(end)
    packed = _packed(problem, path, at, np.inf, problem.floor)
    step = [(item, int(packed[item])) for item in np.flatnonzero(packed != at).tolist()]
    return problem.replay([*path.moves[: end + 1], step]) if step else path


def _packed(problem: Problem, path: Path, at: Ints, budget: float, stop: float) -> Ints:
    """Return the most even assignment, down to `stop`, that pairs of channels get to for a budget.

    They start from `at`, and from what of a path is near it. The result is `at` where there are too
    many items, or other things to be even.
    """
    loose = np.flatnonzero(~problem.fixed)
    if len(loose) > FEW_ITEMS or len(problem.measures) != 1 or problem.poured:
        return at
    charged, stop = problem.sizes * (problem.home >= 0), stop * (1 + GOOD_ENOUGH_PART)
    kept = [k for k in path.pareto() if path.bytes[k] <= budget][-STARTS:]
    best = at
    for start in (at, *map(path.at, kept), problem.start):
        if problem.worst(best) <= stop or time.monotonic() > problem.deadline:
            break
        found = repack_pairs(
            problem.load, charged, problem.home, start, problem.fair, loose, budget, stop
        )
        best = min(best, found, key=lambda at: (problem.worst(at), problem.moved(at)))
    return best


def trace(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    pinned: tuple[tuple[int, int], ...] = (),
    excluded: tuple[int, ...] = (),
) -> Curve:
    """Return imbalance against bytes moved, from `previous` to as even as the load gets.

    Channels that are dropped or have capacity 0 are emptied first, so that the curve may begin
    above 0 bytes. Without a previous function there is no state to move: one point, at 0 bytes.

    Parameters
    ----------
    profile : what is known of the load and the state
    previous : the function in force, or None
    channels : the N owners to be
    pinned, excluded : as in `problem_of`

    Raises
    ------
    InputError : unusable channels, or a previous function with another S
    """
    problem = problem_of(profile, previous, tuple(channels), "L", pinned, excluded)
    path = whole_path(problem)
    kept = path.pareto()
    grid = np.linspace(max(float(path.imbalance[0]), problem.floor), problem.floor, GRID)
    return Curve(
        bytes=path.bytes[kept],
        imbalance=path.imbalance[kept],
        bound_bytes=least_bytes(
            problem.load, problem.sizes, problem.home, problem.capacities, grid
        ),
        bound_imbalance=grid,
        floor=problem.floor,
    )


def best_assignment(problem: Problem, max_imbalance: float | None, budget: float) -> Ints:
    """Return the best assignment for an aim and a budget: where each item goes, int32 (n,).

    It is on the whole path, or on a search for this aim or budget, if the whole path does not
    end inside both.
    """
    several = len(problem.measures) > 1
    aimed = (max_imbalance or 0.0) * (1 + SHARE_TOLERANCE)
    if not (several or problem.poured or problem.forced) and problem.worst(problem.start) <= aimed:
        return problem.start
    if max_imbalance is None and several:
        # One key may set the worst of all: the rest is still to come even.
        path = problem.even_out(budget * (1 + SHARE_TOLERANCE))
        check_forced(float(path.bytes[0]), budget)
        return path.at(len(path.moves) - 1)
    path = whole_path(problem)
    check_forced(float(path.bytes[0]), budget)
    budget *= 1 + SHARE_TOLERANCE
    aim = max_imbalance or 0.0
    reachable = max(aim, problem.floor)
    paths = [path]
    if aim >= problem.floor:
        paths.append(problem.search(reachable, aim * (1 - 2 * SHARE_TOLERANCE), budget))
    elif path.bytes.max() > budget:
        paths.append(problem.search(reachable, reachable * (1 + GOOD_ENOUGH_PART), budget))
    # Over the aim, less imbalance is better; within it, fewer bytes are.
    reached = aim * (1 + SHARE_TOLERANCE)
    level, _, best, step = min(
        (max(float(p.imbalance[k]), reached), float(p.bytes[k]), i, k)
        for i, p in enumerate(paths)
        for k in range(len(p.bytes))
        if p.bytes[k] <= budget
    )
    at = paths[best].at(step)
    if several or problem.poured:  # beside keys that are poured there is no room to choose in
        return at
    if level > reached and path.bytes.max() > budget:
        found = _affordable(problem, reachable, level, budget)
        return _packed(problem, path, at if found is None else found, budget, reachable)
    if max_imbalance is not None and aim < problem.floor:
        # An item is heavier than the aim. It may be lighter next time, so the rest comes even.
        return problem.even_others(at, aim, budget)
    return at if level > reached or aim < problem.floor else _for_fewer_bytes(problem, at, aim)


def _affordable(problem: Problem, reachable: float, level: float, budget: float) -> Ints | None:
    """Return the most even assignment within a budget that ended the whole path at `level`.

    None means that the whole path's end is the best. Which items are worth their bytes depends on
    how far down the budget takes every channel, and the whole path does not know that.
    """

    def within(aim: float) -> tuple[float, Ints] | None:
        path = problem.search(aim, aim * (1 - 2 * SHARE_TOLERANCE))
        if path.imbalance[-1] > aim * (1 + SHARE_TOLERANCE):
            return None
        found = _for_fewer_bytes(problem, path.at(len(path.moves) - 1), aim)
        return (problem.worst(found), found) if problem.moved(found) <= budget else None

    grid = np.linspace(reachable, level, GRID)
    bound = least_bytes(problem.load, problem.sizes, problem.home, problem.capacities, grid)
    return lowest(float(grid[int((bound <= budget).argmax())]), level, within, problem.deadline)


def lowest(
    low: float,
    high: float,
    within: Callable[[float], tuple[float, State] | None],
    deadline: float,
) -> State | None:
    """Return what has the lowest level between two, found by halving.

    None means that nothing is below the higher level.

    Parameters
    ----------
    low, high : levels to search between
    within : returns the level reached and its result for a level aimed at; None where it is missed
    deadline : time of `time.monotonic` at which the search ends
    """
    best = None
    for _ in range(HALVINGS):
        if high <= low * (1 + GOOD_ENOUGH_PART) or time.monotonic() > deadline:
            break
        middle = (low + high) / 2
        found = within(middle)
        if found is None:
            low = middle
        else:
            high, best = found
    return best


def cleared(problem: Problem, aim: float, budget: float, exact: bool) -> Ints | None:
    """Return where each item goes, so that `aim` is kept for `budget` bytes.

    None means that no such assignment was found.

    Many items must make room for fixed ones here. `exact` is as in `packed`.
    """
    stays = problem.fixed & (problem.start == problem.home)
    sizes = np.where(stays, float(problem.sizes.sum()), problem.sizes)
    level = aim * float(problem.fair.sum()) / (float(problem.load.sum()) or 1.0)
    least = least_bytes(problem.load, sizes, problem.home, problem.capacities, np.array([level]))
    if least[0] > budget * (1 + SHARE_TOLERANCE):
        return None
    home = np.where(problem.home < 0, problem.start, problem.home)
    charged, limit = problem.sizes * (problem.home >= 0), aim * problem.fair
    at = packed(
        problem.load, charged, home, problem.start, limit, np.flatnonzero(~problem.fixed), exact
    )
    return None if at is None or problem.moved(at) > budget * (1 + SHARE_TOLERANCE) else at


def _for_fewer_bytes(problem: Problem, at: Ints, aim: float) -> Ints:
    """Return an assignment no less even than `aim`, for fewer bytes where possible."""
    charged = problem.sizes * (problem.home >= 0)
    loose, limit = np.flatnonzero(~problem.fixed), aim * problem.fair
    return cheaper_shedding(problem.load, charged, problem.home, at, limit, loose)


def check_forced(forced: float, budget: float) -> None:
    """Raise InputError if what must move, by channels that close or by pins, is over the budget."""
    if forced > budget * (1 + SHARE_TOLERANCE):
        raise InputError(
            f"emptying the channels that go, and moving pinned keys, takes {forced:.0f} bytes, "
            f"over {budget:.0f}",
            "budget",
            "Raise the budget, or keep the channels and the pins",
        )
