"""Packing of few items: pairs of channels divide their items again while that helps.

To be even is then to pack bins. The fullest channel and another divide their items as evenly as the
bytes allow (a knapsack).

The search itself gives one item, or one for several. With few items it ends where an exchange of
several for several would still help.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioning.strategies.frontier.assignment import Indices, Ints
from partitioning.strategies.frontier.local_search import MIN_STEP_GAIN, RECEIVERS, STEPS_PER_ITEM
from partitioning.workload.profile import Floats, sums_by

#: Most items of two channels that are shared again between them: about a millisecond.
FEW_ITEMS = 512
#: Steps that the load of two channels is cut into, at least, and times their items, about.
MIN_STEPS, CELLS = 1024, 1 << 16


def repack_pairs(
    load: Floats,
    charged: Floats,
    home: Ints,
    at: Ints,
    fair: Floats,
    loose: Indices,
    budget: float,
    stop: float,
) -> Ints:
    """Place each item, no less evenly than `at`.

    Parameters
    ----------
    load, charged : float64 (n,): load of each item, and bytes that it costs away from home
    home, at : int32 (n,): where each is (-1: nowhere), and where it is to be so far
    fair : float64 (N,): fair share of the load of each channel; 0: closed
    loose : items that may move, (m,)
    budget : bytes that may be away from home; not below those that are, items being `at`
    stop : ends when no channel has more than this part of its fair share

    Returns
    -------
    int32 (n,)
    """
    at, loose = at.copy(), loose[load[loose] > 0]
    loads, channels = sums_by(at, load, len(fair)), np.flatnonzero(fair > 0)
    left = budget - float(charged[at != home].sum())
    for _ in range(STEPS_PER_ITEM * len(load)):
        shares = loads[channels] / fair[channels]
        if shares.max() <= stop:
            break
        *others, donor = channels[np.argsort(shares, kind="stable")].tolist()
        best, step = float(shares.max()) * (1 - MIN_STEP_GAIN), None
        for other in others[:RECEIVERS]:
            both = np.array([donor, other], np.int32)
            items = loose[np.isin(at[loose], both)]
            own = load[items] * (at[items] == both[:, None])
            costs = charged[items] * (home[items] != both[:, None])
            now = float(costs[0] @ (own[0] > 0) + costs[1] @ (own[1] > 0))
            rest = loads[both] - own.sum(axis=1)
            on = _shared(load[items], costs, rest, fair[both], max(left, 0.0) + now, stop)
            shared = np.add(rest, [load[items[on]].sum(), load[items[~on]].sum()])
            worst = float((shared / fair[both]).max())
            if worst < best:
                best, step = worst, (items, np.where(on, *both), np.where(on, *costs).sum() - now)
        if step is None:
            break
        items, to, cost = step
        at[items] = to
        loads, left = sums_by(at, load, len(fair)), left - float(cost)
    return at


def _shared(
    load: Floats, costs: Floats, rest: Floats, fair: Floats, most: float, stop: float
) -> npt.NDArray[np.bool_]:
    """Return the items (of m) for the first of two channels; the second has the rest.

    They are as even as whole steps of load can be, or reach `stop` for the least cost.

    Parameters
    ----------
    costs : float64 (2, m): of an item on the first, on the second
    rest, fair : float64 (2,): load of each that stays, and its fair share
    most : most that all may cost
    """
    total = float(load.sum())
    unit = total / max(MIN_STEPS, CELLS // len(load)) if len(load) else 1.0
    steps = np.rint(load / unit).astype(np.intp).tolist()
    least = np.zeros(1)  # cost by steps on the first
    first = []
    for step, on_first, on_second in zip(steps, *costs.tolist(), strict=True):
        without = np.concatenate([least + on_second, np.full(step, np.inf)])
        least = np.concatenate([np.full(step, np.inf), least + on_first])
        first.append(least < without)
        least = np.minimum(least, without)
    loads = rest[0] + np.arange(len(least)) * unit
    worst = np.maximum(loads / fair[0], (rest.sum() + total - loads) / fair[1])
    worst = np.where((least <= most) & (least < np.inf), np.maximum(worst, stop), np.inf)
    at = int(np.lexsort((least, worst))[0])
    on = np.zeros(len(load), np.bool_)
    for i in range(len(load) - 1, -1, -1):
        if first[i][at]:
            on[i], at = True, at - steps[i]
    return on
