"""The whole curve of imbalance against bytes moved, and the best point of it for what is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from partitioning.errors import InputError
from partitioning.function.function import Channel, PartitioningFunction
from partitioning.strategies.frontier.assignment import Ints
from partitioning.strategies.frontier.cheapest_shedding import cheaper_shedding, packed
from partitioning.strategies.frontier.local_search import ROUNDING
from partitioning.strategies.frontier.pair_repack import FEW, repack_pairs
from partitioning.strategies.frontier.problem import Path, Problem, problem_of
from partitioning.workload.bounds import least_bytes
from partitioning.workload.profile import Floats, Profile

State = TypeVar("State")
#: Part of the best imbalance that counts as equal to it. A larger value ends searches earlier.
CLOSE = 8e-4
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
    """What balance costs.

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
def whole_path(task: Problem) -> Path:
    """Return the path to as even as possible; planning again from its end finds nothing."""
    path = _searched(task)
    for _ in range(PASSES):
        if time.monotonic() > task.deadline:
            break
        end = path.pareto()[-1]
        at = path.at(end)
        again = _searched(replace(task, start=at, home=at))
        if again.imbalance.min() >= path.imbalance[end] * (1 - ROUNDING):
            break
        path = task.replay([*path.moves[: end + 1], *again.moves[1:]])
    return path


def _searched(task: Problem) -> Path:
    """Search until as even as possible; pack few items at the end."""
    path = task.search(task.floor, task.floor * (1 + CLOSE))
    end = path.pareto()[-1]
    at = path.at(end)
    packed = _packed(task, path, at, np.inf, task.floor)
    step = [(item, int(packed[item])) for item in np.flatnonzero(packed != at).tolist()]
    return task.replay([*path.moves[: end + 1], step]) if step else path


def _packed(task: Problem, path: Path, at: Ints, budget: float, stop: float) -> Ints:
    """Return the most even state, down to `stop`, that pairs of channels get to for a budget.

    They start from `at`, and from what of a path is near it. The result is `at` where there are too
    many items, or other things to be even.
    """
    loose = np.flatnonzero(~task.fixed)
    if len(loose) > FEW or len(task.measures) != 1 or task.poured:
        return at
    charged, stop = task.sizes * (task.home >= 0), stop * (1 + CLOSE)
    kept = [k for k in path.pareto() if path.bytes[k] <= budget][-STARTS:]
    best = at
    for start in (at, *map(path.at, kept), task.start):
        if task.worst(best) <= stop or time.monotonic() > task.deadline:
            break
        found = repack_pairs(task.load, charged, task.home, start, task.fair, loose, budget, stop)
        best = min(best, found, key=lambda at: (task.worst(at), task.moved(at)))
    return best


