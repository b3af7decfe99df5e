"""In which order moves are made, so that a migration may stop after any of them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import zip_longest

import numpy as np

from partitioning.workload.profile import Floats

#: Sums of floats in another order differ by less than this part.
ROUNDING = 1e-9


def safe_order(
    source: Sequence[int],
    target: Sequence[int],
    load: Sequence[float],
    before: Floats,
    capacities: Floats,
    last: Collection[int] = (),
    alike: Sequence[int] | None = None,
) -> list[list[int]]:
    """Moves in batches, each of which leaves no open channel fuller, by its capacity, than the
    fullest is before the first or after the last.

    A batch is one move wherever that can be, and else the swap or chain of moves that has to be
    made together. Of two moves that both fit, the one with more load comes first; or the one whose
    group has more, and then the others of that group. The last batch is of moves that can only be
    made together with those of `last`.

    Parameters
    ----------
    source, target : channel numbers, (m,)
    load : what goes with each move, (m,)
    before : load of each channel at the start, float64 (n,)
    capacities : of each channel afterwards, float64 (n,); what is 0 is only ever left
    last : indices of moves that come after all others that can do without them
    alike : group of each move, (m,), where moves of one group should follow one another; None: no
        matter

    Returns
    -------
    indices of moves, each once
    """
    open_ = capacities > 0
    after = before.copy()
    np.subtract.at(after, list(source), load)
    np.add.at(after, list(target), load)
    now, most = before.tolist(), np.full(len(before), np.inf)
    if open_.any():
        limit = max(float((x[open_] / capacities[open_]).max()) for x in (before, after))
        most[open_] = limit * capacities[open_] + ROUNDING * float(np.abs(before).sum())
    # Of every channel: the moves into it that have no room yet (least load first), and all
    # moves out of it that are not made.
    waiting: list[list[tuple[float, int]]] = [[] for _ in now]
    leaving: list[list[int]] = [[] for _ in now]
    group = [0] * len(load) if alike is None else alike
    total: defaultdict[int, float] = defaultdict(float)
    for g, more in zip(group, load, strict=True):
        total[g] += more
    ranked = sorted(
        set(range(len(load))) - set(last), key=lambda m: (-total[group[m]], group[m], -load[m], m)
    )
    for m in reversed(ranked):
        leaving[source[m]].append(m)
    leaves = [list(moves) for moves in leaving]
    made = [False] * len(load)
    batches: list[list[int]] = []

    def make(m: int) -> None:
        made[m] = True
        now[source[m]] -= load[m]
        now[target[m]] += load[m]

    def fits(m: int) -> bool:
        return now[target[m]] + load[m] <= most[target[m]]

    def settle(freed: list[int]) -> None:
        # A channel that has given something away has room for those that wait for it.
        while freed:
            queue, came = waiting[freed.pop()], list[int]()
            while queue and (made[queue[0][1]] or fits(queue[0][1])):
                m = heapq.heappop(queue)[1]
                if not made[m]:
                    make(m)
                    came.append(m)
                    freed.append(source[m])
            # All fit together: their order is free.
            batches.extend([m] for m in sorted(came, key=group.__getitem__))

    freed: list[int] = []
    for m, following in zip_longest(ranked, ranked[1:]):
        if fits(m):
            make(m)
            batches.append([m])
            freed.append(source[m])
        else:
            heapq.heappush(waiting[target[m]], (load[m], m))
        if alike is None or following is None or group[following] != group[m]:
            settle(freed)

    def chain(m: int) -> tuple[list[int], bool]:
        # Nothing fits by itself: whoever is overfull by a move makes one of its own with it. It
        # has one left, because it ends with no more than `most`; or else it is of `last`.
        batch, over = [m], [target[m]]
        make(m)
        while over:
            channel = over.pop()
            while now[channel] > most[channel]:
                while leaving[channel] and made[leaving[channel][-1]]:
                    leaving[channel].pop()
                if not leaving[channel]:
                    return batch, False
                n = leaving[channel].pop()
                make(n)
                batch.append(n)
                over.append(target[n])
        return batch, True

    def undo(batch: list[int]) -> None:
        for n in batch:
            made[n] = False
            now[source[n]] += load[n]
            now[target[n]] -= load[n]
        for channel in {source[n] for n in batch}:
            leaving[channel] = [n for n in leaves[channel] if not made[n]]

    for m in ranked:
        if made[m]:
            continue
        batch, whole = chain(m)
        if whole:
            batches.append(batch)
            settle([source[n] for n in batch])
        else:
            undo(batch)
    held = [*sorted(last), *(m for m in ranked if not made[m])]
    return [*batches, held] if held else batches
