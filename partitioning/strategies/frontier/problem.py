"""Problems: items with their loads, sizes and resources; and paths of assignments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function.channels import Channel, capacities_of, check_channels
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.assignment import Assignment, Ints, evacuate
from partitioning.strategies.frontier.local_search import Step, descend
from partitioning.strategies.frontier.multi_resource import even_out_resources
from partitioning.strategies.hashing import check_slots, in_turn
from partitioning.workload.bounds import floor_of_keys
from partitioning.workload.profile import Floats, Profile

NOWHERE = -1
#: With several resources, moves that even out most for their bytes come first.
PRICES = (0.02, 0.002)


@dataclass(frozen=True, eq=False)
class Path:
    """Hold a search's steps: every assignment that it passed.

    start is int32 (n,), where each item began. After step k (of m; step 0 is the start) `bytes[k]`
    have moved and the imbalance is `imbalance[k]`. `moves[k]` led there.
    """

    start: Ints
    moves: list[Step]
    bytes: Floats
    imbalance: Floats

    def at(self, step: int) -> Ints:
        """Return the channel of each item after `step`, int32 (n,)."""
        at = self.start.copy()
        for moves in self.moves[1 : step + 1]:
            for item, target in moves:
                at[item] = target
        return at

    def pareto(self) -> list[int]:
        """Return the steps that no step with as few bytes equals, by rising bytes."""
        kept: list[int] = []
        for step in np.lexsort((self.imbalance, self.bytes)).tolist():
            if not kept or self.imbalance[step] < self.imbalance[kept[-1]]:
                kept.append(step)
        return kept


@dataclass(frozen=True, eq=False)
class Problem:
    """The items of one planning: slot tails, then heavy keys.

    measures is float64 (R, n), what each item has of each resource, as parts of the total; the
    first is `load` unless there is none of it. fixed, bool (n,), do not move. A search ends at
    `deadline` (of `time.monotonic`). `poured` is the load of split keys, which fills what room the
    items leave.
    """

    profile: Profile
    load: Floats
    sizes: Floats
    measures: Floats
    home: Ints
    start: Ints
    capacities: Floats
    floor: float
    fixed: npt.NDArray[np.bool_]
    deadline: float = np.inf
    poured: float = 0.0

    @property
    def fair(self) -> Floats:
        """Fair share of the load of each channel, (N,)."""
        # Without load, a share in proportion keeps the arithmetic finite.
        total = float(self.load.sum()) + self.poured or 1.0
        return self.capacities / self.capacities.sum() * total

    @property
    def forced(self) -> float:
        """Bytes that move before any search: those on channels that close."""
        return self.moved(self.start)

    def moved(self, at: Ints) -> float:
        """Return the bytes away from home with items placed `at`."""
        return float(self.sizes[(at != self.home) & (self.home >= 0)].sum())

    def worst(self, at: Ints) -> float:
        """Return the imbalance of the worst resource with items placed `at`."""
        fair = self.fair / self.fair.sum()
        inverse = np.divide(1.0, fair, out=np.zeros_like(fair), where=fair > 0)
        sums = [np.bincount(at, m, minlength=len(fair)) * inverse for m in self.measures]
        return max((float(s.max()) for s in sums), default=1.0)

    def search(self, aim: float, stop: float, budget: float = np.inf) -> Path:
        """Search from the start; `aim`, `stop` and `budget` as in `descend`."""
        if len(self.measures) > 1:
            return self.even_out(budget)
        return self._walk(lambda assignment: descend(assignment, aim, stop, budget))

    def even_others(self, at: Ints, aim: float, budget: float) -> Ints:
        """Return where items go from `at` so that only channels that must stay over an aim do."""
        assignment = Assignment(self.load, self.sizes, self.home, at.copy(), self.fair, self.fixed)
        for _ in descend(assignment, aim, aim, budget, others=True):
            pass
        return assignment.at

    def even_out(self, budget: float) -> Path:
        """Even out all measures at once, at falling prices."""
        return self._walk(
            lambda assignment: chain.from_iterable(
                even_out_resources(assignment, self.measures, price, budget) for price in PRICES
            )
        )

    def replay(self, moves: list[Step]) -> Path:
        """Return the path of these steps; the first, empty one is the start."""

        def steps(assignment: Assignment) -> Iterator[Step]:
            for step in moves[1:]:
                for item, target in step:
                    assignment.put(item, target)
                yield step

        return self._walk(steps, np.inf)

    def _walk(
        self, steps: Callable[[Assignment], Iterable[Step]], deadline: float | None = None
    ) -> Path:
        until = self.deadline if deadline is None else deadline
        assignment = Assignment(
            self.load, self.sizes, self.home, self.start.copy(), self.fair, self.fixed
        )
        at, fair = self.start.copy(), np.where(self.capacities > 0, self.fair, np.inf)
        fair /= self.fair.sum()
        others = [np.bincount(at, m, minlength=len(fair)) for m in self.measures[1:]]

        def imbalance() -> float:
            own = float(assignment.shares.max()) if len(self.measures) else 1.0
            return max([own, *(float((o / fair).max()) for o in others)])

        moves: list[Step] = [[]]
        sizes, imbalances = [assignment.bytes], [imbalance()]
        for step in steps(assignment):
            for item, target in step:
                for other, measure in zip(others, self.measures[1:], strict=True):
                    other[at[item]] -= measure[item]
                    other[target] += measure[item]
                at[item] = target
            moves.append(step)
            sizes.append(assignment.bytes)
            imbalances.append(imbalance())
            if time.monotonic() > until:
                break
        return Path(self.start, moves, np.array(sizes), np.array(imbalances))


@lru_cache(maxsize=4)  # profiles and functions never change, and hash by identity
def problem_of(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: tuple[Channel, ...],
    resources: str = "L",
    pinned: tuple[tuple[int, int], ...] = (),
    excluded: tuple[int, ...] = (),
) -> Problem:
    """Return the items of a profile, from where `previous` has them.

    Parameters are as in `frontier`, except these:

    Parameters
    ----------
    pinned : (hash of a key, number of its channel) each
    excluded : hashes of keys

    Raises
    ------
    InputError : unusable channels or resources, or a previous function with another S

    Examples
    --------
    >>> from partitioning.function.channels import numbered_channels
    >>> from partitioning.streams.zipf_stream import zipf_profile
    >>> problem = problem_of(zipf_profile(1000, 1.0, slots=64), None, numbered_channels(4))
    >>> len(problem.load) - problem.profile.slots == len(problem.profile.heavy)
    True
    >>> round(float(problem.load.sum()), 6)
    1.0
    """
    check_channels(channels)
    check_slots(profile, previous)
    capacities = capacities_of(channels)
    put = dict(pinned)
    profile = profile.listing(np.array([*put, *excluded], dtype=np.int64))
    if previous is None:
        # Keys that nobody has seen come by slot, so that each channel needs its part of the slots.
        slots = in_turn(profile.slots, capacities)
        keys = slots[profile.heavy_slots]
    else:
        profile = profile.listing(previous.exceptions)
        slots, keys = previous.slots, previous.lookup_hashes(profile.heavy)
    now = np.concatenate([slots, keys])
    every = _resources(profile)
    if not resources or set(resources) - set(every):
        raise InputError(
            f"expected letters of {', '.join(every)}, got {resources!r}",
            "resources",
            "Give L to even out load alone",
        )
    wanted = sorted(set(resources), key=lambda r: (r != "L", r))
    load = every[wanted[0]]
    tail = np.concatenate([np.arange(profile.slots, dtype=np.int32), profile.heavy_slots])
    start = evacuate(now, load, capacities, tail)
    for h, channel in pinned:
        start[profile.slots + int(np.searchsorted(profile.heavy, h))] = channel
    fixed = np.zeros(len(now), dtype=np.bool_)
    fixed[profile.slots :] = np.isin(profile.heavy, [*put, *excluded])
    # Summed as `floor` does, so that both round alike.
    total = float((profile.load if wanted[0] == "L" else load).sum())
    return Problem(
        profile=profile,
        load=load,
        sizes=every["B"],
        measures=np.array([m / m.sum() for m in map(every.__getitem__, wanted) if m.any()]),
        home=np.full_like(now, NOWHERE) if previous is None else now,
        start=start,
        capacities=capacities,
        floor=floor_of_keys(load[profile.slots :], total, channels),
        fixed=fixed,
    )


def _resources(profile: Profile) -> dict[str, Floats]:
    """Return what each item has of each resource (see `frontier`), float64 (S + K,) each.

    Items are the slots, without their listed keys, and then the listed keys.
    """
    load, sizes, rows = (
        np.concatenate([profile.tail(values, heavy), heavy])
        for values, heavy in (
            (profile.load, profile.heavy_load),
            (profile.bytes, profile.heavy_bytes),
            (profile.rows, profile.heavy_rows),
        )
    )
    # Only shares of the squares count, and the fourth power of a large load overflows. A power of
    # two changes no digit.
    scaled = np.ldexp(load, -int(np.frexp(load.max())[1]))
    squares = np.square(scaled)
    tails = slice(0, profile.slots)
    squares[tails] = _squares(scaled[tails], rows[tails])
    return {"L": load, "C": rows, "Q": squares, "B": sizes}


def _squares(load: Floats, rows: Floats) -> Floats:
    """Estimate the sum of squares of the unlisted keys in each slot, float64 (S,).

    Load and number of the keys in each slot are known. How far slots of so many keys are off the
    mean load gives the cumulants of a single key's load. These give the regression of the sum of
    squares on that deviation and on its square. The square is needed: little load is no sign of
    small squares, but much load is a sign of large ones.
    """
    filled = rows > 0
    if not filled.any():
        return np.zeros(len(load))
    n = np.maximum(rows, 1.0)
    mean = float(load.sum() / rows.sum())
    over = load - rows * mean
    second, third = (float((over[filled] ** k / n[filled]).mean()) for k in (2, 3))
    expected = rows * (second + mean**2)
    if second > 0:
        third = max(third, 0.0)
        excess = over[filled] ** 4 - 3 * (n[filled] * second) ** 2
        fourth = max(float((excess / n[filled]).mean()), third**2 / second)
        by_over, by_square = third + 2 * mean * second, fourth + 2 * second**2 + 2 * mean * third
        of_square = fourth + 2 * n * second**2
        determinant = second * of_square - third**2
        expected += (by_over * of_square - by_square * third) / determinant * over
        curved = (by_square * second - by_over * third) / determinant
        expected += curved * (np.square(over) - n * second)
    least: Floats = np.square(load) / n
    return np.maximum(expected, least)