def trace(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> Curve:
    """Imbalance against bytes moved, from where `previous` leaves the load to as even as it gets.

    Channels that are dropped or have capacity 0 are emptied first, so that the curve may begin
    above 0 bytes. Without a previous function there is no state to move: one point, at 0 bytes.

    Parameters
    ----------
    profile : what is known of the load and the state
    previous : the function in force, or None
    channels : the N owners to be

    Raises
    ------
    InputError : unusable channels, or a previous function with another S
    """
    task = problem_of(profile, previous, tuple(channels))
    path = whole_path(task)
    kept = path.pareto()
    grid = np.linspace(max(float(path.imbalance[0]), task.floor), task.floor, GRID)
    return Curve(
        bytes=path.bytes[kept],
        imbalance=path.imbalance[kept],
        bound_bytes=least_bytes(task.load, task.sizes, task.home, task.capacities, grid),
        bound_imbalance=grid,
        floor=task.floor,
    )


def best_state(task: Problem, max_imbalance: float | None, budget: float) -> Ints:
    """Return the best state for a target and a budget: where each item goes, int32 (n,).

    It is on the whole path, or on a search for this target or budget, if the whole path does not
    end inside both.
    """
    several = len(task.measures) > 1
    if max_imbalance is None and several:
        # One key may set the worst of all: the rest is still to come even.
        path = task.even_out(budget * (1 + ROUNDING))
        check_forced(float(path.bytes[0]), budget)
        return path.at(len(path.moves) - 1)
    path = whole_path(task)
    check_forced(float(path.bytes[0]), budget)
    budget *= 1 + ROUNDING
    goal = max_imbalance or 0.0
    aim = max(goal, task.floor)
    paths = [path]
    if goal >= task.floor:
        paths.append(task.search(aim, goal * (1 - 2 * ROUNDING), budget))
    elif path.bytes.max() > budget:
        paths.append(task.search(aim, aim * (1 + CLOSE), budget))
    # Over the goal, less imbalance is better; within it, fewer bytes are.
    reached = goal * (1 + ROUNDING)
    level, _, best, step = min(
        (max(float(p.imbalance[k]), reached), float(p.bytes[k]), i, k)
        for i, p in enumerate(paths)
        for k in range(len(p.bytes))
        if p.bytes[k] <= budget
    )
    at = paths[best].at(step)
    if several or task.poured:  # beside keys that are poured there is no room to choose in
        return at
    if level > reached and path.bytes.max() > budget:
        found = _affordable(task, aim, level, budget)
        return _packed(task, path, at if found is None else found, budget, aim)
    if max_imbalance is not None and goal < task.floor:
        # An item is heavier than the goal. It may be lighter next time, so the rest comes even.
        return task.even_others(at, goal, budget)
    return at if level > reached or goal < task.floor else _thrifty(task, at, goal)


def _affordable(task: Problem, aim: float, level: float, budget: float) -> Ints | None:
    """Return the most even state within a budget that ended the whole path at `level`.

    None means that the whole path's state is the best. Which items are worth their bytes depends on
    how far down the budget takes every channel, and the whole path does not know that.
    """

    def within(goal: float) -> tuple[float, Ints] | None:
        path = task.search(goal, goal * (1 - 2 * ROUNDING))
        if path.imbalance[-1] > goal * (1 + ROUNDING):
            return None
        found = _thrifty(task, path.at(len(path.moves) - 1), goal)
        return (task.worst(found), found) if task.moved(found) <= budget else None

    grid = np.linspace(aim, level, GRID)
    bound = least_bytes(task.load, task.sizes, task.home, task.capacities, grid)
    return lowest(float(grid[int((bound <= budget).argmax())]), level, within, task.deadline)


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
        if high <= low * (1 + CLOSE) or time.monotonic() > deadline:
            break
        middle = (low + high) / 2
        found = within(middle)
        if found is None:
            low = middle
        else:
            high, best = found
    return best


def cleared(task: Problem, goal: float, budget: float, exact: bool) -> Ints | None:
    """Return where each item goes, so that `goal` is kept for `budget` bytes.

    None means that no such state was found.

    Many items must make room for fixed ones here. `exact` is as in `packed`.
    """
    stays = task.fixed & (task.start == task.home)
    sizes = np.where(stays, float(task.sizes.sum()), task.sizes)
    level = goal * float(task.fair.sum()) / (float(task.load.sum()) or 1.0)
    least = least_bytes(task.load, sizes, task.home, task.capacities, np.array([level]))
    if least[0] > budget * (1 + ROUNDING):
        return None
    home = np.where(task.home < 0, task.start, task.home)
    charged, limit = task.sizes * (task.home >= 0), goal * task.fair
    at = packed(task.load, charged, home, task.start, limit, np.flatnonzero(~task.fixed), exact)
    return None if at is None or task.moved(at) > budget * (1 + ROUNDING) else at


def _thrifty(task: Problem, at: Ints, goal: float) -> Ints:
    """Return a state no less even than `goal`, for fewer bytes where possible."""
    charged = task.sizes * (task.home >= 0)
    loose, limit = np.flatnonzero(~task.fixed), goal * task.fair
    return cheaper_shedding(task.load, charged, task.home, at, limit, loose)


def check_forced(forced: float, budget: float) -> None:
    """InputError where what moves as channels close is over the budget, both in bytes."""
    if forced > budget * (1 + ROUNDING):
        raise InputError(
            f"emptying the channels that go takes {forced:.0f} bytes, over {budget:.0f}",
            "budget",
            "Raise the budget or keep the channels",
        )
