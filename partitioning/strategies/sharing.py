"""Keys that frontier splits: which are too heavy to stay whole, and who shares each.

Whole items are brought under the goal first; split keys, which can be cut anywhere, fill the room
that is left. So the fewest bytes move: a slot only where it alone is in the way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partitioning.function import PartitioningFunction
from partitioning.metrics import Indices, placements
from partitioning.profile import Floats
from partitioning.strategies.frontier_task import Task
from partitioning.strategies.greedy import surface

#: Keys of this part of the goal's share of a channel hardly fit beside others: they are split
#: where whole ones miss the goal.
HARD = 0.5
#: A part of less than this of its key is none: rounding makes such.
LEAST_PART = 1e-9


def split_task(
    task: Task, previous: PartitioningFunction | None, goal: float, part: float
) -> tuple[Task, Indices]:
    """The task without the load of the keys that are to be split, and the item number of each,
    heaviest first: those over `part` of what the goal allows the best channel, and those that
    are split now."""
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
    return replace(
        task,
        load=whole,
        poured=task.poured + float(load[items].sum()),
        measures=whole[None] / (float(task.load.sum()) or 1.0),
        home=np.where(cut, task.start, task.home).astype(np.int32),
        fixed=task.fixed | cut,
        floor=max(1.0, float(biggest / task.fair.max())),
    ), items


def shares_before(task: Task, previous: PartitioningFunction | None, items: Indices) -> Floats:
    """Share of each item's state on each of the N channels, float64 (F, N); that on channels that
    close is missing."""
    shares = np.zeros((len(items), len(task.capacities)))
    if previous is not None:
        item, channel, share = placements(previous, task.profile.heavy[items - task.profile.slots])
        stays = channel < shares.shape[1]
        np.add.at(shares, (item[stays], channel[stays]), share[stays])
    return shares * (task.capacities > 0)


def poured(rest: Floats, fair: Floats, loads: Floats, before: Floats, goal: float) -> Floats:
    """Who shares each key, float64 (F, N), such that no channel has over `goal` of its fair share
    if that can be: as much as can be stays where it is, what must go goes to the fewest.

    Parameters
    ----------
    rest, fair : float64 (N,): load of whole items, and fair share of all load; 0: closed
    loads : float64 (F,), in the order in which they take room; one that fits whole stays whole
    before : float64 (F, N): shares where the keys are
    """
    open_ = fair > 0
    level = surface(rest[open_] / fair[open_], fair[open_], float(loads.sum()))
    room = np.where(open_, np.maximum(max(level, goal) * fair - rest, 0.0), 0.0)
    after = np.zeros_like(before)
    for key, load in enumerate(loads.tolist()):
        fits = open_ & (room >= load)
        if fits.any():
            owner = int(np.lexsort((room, before[key], fits))[-1])
            after[key, owner] = 1.0
        else:
            parts = np.minimum(before[key] * load, room)
            left = load - float(parts.sum())
            for channel in np.argsort(parts - room, kind="stable").tolist():
                taken = min(left, float(room[channel] - parts[channel]))
                parts[channel] += taken
                left -= taken
            parts[parts <= LEAST_PART * load] = 0.0
            after[key] = parts / parts.sum()
        room = np.maximum(room - after[key] * load, 0.0)
    return after


def afforded(before: Floats, after: Floats, sizes: Floats, budget: float) -> Floats:
    """As far from `before` to `after`, shares (F, N), as a budget goes; what is on channels that
    close moves anyway."""
    forced = float((1.0 - before.sum(axis=1)) @ sizes)
    moved = float(np.maximum(before - after, 0.0).sum(axis=1) @ sizes)
    part = 1.0 if moved <= budget - forced else max(budget - forced, 0.0) / moved
    return before + part * (after - before)
