"""Our own strategy: the whole curve of imbalance against bytes moved, and a point picked on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from partitioning.bounds import floor, least_bytes
from partitioning.errors import InputError
from partitioning.function import Channel, PartitioningFunction, check_channels, successor
from partitioning.profile import Floats, Profile
from partitioning.strategies.assignment import Assignment, Ints, evacuate
from partitioning.strategies.descent import ROUNDING, Step, descend
from partitioning.strategies.hashing import check_slots, ring_slots
from partitioning.strategies.spread import spread

#: Nearer to the best imbalance than this, as a part of it, is as even as it gets.
CLOSE = 8e-4
NOWHERE = -1
#: Points of the lower bound.
GRID = 64
#: The search begins again from its own result so often at most, until nothing more is found.
PASSES = 8
#: Of several resources first those moves are made that even out most for their bytes.
PRICES = (0.02, 0.005, 0.0)
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


@dataclass(frozen=True, eq=False)
class _Path:
    """A search's steps: every state it passed, told by what changed.

    start is int32 (n,), where each item began; after step k (of m, step 0 being the start)
    `bytes[k]` have moved and the imbalance is `imbalance[k]`; `moves[k]` led there.
    """

    start: Ints
    moves: list[Step]
    bytes: Floats
    imbalance: Floats

    def at(self, step: int) -> Ints:
        """Where each item is after `step`, int32 (n,)."""
        at = self.start.copy()
        for moves in self.moves[1 : step + 1]:
            for item, target in moves:
                at[item] = target
        return at

    def pareto(self) -> list[int]:
        """Steps that no cheaper or equally cheap one equals, bytes rising."""
        kept: list[int] = []
        for step in np.lexsort((self.imbalance, self.bytes)).tolist():
            if not kept or self.imbalance[step] < self.imbalance[kept[-1]]:
                kept.append(step)
        return kept


@dataclass(frozen=True, eq=False)
class _Task:
    """The items of one planning: slot tails, then heavy keys.

    measures is float64 (R, n), what each item has of each resource, as parts of the total; the
    first is `load` unless there is none of it. surprises, float64 (E, n), are in the same parts.
    """

    profile: Profile
    load: Floats
    sizes: Floats
    measures: Floats
    surprises: Floats
    home: Ints
    start: Ints
    capacities: Floats
    floor: float

    @property
    def fair(self) -> Floats:
        # Where there is no load, a share in proportion keeps the arithmetic finite.
        return self.capacities / self.capacities.sum() * (float(self.load.sum()) or 1.0)

    def search(self, aim: float, stop: float, budget: float = np.inf) -> _Path:
        """Search from the start; `aim`, `stop` and `budget` as in `descend`."""
        if len(self.measures) > 1:
            return self.even_out(PRICES, budget, self.surprises[:0])
        return self._walk(lambda state: descend(state, aim, stop, budget))

    def even_out(self, prices: Sequence[float], budget: float, surprises: Floats) -> _Path:
        """All measures and surprises at once, as `spread` does, at falling prices."""
        measures = np.concatenate([self.measures, surprises])
        totals = np.repeat([1.0, 0.0], [len(self.measures), len(surprises)])
        weights = np.ones(len(measures))
        return self._walk(
            lambda state: chain.from_iterable(
                spread(state, measures, totals, weights, price, budget) for price in prices
            )
        )

    def replay(self, moves: list[Step]) -> _Path:
        """The path of these steps; the first, empty one is the start."""

        def steps(state: Assignment) -> Iterator[Step]:
            for step in moves[1:]:
                for item, target in step:
                    state.put(item, target)
                yield step

        return self._walk(steps)

    def _walk(self, steps: Callable[[Assignment], Iterable[Step]]) -> _Path:
        state = Assignment(self.load, self.sizes, self.home, self.start.copy(), self.fair)
        at, fair = self.start.copy(), np.where(self.capacities > 0, self.fair, np.inf)
        fair /= self.fair.sum()
        others = [np.bincount(at, m, minlength=len(fair)) for m in self.measures[1:]]

        def imbalance() -> float:
            own = float(state.shares.max()) if len(self.measures) else 1.0
            return max([own, *(float((o / fair).max()) for o in others)])

        moves: list[Step] = [[]]
        sizes, imbalances = [state.bytes], [imbalance()]
        for step in steps(state):
            for item, target in step:
                for other, measure in zip(others, self.measures[1:], strict=True):
                    other[at[item]] -= measure[item]
                    other[target] += measure[item]
                at[item] = target
            moves.append(step)
            sizes.append(state.bytes)
            imbalances.append(imbalance())
        return _Path(self.start, moves, np.array(sizes), np.array(imbalances))


@lru_cache(maxsize=4)  # profiles and functions never change, and hash by identity
def _task(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: tuple[Channel, ...],
    resources: str = "L",
) -> _Task:
    check_channels(channels)
    check_slots(profile, previous)
    if previous is None:
        slots = ring_slots(profile.slots, channels)
        keys = slots[profile.heavy_slots]
    else:
        profile = profile.listing(previous.explicit_keys)
        slots, keys = previous.slots, previous.lookup_hashes(profile.heavy)
    now = np.concatenate([slots, keys])
    load, sizes, rows = (
        np.concatenate([profile.tail(values, heavy), heavy])
        for values, heavy in (
            (profile.load, profile.heavy_load),
            (profile.bytes, profile.heavy_bytes),
            (profile.rows, profile.heavy_rows),
        )
    )
    total = float(load.sum())
    # The keys of a tail are taken to be alike.
    every = {"L": load, "C": rows, "Q": np.square(load) / np.maximum(rows, 1.0), "B": sizes}
    if not resources or set(resources) - set(every):
        raise InputError(f"{resources!r} is not made of {', '.join(every)}", "resources")
    wanted = sorted(set(resources), key=lambda r: (r != "L", r))
    load = every[wanted[0]]
    tail = np.concatenate([np.arange(profile.slots, dtype=np.int32), profile.heavy_slots])
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    return _Task(
        profile=profile,
        load=load,
        sizes=sizes,
        measures=np.array([m / m.sum() for m in map(every.__getitem__, wanted) if m.any()]),
        surprises=profile.surprises / (total or 1.0),
        home=np.full_like(now, NOWHERE) if previous is None else now,
        start=evacuate(now, load, capacities, tail),
        capacities=capacities,
        floor=floor(profile, channels),
    )


@lru_cache(maxsize=4)
def _whole(task: _Task) -> _Path:
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
    task = _task(profile, previous, tuple(channels))
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
) -> PartitioningFunction:
    """The least bytes for `max_imbalance`, or the least imbalance for `budget` bytes.

    From the previous function, the fullest channel (by capacity) sheds slots and heavy keys, most
    load per byte first, to the emptiest; where none fits, two are swapped. An item counts once
    however often it moves, and not at all once it is back. A heavy key is explicit only where its
    channel is not its slot's. Without a previous function the search starts from consistent
    hashing, and everything is free.

    Of several resources, every one counts: imbalance is that of the worst. A profile that is a
    forecast knows by what forecasts were off: without a `max_imbalance` the function is then not
    as even as it gets on what is expected, but has the least mean square over the past surprises,
    so that keys that rise together sit apart, and moves nothing that is not worth its bytes.

    Parameters
    ----------
    profile, previous, channels : as in `trace`
    max_imbalance : stop here; None, or out of reach: as even as it gets
    budget : bytes of state that may move, net; None: no limit. It comes before `max_imbalance`
    resources : what shall be even: letters of L (load), C (keys: rows of state), B (bytes of
        state) and Q (square of each key's load); "LCL" is Gedik's way to write L and C

    Raises
    ------
    InputError : unusable channels or options, a previous function with another S, or a budget
        that does not empty the channels to be emptied

    Source: DESIGN.md, "Strategies".
    """
    if max_imbalance is not None and not max_imbalance >= 1:
        raise InputError(f"{max_imbalance} is below 1, perfect balance", "max_imbalance")
    if budget is not None and not budget >= 0:
        raise InputError(f"{budget} is not a number of bytes", "budget")
    task = _task(profile, previous, tuple(channels), resources)
    at = _picked(task, max_imbalance, np.inf if budget is None else budget)
    heavy = task.profile.heavy.tolist()
    return successor(
        profile.key,
        previous,
        channels,
        at[: profile.slots],
        "frontier",
        {"max_imbalance": max_imbalance, "budget": budget, "resources": resources},
        dict(zip(heavy, at[profile.slots :].tolist(), strict=True)),
    )


def _picked(task: _Task, max_imbalance: float | None, budget: float) -> Ints:
    """Where each item goes: of the whole path, and of searches made for this very target or
    budget where that path does not end inside both, the best state."""
    if max_imbalance is None and len(task.surprises):
        path = task.even_out([WORTH], budget * (1 + ROUNDING), task.surprises)
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


def _check_affordable(path: _Path, budget: float) -> None:
    if path.bytes[0] > budget * (1 + ROUNDING):
        raise InputError(
            f"emptying the channels that go takes {path.bytes[0]:.0f} bytes, over {budget:.0f}",
            "budget",
            "Raise the budget or keep the channels",
        )
