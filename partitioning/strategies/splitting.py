"""frontier's plans with split keys: over how few channels each goes, and what is left to plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from partitioning.function import PartitioningFunction
from partitioning.metrics import Indices, imbalance, placements
from partitioning.profile import Floats, sums_by
from partitioning.split import PARTS
from partitioning.strategies.assignment import Ints
from partitioning.strategies.curve import CLOSE, check_forced, cleared, picked
from partitioning.strategies.descent import ROUNDING
from partitioning.strategies.frontier_task import Task
from partitioning.strategies.sharing import (
    Owners,
    afforded,
    emptied,
    evenly,
    largest,
    owned,
    shared,
)

#: The imbalance that is reached, where each item goes, and the share of each channel of each split
#: key, by its hash.
Shared = tuple[float, Ints, dict[int, dict[int, float]]]
#: Keys of this part of the goal's share of a channel hardly fit beside others: they are split
#: where whole ones miss the goal.
HARD = 0.5
#: Imbalances nearer than this, in part, are told apart by copies.
NEAR = 1e-4
#: What pieces the owners of a key get: beside what is on them now, so that little has to make way;
#: alike, so that what makes way are items that cost few bytes; or full ones but for the last, so
#: that items find large gaps.
BESIDE, ALIKE, FULL = "beside", "alike", "full"
#: Part of its limit that a channel gives to a key which the fewest hold: all, short of rounding.
FEWEST = 1 - 1e-6
#: Such parts, and pieces to try with each: less where slots cannot make room for that, or it is not
#: worth what moves.
DEPTHS = ((FEWEST, (BESIDE, ALIKE, FULL)), (2 / 3, (BESIDE, ALIKE)), (1 / 3, (BESIDE, ALIKE)))


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
    sizes, copies : as in `afforded`
    made_whole : bytes more than items count of keys that are split now and shall not be
    whole : float64 (n,): load of each item, 0 of these keys
    stays, resting, limit : as in `owned`
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
        """Bytes that move before any search, beside those of items: as in `Task.forced`."""
        closing = emptied(self.before, self.had, self.sizes, self.copies)
        return self.made_whole + float(closing.sum())

    def owners(self, depth: float, copies: int | None) -> dict[int, Owners]:
        """As `owned`."""
        known = self.before, self.limit, self.stays, self.resting
        return owned(self.loads, *known, depth, copies)


def cut(task: Task, previous: PartitioningFunction | None, goal: float, part: float) -> Cut:
    """The keys over so much of what the goal allows the best channel; and, if they can be, those
    that are split now."""
    load = task.load.copy()
    load[: task.profile.slots] = 0.0
    load[task.fixed] = 0.0
    split = load > part * goal * task.fair.max()
    if previous is not None:
        split[task.profile.slots :] |= previous.split.find(task.profile.heavy) >= 0
        split &= ~task.fixed
    items = np.flatnonzero(split)
    items = items[np.argsort(-load[items], kind="stable")]
    whole = np.where(split, 0.0, task.load)
    before, had = np.zeros((len(items), len(task.fair))), np.ones(len(items), dtype=np.intp)
    heavy = items - task.profile.slots
    if previous is not None:
        item, channel, share = placements(previous, task.profile.heavy[heavy])
        had = np.bincount(item, minlength=len(items))
        open_ = channel < len(task.fair)
        np.add.at(before, (item[open_], channel[open_]), share[open_])
    return Cut(
        items,
        load[items],
        before * (task.fair > 0),
        had,
        task.sizes[items],
        task.profile.heavy_copy_bytes[heavy],
        _made_whole(task, previous),
        whole,
        sums_by(task.start, whole * task.fixed, len(task.fair)),
        sums_by(task.start, whole, len(task.fair)),
        goal * task.fair,
    )


def _made_whole(task: Task, previous: PartitioningFunction | None) -> float:
    """Bytes of keys that are split now and are fixed, whole, beside what items count of them."""
    if previous is None:
        return 0.0
    profile, count = task.profile, task.profile.slots
    keys = np.flatnonzero((previous.split.find(profile.heavy) >= 0) & task.fixed[count:])
    item, channel, _ = placements(previous, profile.heavy[keys])
    had, items, copies = (
        np.bincount(item, minlength=len(keys)),
        count + keys,
        profile.heavy_copy_bytes,
    )
    there = np.bincount(item[channel == task.start[items][item]], minlength=len(keys))
    partial = np.maximum(task.sizes[items] / had - copies[keys], 0.0)
    paid = (had - there) * partial + (1 - there) * copies[keys]
    return float((paid - task.sizes[items] * (task.start[items] != task.home[items])).sum())


def left(task: Task, keys: Cut, owners: Mapping[int, Owners], layout: str) -> Task:
    """What is left to plan: the task without the load of the keys, but for those with owners, of
    which a piece comes back on each as a fixed item at the task's end."""
    own = [o.channels for o in owners.values()]
    parts = [o.pieces for o in owners.values()]
    if layout != FULL:
        under = keys.resting if layout == BESIDE else keys.stays
        parts = evenly(keys.loads, owners, under, task.fair)
    where, pieces = (np.concatenate([np.empty(0), *arrays]) for arrays in (own, parts))
    none = np.zeros(len(pieces))
    load = np.append(keys.whole, pieces)
    split = np.zeros(len(task.load), dtype=np.bool_)
    split[keys.items] = True
    biggest = keys.whole[task.profile.slots :].max(initial=0.0)
    return replace(
        task,
        load=load,
        poured=task.poured + float(keys.loads.sum() - pieces.sum()),
        sizes=np.append(task.sizes, none),
        measures=load[None] / (float(task.load.sum()) or 1.0),
        surprises=np.pad(task.surprises, ((0, 0), (0, len(none)))),
        home=np.append(np.where(split, task.start, task.home), where).astype(np.int32),
        start=np.append(task.start, where).astype(np.int32),
        fixed=np.append(task.fixed | split, none == 0),
        floor=max(1.0, float(biggest / task.fair.max())),
    )


