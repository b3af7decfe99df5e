"""The same target for fewer bytes: overfull channels shed the cheapest items that suffice.

Choosing items to shed is a knapsack problem. They are then packed into the free room.

The search itself sheds most load per byte first, and overshoots with its last item. It also takes
items only where they fit at once. Once the target is known, what each channel must shed is known,
too.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from partitioning.strategies.frontier.assignment import Indices, Ints
from partitioning.workload.profile import Floats, sums_by

#: Steps that the load to shed is cut into. An item counts with its whole steps. A larger value is
#: more exact, and takes time in proportion.
SHEDDING_STEPS = 2048
#: Items on either side of where most load per byte first would end that a channel chooses among.
CHOICE = 64
#: Rounds of packing, at most. Items that fit nowhere stay, or others make room for them.
PACKING_ROUNDS = 8
#: Channels that may make room for an item, those with most room first.
SHEDDING_RECEIVERS = 8


def cheaper_shedding(
    load: Floats, charged: Floats, home: Ints, at: Ints, limit: Floats, loose: Indices
) -> Ints:
    """Place each item so that no channel exceeds its limit and no more bytes move.

    Parameters
    ----------
    at : int32 (n,): where each is to be; no channel is over its limit
    load, charged, home, limit, loose : as in `packed`

    Returns
    -------
    int32 (n,)
    """
    found = packed(load, charged, home, at, limit, loose)
    moved, before = (float(charged[a != home].sum()) for a in (at if found is None else found, at))
    return found if found is not None and moved < before else at


def packed(
    load: Floats,
    charged: Floats,
    home: Ints,
    at: Ints,
    limit: Floats,
    loose: Indices,
    exact: bool = True,
) -> Ints | None:
    """Place each item so that no channel exceeds its limit; None: none is found.

    Parameters
    ----------
    load, charged : float64 (n,): load of each item, and bytes that it costs away from home
    home, at : int32 (n,): where each is (-1: nowhere), and where those go that cannot be there
    limit : float64 (N,): load that each channel may have; 0: closed
    loose : items that may be placed again, (m,)
    exact : shed the cheapest items that suffice; else most load per byte first, which is quicker

    Returns
    -------
    int32 (n,)
    """
    # A channel that is gone must be left by all items.
    own = loose[(load[loose] > 0) & (home[loose] >= 0) & (home[loose] < len(limit))]
    own = own[limit[home[own]] > 0]
    own = own[np.argsort(home[own], kind="stable")]
    back = at.copy()
    back[own] = home[own]
    groups = np.split(own, np.searchsorted(home[own], np.arange(1, len(limit))))
    loads = sums_by(back, load, len(limit))
    return _Shedding(load, charged, home, limit, back, loads, groups, exact).packed()


@dataclass(eq=False)
class _Shedding:
    """Which of its own items each channel sheds.

    back : int32 (n,): where each item is with all at home that may be
    loads : float64 (N,): of the channels, then
    own : for each channel the items that it may shed
    exact : as in `packed`
    stay : items that fit nowhere and are not shed
    put : items that fit nowhere, and the channel that sheds others to make room for them
    """

    load: Floats
    charged: Floats
    home: Ints
    limit: Floats
    back: Ints
    loads: Floats
    own: list[Indices]
    exact: bool
    stay: set[int] = field(default_factory=set)
    put: dict[int, int] = field(default_factory=dict)
    shed: dict[int, Indices] = field(default_factory=dict)

    def packed(self) -> Ints | None:
        """Place each item; None: some fit nowhere."""
        again = set(np.flatnonzero(self.loads > self.limit).tolist())
        for _ in range(PACKING_ROUNDS):
            for channel in again:
                items = self.covering(channel)
                if items is None:
                    return None
                self.shed[channel] = items
            at, left = self._placed()
            if not left:
                return at
            again = set()
            for item in left:
                if int(self.home[item]) not in again:
                    changed = self._relieved(item, again)
                    if not changed:
                        return None
                    again |= changed
        return None

    def covering(self, channel: int, more: float = 0.0, without: int = -1) -> Indices | None:
        """Return the cheapest items by which a channel gets to `more` below its limit.

        None means that all its items do not suffice.
        """
        own, need = self.own[channel], float(self.loads[channel] - self.limit[channel]) + more
        for item, target in self.put.items():
            if channel in (target, self.home[item]):
                need += float(self.load[item]) * (1 if target == channel else -1)
        if need <= 0:
            return own[:0]
        named = [*self.stay, *self.put, without]
        own = own[~np.isin(own, named)] if len(named) > 1 or without >= 0 else own
        found = _cover(self.load[own], self.charged[own], need, self.exact)
        return None if found is None else own[found]

    def _placed(self) -> tuple[Ints, list[int]]:
        """Place items, largest first, where most room is; also return those that fit nowhere."""
        at, room = self.back.copy(), self.limit - self.loads
        for item, target in self.put.items():
            at[item] = target
            room[target] -= self.load[item]
            room[self.home[item]] += self.load[item]
        for channel, items in self.shed.items():
            room[channel] += self.load[items].sum()
        heap = [(-float(room[c]), c) for c in np.flatnonzero(self.limit > 0).tolist()]
        heapq.heapify(heap)
        gone = np.concatenate([*self.shed.values(), np.empty(0, dtype=np.intp)])
        gone, left = gone[np.argsort(-self.load[gone], kind="stable")], []
        for item, load in zip(gone.tolist(), self.load[gone].tolist(), strict=True):
            most, channel = heap[0]
            if load > -most:
                left.append(item)
            else:
                heapq.heapreplace(heap, (most + load, channel))
                at[item] = channel
        return at, left

    def _relieved(self, item: int, again: set[int]) -> set[int]:
        """Let an item stay, or another channel make room for it, whichever costs less.

        Returns the channels that shed others for it; none where neither is possible.
        """
        load, source = float(self.load[item]), int(self.home[item])
        ways = [(source, self.covering(source, without=item))]
        for channel in np.argsort(self.loads - self.limit, kind="stable")[
            :SHEDDING_RECEIVERS
        ].tolist():
            if channel not in again | {source} and self.limit[channel] > 0:
                ways.append((channel, self.covering(channel, more=load)))
        costs = [
            (float(self.charged[items].sum() - self.charged[self.shed.get(c, items[:0])].sum()), c)
            for c, items in ways
            if items is not None
        ]
        if not costs:
            return set()
        _, channel = min(costs)
        if channel == source:
            self.stay.add(item)
        else:
            self.put[item] = channel
        return {source, channel}


def _cover(load: Floats, cost: Floats, need: float, exact: bool) -> Indices | None:
    """Return the items (of m) with loads of at least `need`, over 0, for the least cost.

    The cost is exact to whole steps of load. Without `exact` the densest items are taken. None
    means that all items do not suffice.
    """
    dense = np.minimum(load, need) / np.maximum(cost, 1e-300)
    order = np.argsort(-dense, kind="stable")
    summed = np.cumsum(load[order])
    if not len(order) or summed[-1] < need:
        return None
    last = int(np.searchsorted(summed, need))
    if not exact:
        return order[: last + 1]
    # The densest are shed anyway.
    first = max(0, last - CHOICE)
    some = order[first : last + CHOICE]
    picked = _knapsack(load[some], cost[some], need - float(summed[first - 1] if first else 0.0))
    return order[: last + 1] if picked is None else np.concatenate([order[:first], some[picked]])


def _knapsack(load: Floats, cost: Floats, need: float) -> Indices | None:
    """Return the same as `_cover`, for few items; None: whole steps do not suffice."""
    steps = (
        np.minimum(np.floor(load / need * SHEDDING_STEPS), SHEDDING_STEPS).astype(np.intp).tolist()
    )
    best = np.full(SHEDDING_STEPS + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros((len(load), SHEDDING_STEPS + 1), dtype=np.bool_)
    for i, step in enumerate(steps):
        if step:
            # To shed j steps with this item takes j - step before it, or none.
            before = np.concatenate([np.full(step, best[0]), best[: SHEDDING_STEPS + 1 - step]])
            before[0] = np.inf
            taken[i] = before + cost[i] < best
            best = np.where(taken[i], before + cost[i], best)
    if not np.isfinite(best[SHEDDING_STEPS]):
        return None
    shed, left = [], SHEDDING_STEPS
    for i in range(len(load) - 1, -1, -1):
        if left > 0 and taken[i, left]:
            shed.append(i)
            left = max(left - steps[i], 0)
    return np.array(sorted(shed), dtype=np.intp)
