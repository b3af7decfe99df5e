"""Keys that frontier takes out of what it plans, to split them, and what is left without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.problem import Problem
from partitioning.strategies.frontier.split_keys.shares import (
    Owners,
    emptied,
    evenly,
    fewest_owners,
)
from partitioning.workload.metrics import Indices, placements
from partitioning.workload.profile import Floats, sums_by

#: Pieces that the owners of a key get. Beside: next to their load of now, so that little has to
#: make way. Alike: equal, so that items that cost few bytes make way. Full: all but the last are
#: full, so that items find large gaps.
BESIDE, ALIKE, FULL = "beside", "alike", "full"


@dataclass(frozen=True, eq=False)
class Cut:
    """Keys that are to be split, and what stays whole.

    Parameters
    ----------
    items : the item number of each key, heaviest first, (F,)
    loads : float64 (F,)
    before : float64 (F, N): share of each on each channel now; that on channels that close is
        missing
    had : int64 (F,): owners of each now, 1 or more, with those that close
    sizes, copies : as in `affordable_shares`
    made_whole : bytes more than items count of keys that are split now and are to be whole
    whole : float64 (n,): load of each item, 0 of these keys
    stays, resting, limit : as in `fewest_owners`
    """

    items: Indices
    loads: Floats
    before: Floats
    had: Indices
    sizes: Floats
    copies: Floats
    made_whole: float
    whole: Floats
    stays: Floats
    resting: Floats
    limit: Floats

    @property
    def hot(self) -> int:
        """How many of the keys, the first ones, fit on no channel."""
        return int(np.count_nonzero(self.loads > self.limit.max()))

    @property
    def forced(self) -> float:
        """Bytes that move before any search, beside those of items: as in `Problem.forced`."""
        closing = emptied(self.before, self.had, self.sizes, self.copies)
        return self.made_whole + float(closing.sum())

    def as_now(self, copies: int | None) -> dict[int, Owners]:
        """Return the present owners of the keys that fit on no channel; empty: they do not do.

        They do if several channels share each key now, and have room for it.
        """
        owners, hold = {}, np.maximum(self.limit - self.stays, 0.0)
        for key, load in enumerate(self.loads[: self.hot].tolist()):
            own = np.flatnonzero(self.before[key])
            if not 1 < len(own) <= (copies or len(own)) or hold[own].sum() < load:
                return {}
            owners[key] = Owners(own, hold[own] / hold[own].sum() * load)
        return owners

    def moved(self, owners: Mapping[int, Owners]) -> float:
        """Return the bytes of partial rows gathered, and of new copies, for these owners.

        Forced bytes are not included.
        """
        total = 0.0
        for key, own in owners.items():
            now = np.flatnonzero(self.before[key])
            partial = max(float(self.sizes[key] / self.had[key] - self.copies[key]), 0.0)
            new = len(np.setdiff1d(own.channels, now)) - (not len(now))
            total += len(np.setdiff1d(now, own.channels)) * partial
            total += new * float(self.copies[key])
        return total

    def owners(self, depth: float, copies: int | None) -> dict[int, Owners]:
        """Return the same as `fewest_owners`."""
        known = self.before, self.limit, self.stays, self.resting
        return fewest_owners(self.loads, *known, depth, copies)


def cut(problem: Problem, previous: PartitioningFunction | None, aim: float, part: float) -> Cut:
    """Take out the keys that exceed a part of what the aim allows the best channel.

    Keys that are split now are taken out too, if they can be.
    """
    load = problem.load.copy()
    load[: problem.profile.slots] = 0.0
    load[problem.fixed] = 0.0
    split = load > part * aim * problem.fair.max()
    if previous is not None:
        split[problem.profile.slots :] |= previous.split.find(problem.profile.heavy) >= 0
        split &= ~problem.fixed
    items = np.flatnonzero(split)
    items = items[np.argsort(-load[items], kind="stable")]
    whole = np.where(split, 0.0, problem.load)
    before, had = np.zeros((len(items), len(problem.fair))), np.ones(len(items), dtype=np.intp)
    heavy = items - problem.profile.slots
    if previous is not None:
        item, channel, share = placements(previous, problem.profile.heavy[heavy])
        had = np.bincount(item, minlength=len(items))
        open_ = channel < len(problem.fair)
        np.add.at(before, (item[open_], channel[open_]), share[open_])
    return Cut(
        items,
        load[items],
        before * (problem.fair > 0),
        had,
        problem.sizes[items],
        problem.profile.heavy_copy_bytes[heavy],
        _made_whole(problem, previous),
        whole,
        sums_by(problem.start, whole * problem.fixed, len(problem.fair)),
        sums_by(problem.start, whole, len(problem.fair)),
        aim * problem.fair,
    )


def _made_whole(problem: Problem, previous: PartitioningFunction | None) -> float:
    """Return the bytes of fixed keys that are split now, beside those that items count."""
    if previous is None:
        return 0.0
    profile, count = problem.profile, problem.profile.slots
    keys = np.flatnonzero((previous.split.find(profile.heavy) >= 0) & problem.fixed[count:])
    item, channel, _ = placements(previous, profile.heavy[keys])
    had, items = np.bincount(item, minlength=len(keys)), count + keys
    copies = profile.heavy_copy_bytes[keys]
    there = np.bincount(item[channel == problem.start[items][item]], minlength=len(keys))
    partial = np.maximum(problem.sizes[items] / had - copies, 0.0)
    paid = (had - there) * partial + (1 - there) * copies
    return float(
        (paid - problem.sizes[items] * (problem.start[items] != problem.home[items])).sum()
    )


def remaining_problem(
    problem: Problem, keys: Cut, owners: Mapping[int, Owners], layout: str
) -> Problem:
    """Return what is left to plan: the problem without the load of the keys.

    A key with owners comes back in pieces, one fixed item on each owner, at the end.
    """
    own = [o.channels for o in owners.values()]
    parts = [o.pieces for o in owners.values()]
    if layout != FULL:
        under = keys.resting if layout == BESIDE else keys.stays
        parts = evenly(keys.loads, owners, under, problem.fair)
    where, pieces = (np.concatenate([np.empty(0), *arrays]) for arrays in (own, parts))
    none = np.zeros(len(pieces))
    load = np.append(keys.whole, pieces)
    split = np.zeros(len(problem.load), dtype=np.bool_)
    split[keys.items] = True
    biggest = keys.whole[problem.profile.slots :].max(initial=0.0)
    return replace(
        problem,
        load=load,
        poured=problem.poured + float(keys.loads.sum() - pieces.sum()),
        sizes=np.append(problem.sizes, none),
        measures=load[None] / (float(problem.load.sum()) or 1.0),
        home=np.append(np.where(split, problem.start, problem.home), where).astype(np.int32),
        start=np.append(problem.start, where).astype(np.int32),
        fixed=np.append(problem.fixed | split, none == 0),
        floor=max(1.0, float(biggest / problem.fair.max())),
    )