def shared_plan(
    task: Task,
    previous: PartitioningFunction | None,
    goal: float,
    budget: float,
    copies: int | None,
    worth: float,
) -> Shared:
    """The imbalance that is reached, where each item goes, and the share of each channel of each
    split key, by its hash.

    Keys that fit on no channel go over as few as hold them, as far as slots can make room for it,
    and for as many bytes as it is worth. Where not, they go over all that have room, one after
    another: no slot has to move for them, and N channels have N - 1 partials more than keys at
    first.

    Parameters
    ----------
    goal : imbalance that is enough
    budget : bytes that may move
    copies : most channels that a key has; None: any number
    worth : channels' mean state that may move for each partial that is spared

    Raises
    ------
    InputError : a budget that does not empty the channels that close
    """
    keys, count = cut(task, previous, goal, 1.0), int(np.count_nonzero(task.fair))
    check_forced(left(task, keys, {}, FULL).forced + keys.forced, budget)
    price = worth * float(task.sizes.sum()) / count
    # What a plan may cost: as over all channels, where what must move anyway does so, too.
    found, least = None, (count - 1) * price + task.forced
    for depth, layouts in DEPTHS:
        owners = keys.owners(depth, copies)
        partials = sum(len(o.channels) - 1 for o in owners.values()) * price
        for layout in layouts if 0 < keys.hot == len(owners) else ():
            rest = left(task, keys, owners, layout)
            for exact in (False, True):
                # Quickly at first; the best then for as few bytes as can be.
                at = cleared(rest, goal, min(budget - keys.forced, least - partials), exact)
                if at is None:
                    break
                done = _carried_out(task, keys, owners, rest, at, goal, budget, copies)
                if done[0] > goal * (1 + ROUNDING):
                    break
                found, least = done, partials + rest.moved(at)
    if found is not None:
        return found
    tried = list[Shared]()
    # Where a key may not have as many channels as hold it, others need no more than they did.
    again = [(1.0, FEWEST)] if copies else []
    for part, depth in ((1.0, 0.0), *again, (HARD, 0.0)):
        keys = cut(task, previous, goal, part)
        owners = keys.owners(depth, copies)
        rest = left(task, keys, owners, ALIKE)
        at = picked(rest, max(goal, rest.floor * (1 + CLOSE)), budget - keys.forced)
        tried.append(_carried_out(task, keys, owners, rest, at, goal, budget, copies))
        if tried[-1][0] <= goal * (1 + ROUNDING):
            return tried[-1]
    enough = min(t[0] for t in tried) * (1 + NEAR)
    return min((t for t in tried if t[0] <= enough), key=lambda t: sum(map(len, t[2].values())))


def _carried_out(
    task: Task,
    keys: Cut,
    owners: Mapping[int, Owners],
    rest: Task,
    at: Ints,
    goal: float,
    budget: float,
    copies: int | None,
) -> Shared:
    """`shared_plan`'s answer, what was left being `at`."""
    spare, at = budget - keys.made_whole - rest.moved(at), at[: len(task.load)]
    loads = sums_by(at, keys.whole, len(task.fair))
    after = shared(loads, task.fair, keys.loads, keys.before, goal, owners)
    if copies is not None:
        after = largest(after, copies)
    # A split rounds each share to whole parts.
    rounding = len(task.fair) / PARTS * float(keys.sizes.sum())
    weights = keys.had, keys.loads, keys.sizes, keys.copies
    after = afforded(keys.before, after, *weights, spare - rounding)
    hashes = task.profile.heavy[keys.items - task.profile.slots].tolist()
    shares = {
        h: {int(c): float(s[c]) for c in np.flatnonzero(s)}
        for h, s in zip(hashes, after, strict=True)
    }
    return imbalance(loads + keys.loads @ after, task.capacities), at, shares
