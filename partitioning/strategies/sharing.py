"""Keys that frontier splits: which are too heavy to stay whole, and who shares each.

Whole items are brought under the goal first; split keys, which can be cut anywhere, fill the room
that is left. So the fewest bytes move: a slot only where it alone is in the way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from partitioning.function import PartitioningFunction
from partitioning.metrics import Indices, placements
from partitioning.profile import Floats
from partitioning.strategies.frontier_task import Task
from partitioning.strategies.greedy import surface

#: Keys of this part of the goal's share of a channel hardly fit beside others: they are split
#: where whole ones miss the goal.
HARD = 0.5
#: Share of its key, at most, that an owner keeps whose partial the budget does not move.
STAYING = 1e-3
#: A part of less than this of its key is none: rounding makes such.
LEAST_PART = 1e-9


def split_task(
    task: Task,
    previous: PartitioningFunction | None,
    goal: float,
    part: float,
    copies: int | None = None,
) -> tuple[Task, Indices, npt.NDArray[np.bool_]]:
    """What is left to plan where keys are split, and which keys those are.

    Parameters
    ----------
    part : keys over so much of what the goal allows the best channel are split; and, if they can
        be, those that are split now
    copies : most channels that a key has; None: any number

    Returns
    -------
    the task without the load of the keys that are to be split; where `copies` are limited, that of
    those which fit on no channel comes back as fixed items at its end, equal pieces on as many
    channels; the item number of each key, heaviest first, (F,); who may own it, bool (F, N)
    """
    load = task.load.copy()
    load[: task.profile.slots] = 0.0
    load[task.fixed] = 0.0
    cut = load > part * goal * task.fair.max()
    if previous is not None:
        cut[task.profile.slots :] |= previous.split.find(task.profile.heavy) >= 0
        cut &= ~task.fixed
    items = np.flatnonzero(cut)
    items = items[np.argsort(-load[items], kind="stable")]
    whole = np.where(cut, 0.0, task.load)
    biggest = whole[task.profile.slots :].max(initial=0.0)
    left = replace(
        task,
        load=whole,
        poured=task.poured + float(load[items].sum()),
        measures=whole[None] / (float(task.load.sum()) or 1.0),
        home=np.where(cut, task.start, task.home).astype(np.int32),
        fixed=task.fixed | cut,
        floor=max(1.0, float(biggest / task.fair.max())),
    )
    allowed = np.broadcast_to(task.fair > 0, (len(items), len(task.fair)))
    if copies is None:
        return left, items, allowed
    return _in_pieces(left, load, shares_before(task, previous, items), goal, items, copies)


def _in_pieces(
    task: Task, load: Floats, before: Floats, goal: float, items: Indices, copies: int
) -> tuple[Task, Indices, npt.NDArray[np.bool_]]:
    """`split_task`'s answer with pieces on the channels that own most of each key by now, then on
    those with most room."""
    room = goal * task.fair - np.bincount(task.start, task.load, minlength=len(task.fair))
    allowed = np.zeros(before.shape, dtype=np.bool_)
    at: list[int] = []
    pieces: list[float] = []
    for key, weight in enumerate(load[items].tolist()):
        if weight <= goal * task.fair.max():
            allowed[key] = task.fair > 0
            continue
        order = np.lexsort((-room, -before[key], task.fair <= 0))
        own = order[: min(copies, int((task.fair > 0).sum()))]
        allowed[key, own] = True
        room[own] -= weight / len(own)
        at += own.tolist()
        pieces += [weight / len(own)] * len(own)
    more = np.array(pieces)
    where = np.array(at, dtype=np.int32)
    whole = np.append(task.load, more)
    total = float(whole.sum()) + task.poured - float(more.sum())
    return (
        replace(
            task,
            load=whole,
            sizes=np.append(task.sizes, np.zeros(len(more))),
            measures=whole[None] / (total or 1.0),
            surprises=np.pad(task.surprises, ((0, 0), (0, len(more)))),
            home=np.append(task.home, where),
            start=np.append(task.start, where),
            fixed=np.append(task.fixed, np.ones(len(more), dtype=np.bool_)),
            poured=task.poured - float(more.sum()),
        ),
        items,
        allowed,
    )


def shares_before(task: Task, previous: PartitioningFunction | None, items: Indices) -> Floats:
    """Share of each item's state on each of the N channels, float64 (F, N); that on channels that
    close is missing."""
    shares = np.zeros((len(items), len(task.capacities)))
    if previous is not None:
        item, channel, share = placements(previous, task.profile.heavy[items - task.profile.slots])
        stays = channel < shares.shape[1]
        np.add.at(shares, (item[stays], channel[stays]), share[stays])
    return shares * (task.capacities > 0)


def poured(
    rest: Floats,
    fair: Floats,
    loads: Floats,
    before: Floats,
    goal: float,
    allowed: npt.NDArray[np.bool_],
) -> Floats:
    """Who shares each key, float64 (F, N), such that no channel has over `goal` of its fair share
    if that can be: as much as can be stays where it is, what must go goes to the fewest.

    Parameters
    ----------
    rest, fair : float64 (N,): load of whole items, and fair share of all load; 0: closed
    loads : float64 (F,), in the order in which they take room; one that fits whole stays whole
    before : float64 (F, N): shares where the keys are
    allowed : bool (F, N): who may own each, one channel at least
    """
    open_ = fair > 0
    level = surface(rest[open_] / fair[open_], fair[open_], float(loads.sum()))
    room = np.where(open_, np.maximum(max(level, goal) * fair - rest, 0.0), 0.0)
    after = np.zeros_like(before)
    for key, load in enumerate(loads.tolist()):
        fits = open_ & allowed[key] & (room >= load)
        if fits.any():
            owner = int(np.lexsort((room, before[key], fits))[-1])
            after[key, owner] = 1.0
        else:
            free = np.where(allowed[key], room, 0.0)
            parts = np.minimum(before[key] * load, free)
            left = load - float(parts.sum())
            for channel in np.argsort(parts - free, kind="stable").tolist():
                taken = min(left, float(free[channel] - parts[channel]))
                parts[channel] += taken
                left -= taken
            parts[parts <= LEAST_PART * load] = 0.0
            if not parts.any():
                parts = np.where(allowed[key], fair, 0.0)
            after[key] = parts / parts.sum()
        room = np.maximum(room - after[key] * load, 0.0)
    return after


def largest(shares: Floats, copies: int) -> Floats:
    """Shares (F, N) with no more than so many owners a key, those with most of it."""
    order = np.argsort(-shares, axis=1, kind="stable")
    kept = shares.copy()
    np.put_along_axis(kept, order[:, copies:], 0.0, axis=1)
    return kept / kept.sum(axis=1, keepdims=True)


def afforded(before: Floats, after: Floats, sizes: Floats, budget: float) -> Floats:
    """As far from `before` to `after`, shares (F, N), as a budget goes; what is on channels that
    close moves anyway. Where it does not pay for the partials of owners that leave, none does."""
    spare = max(budget - float((1.0 - before.sum(axis=1)) @ sizes), 0.0)
    gone = (before > 0) & (after <= 0)
    partials = np.count_nonzero(gone, axis=1) / np.maximum(np.count_nonzero(before, axis=1), 1)
    if float(partials @ sizes) > spare:
        after = after + np.where(gone, np.minimum(before, STAYING), 0.0)
        after /= after.sum(axis=1, keepdims=True)
    moved = float(np.maximum(before - after, 0.0).sum(axis=1) @ sizes)
    part = 1.0 if moved <= spare else spare / moved
    return before + part * (after - before)
