"""The same target for fewer bytes: each channel chooses again what it sheds, as a knapsack.

The search sheds most load per byte first, and overshoots with its last item. Once it has ended,
it is known how much each channel must shed and where there is room.
"""

from __future__ import annotations

import numpy as np

from partitioning.profile import Floats, sums_by
from partitioning.strategies.assignment import Indices, Ints

#: Steps that the load to be shed is cut into; an item counts as the whole steps that it has.
STEPS = 512
#: Items that a channel chooses among, most load per byte first, beside those that it sheds now.
CHOICE = 64
#: Rounds over all channels, at most: what one keeps may make room for another.
ROUNDS = 4
#: What a channel sheds must cost this part less than before: other moves are no gain by themselves.
LEAST = 0.01


def thriftier(
    load: Floats, charged: Floats, home: Ints, at: Ints, limit: Floats, loose: Indices
) -> Ints:
    """Where each item goes, such that no channel has more than its limit and no more bytes move.

    Parameters
    ----------
    load, charged : float64 (n,): load of each item, and bytes that it costs away from home
    home, at : int32 (n,): where each is (-1: nowhere), and is to be; no channel is over its limit
    limit : float64 (N,): load that each channel may have; 0: closed
    loose : items that may be placed anew, (m,)

    Returns
    -------
    int32 (n,)
    """
    at = at.copy()
    loads = sums_by(at, load, len(limit))
    # What is on a channel that is gone must leave it.
    loose = loose[(load[loose] > 0) & (home[loose] >= 0) & (home[loose] < len(limit))]
    loose = loose[np.argsort(home[loose], kind="stable")]
    own = np.split(loose, np.searchsorted(home[loose], np.arange(1, len(limit))))
    for _ in range(ROUNDS):
        away = np.bincount(home[loose], charged[loose] * (at[loose] != home[loose]), len(limit))
        donors = np.flatnonzero((away > 0) & (limit > 0))
        saved = False
        for donor in donors[np.argsort(-away[donors], kind="stable")].tolist():
            saved |= _again(load, charged, at, loads, limit, donor, own[donor])
        if not saved:
            break
    return at


def _again(
    load: Floats,
    charged: Floats,
    at: Ints,
    loads: Floats,
    limit: Floats,
    donor: int,
    own: Indices,
) -> bool:
    """Let one channel shed the cheapest of its own items that suffice; whether that saves bytes."""
    out = own[at[own] != donor]
    need = float(loads[donor] + load[out].sum() - limit[donor])
    room = limit - loads
    room[[donor, *np.flatnonzero(limit <= 0)]] = -np.inf
    dense = np.minimum(load[own], max(need, 0.0)) / np.maximum(charged[own], 1e-300)
    some = np.union1d(own[np.argsort(-dense, kind="stable")[:CHOICE]], out)
    shed = some[_cover(load[some], charged[some], need)]
    if charged[shed].sum() >= charged[out].sum() * (1 - LEAST):
        return False
    back, gone = np.setdiff1d(out, shed), np.setdiff1d(shed, out)
    room += np.bincount(at[back], load[back], minlength=len(limit))
    targets = []
    for item in gone[np.argsort(-load[gone], kind="stable")].tolist():
        target = int(room.argmax())
        if load[item] > room[target]:
            return False
        room[target] -= load[item]
        targets.append((item, target))
    for item, target in [*((b, donor) for b in back.tolist()), *targets]:
        loads[at[item]] -= load[item]
        loads[target] += load[item]
        at[item] = target
    return True


def _cover(load: Floats, cost: Floats, need: float) -> Indices:
    """The items (of m) whose loads come to `need` for the least cost, as far as whole steps tell;
    all where that does not suffice."""
    if need <= 0:
        return np.empty(0, dtype=np.intp)
    steps = np.minimum(np.floor(load / need * STEPS), STEPS).astype(np.intp).tolist()
    best = np.full(STEPS + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros((len(load), STEPS + 1), dtype=np.bool_)
    for i, step in enumerate(steps):
        if step:
            # To shed j steps with this item takes j - step before it, or none.
            before = np.concatenate([np.full(step, best[0]), best[: STEPS + 1 - step]])
            before[0] = np.inf
            taken[i] = before + cost[i] < best
            best = np.where(taken[i], before + cost[i], best)
    if not np.isfinite(best[STEPS]):
        return np.arange(len(load))
    shed, left = [], STEPS
    for i in range(len(load) - 1, -1, -1):
        if left > 0 and taken[i, left]:
            shed.append(i)
            left = max(left - steps[i], 0)
    return np.array(sorted(shed), dtype=np.intp)
