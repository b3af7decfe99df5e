"""Our own strategy: the whole curve of imbalance against bytes moved, and a point picked on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from partitioning.bounds import least_bytes
from partitioning.errors import InputError
from partitioning.function import Channel, PartitioningFunction, check_channels, successor
from partitioning.profile import Floats, Profile
from partitioning.strategies.assignment import Ints, gathered
from partitioning.strategies.descent import ROUNDING
from partitioning.strategies.frontier_task import PRICES, Path, Task, task_of
from partitioning.strategies.named import hashes_of, places_of

#: Nearer to the best imbalance than this, as a part of it, is as even as it gets.
CLOSE = 8e-4
#: Points of the lower bound.
GRID = 64
#: The search begins again from its own result so often at most, until nothing more is found.
PASSES = 8
#: Mean square imbalance that moving all state must save where the next window is uncertain.
WORTH = 0.005


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
def _whole(task: Task) -> Path:
    """The path to as even as it gets, such that planning again from there finds nothing."""
    path = task.search(task.floor, task.floor * (1 + CLOSE))
    for _ in range(PASSES):
        end = path.pareto()[-1]
        at = path.at(end)
        again = replace(task, start=at, home=at).search(task.floor, task.floor * (1 + CLOSE))
        if again.imbalance.min() >= path.imbalance[end]:
            break
        path = task.replay([*path.moves[: end + 1], *again.moves[1:]])
    return path


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
    task = task_of(profile, previous, tuple(channels))
    path = _whole(task)
    kept = path.pareto()
    grid = np.linspace(max(float(path.imbalance[0]), task.floor), task.floor, GRID)
    return Curve(
        bytes=path.bytes[kept],
        imbalance=path.imbalance[kept],
        bound_bytes=least_bytes(task.load, task.sizes, task.home, task.capacities, grid),
        bound_imbalance=grid,
        floor=task.floor,
    )


def frontier(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    max_imbalance: float | None = None,
    budget: float | None = None,
    resources: str = "L",
    pinned: Mapping[str, str] | None = None,
    excluded: Sequence[str] | None = None,
    seconds: float | None = None,
) -> PartitioningFunction:
    """The least bytes for `max_imbalance`, or the least imbalance for `budget` bytes.

    From the previous function, the fullest channel (by capacity) sheds slots and heavy keys, most
    load per byte first, to the emptiest; where none fits, two are swapped. An item counts once
    however often it moves, and not at all once it is back. A heavy key is explicit only where its
    channel is not its slot's. Without a previous function the search starts from consistent
    hashing, and everything is free.

    Of several resources, every one counts: imbalance is that of the worst, and without a
    `max_imbalance` the mean square over all channels and resources is brought down. A profile
    that is a forecast knows by what forecasts were off: without a `max_imbalance` the function is
    then not as even as it gets on what is expected, but has the least mean square over the past
    surprises, so that keys that rise together sit apart, and moves nothing that is not worth its
    bytes.

    Parameters
    ----------
    profile, previous, channels : as in `trace`
    max_imbalance : stop here; None, or out of reach: as even as it gets
    budget : bytes of state that may move, net; None: no limit. It comes before `max_imbalance`
    resources : what shall be even: letters of L (load), C (keys: rows of state), B (bytes of
        state) and Q (square of each key's load); "LCL" is Gedik's way to write L and C
    pinned : channel, by name, that a key is put on; keys are written as plans write them
    excluded : keys that stay where they are, unless their channel closes
    seconds : the search ends after so long with the best found; None: when nothing helps, and
        the same input gives the same function

    Raises
    ------
    InputError : unusable channels or options, a previous function with another S, or a budget
        that does not empty the channels to be emptied
    """
    if max_imbalance is not None and not max_imbalance >= 1:
        raise InputError(f"{max_imbalance} is below 1, perfect balance", "max_imbalance")
    if budget is not None and not budget >= 0:
        raise InputError(f"{budget} is not a number of bytes", "budget")
    if seconds is not None and not seconds > 0:
        raise InputError(f"{seconds} seconds are no time", "seconds", "Give more than 0")
    check_channels(channels)
    put = places_of(profile.key, pinned or {}, channels)
    stay = hashes_of(profile.key, excluded or (), "excluded").tolist()
    task = task_of(profile, previous, tuple(channels), resources, tuple(put.items()), tuple(stay))
    if seconds is not None:
        task = replace(task, deadline=time.monotonic() + seconds)
    at = _picked(task, max_imbalance, np.inf if budget is None else budget)
    count = profile.slots
    if not len(task.surprises) and len(task.measures):
        kinds = np.vstack([task.measures, task.sizes])[:, :count]
        at[:count] = gathered(at[:count], task.home[:count], kinds)
    options: dict[str, Any] = {
        "max_imbalance": max_imbalance,
        "budget": budget,
        "resources": resources,
    }
    options |= {"pinned": dict(pinned or {}), "excluded": list(excluded or ())}
    heavy = task.profile.heavy.tolist()
    return successor(
        profile.key,
        previous,
        channels,
        at[: profile.slots],
        "frontier",
        {**options, "seconds": seconds},
        dict(zip(heavy, at[profile.slots :].tolist(), strict=True)),
    )


def _picked(task: Task, max_imbalance: float | None, budget: float) -> Ints:
    """Where each item goes: of the whole path, and of searches made for this very target or
    budget where that path does not end inside both, the best state."""
    several = len(task.measures) > 1
    if max_imbalance is None and (several or len(task.surprises)):
        # One key may set the worst of all: the rest is still to come even.
        prices = PRICES if several else [WORTH]
        path = task.even_out(prices, budget * (1 + ROUNDING), task.surprises)
        _check_affordable(path, budget)
        return path.at(len(path.moves) - 1)
    path = _whole(task)
    _check_affordable(path, budget)
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
    _, _, best, step = min(
        (max(float(p.imbalance[k]), reached), float(p.bytes[k]), i, k)
        for i, p in enumerate(paths)
        for k in range(len(p.bytes))
        if p.bytes[k] <= budget
    )
    return paths[best].at(step)


def _check_affordable(path: Path, budget: float) -> None:
    if path.bytes[0] > budget * (1 + ROUNDING):
        raise InputError(
            f"emptying the channels that go takes {path.bytes[0]:.0f} bytes, over {budget:.0f}",
            "budget",
            "Raise the budget or keep the channels",
        )
