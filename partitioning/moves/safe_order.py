"""Order of moves, such that a migration may stop after any batch of them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import zip_longest

import numpy as np

from partitioning.workload.profile import Floats

#: Part of all load that may exceed a channel's limit: sums of floats in another order differ by
#: less than this.
LIMIT_TOLERANCE = 1e-9


def safe_order(
    source: Sequence[int],
    target: Sequence[int],
    load: Sequence[float],
    before: Floats,
    capacities: Floats,
    last: Collection[int] = (),
    alike: Sequence[int] | None = None,
) -> list[list[int]]:
    """Return moves in batches that never overfill a channel.

    After each batch, no open channel is fuller (by its capacity) than the fullest is before the
    first batch or after the last.

    A batch is one move where possible. Else it is the swap or chain of moves that has to be made
    together. If two moves fit, the one with more load comes first. With groups, the group with more
    load comes first, and its moves follow one another. The last batch holds `last`, and the moves
    that can only be made together with those.

    Parameters
    ----------
    source, target : channel numbers, (m,)
    load : load of each move, (m,)
    before : float64 (n,): load of each channel at the start
    capacities : float64 (n,): capacity of each channel afterwards; a channel of capacity 0 closes
    last : indices of moves that come after all others that do not need them
    alike : group of each move, (m,); None: moves are not grouped

    Returns
    -------
    indices of moves, each once

    Examples
    --------
    Channel 1 has no room for 5 before it has given 6 to channel 2.

    >>> safe_order([0, 1], [1, 2], [5.0, 6.0], np.array([10.0, 9.0, 0.0]), np.ones(3))
    [[1], [0]]
    """
    after = before.copy()
    np.subtract.at(after, list(source), load)
    np.add.at(after, list(target), load)
    group = [0] * len(load) if alike is None else alike
    total: defaultdict[int, float] = defaultdict(float)
    for g, more in zip(group, load, strict=True):
        total[g] += more
    free = set(range(len(load))) - set(last)
    ranked = sorted(free, key=lambda m: (-total[group[m]], group[m], -load[m], m))
    order = _Order(source, target, load, before.tolist(), _limits(before, after, capacities), group)
    order.make_alone(ranked, grouped=alike is not None)
    order.make_together(ranked)
    held = [*sorted(last), *(m for m in ranked if not order.made[m])]
    return [*order.batches, held] if held else order.batches


def _limits(before: Floats, after: Floats, capacities: Floats) -> list[float]:
    """Return the most load that each channel may have, (n,); infinite for a channel that closes."""
    limits, open_ = np.full(len(before), np.inf), capacities > 0
    if open_.any():
        fullest = max(float((x[open_] / capacities[open_]).max()) for x in (before, after))
        limits[open_] = fullest * capacities[open_] + LIMIT_TOLERANCE * float(np.abs(before).sum())
    most: list[float] = limits.tolist()
    return most


class _Order:
    """Hold the batches so far, and what each channel has after them.

    Parameters
    ----------
    source, target, load, group : of each move, (m,)
    now : load of each channel, (n,); changed in place
    most : the most that each may have, (n,)
    """

    def __init__(
        self,
        source: Sequence[int],
        target: Sequence[int],
        load: Sequence[float],
        now: list[float],
        most: list[float],
        group: Sequence[int],
    ) -> None:
        self.source, self.target, self.load, self.group = source, target, load, group
        self.now, self.most = now, most
        self.made = [False] * len(load)
        self.batches: list[list[int]] = []
        # Moves into each channel that have no room yet, least load first.
        self.waiting: list[list[tuple[float, int]]] = [[] for _ in now]

    def make(self, m: int) -> None:
        """Make one move."""
        self.made[m] = True
        self.now[self.source[m]] -= self.load[m]
        self.now[self.target[m]] += self.load[m]

    def undo(self, batch: Sequence[int]) -> None:
        """Take moves back."""
        for m in batch:
            self.made[m] = False
            self.now[self.source[m]] += self.load[m]
            self.now[self.target[m]] -= self.load[m]

    def fits(self, m: int) -> bool:
        """Return whether a move's target has room for it."""
        target = self.target[m]
        return self.now[target] + self.load[m] <= self.most[target]

    def make_alone(self, ranked: Sequence[int], grouped: bool) -> None:
        """Make every move that fits by itself, in this order; others wait for room."""
        freed: list[int] = []
        for m, following in zip_longest(ranked, ranked[1:]):
            if self.fits(m):
                self.make(m)
                self.batches.append([m])
                freed.append(self.source[m])
            else:
                heapq.heappush(self.waiting[self.target[m]], (self.load[m], m))
            if not grouped or following is None or self.group[following] != self.group[m]:
                self.settle(freed)

    def settle(self, freed: list[int]) -> None:
        """Make the moves that waited for room on the channels that have given something away."""
        while freed:
            queue, came = self.waiting[freed.pop()], list[int]()
            while queue and (self.made[queue[0][1]] or self.fits(queue[0][1])):
                m = heapq.heappop(queue)[1]
                if not self.made[m]:
                    self.make(m)
                    came.append(m)
                    freed.append(self.source[m])
            # All fit together: their order is free.
            self.batches.extend([m] for m in sorted(came, key=self.group.__getitem__))

    def make_together(self, ranked: Sequence[int]) -> None:
        """Make the moves that fit only together; those that need a held move stay unmade."""
        leaving: list[list[int]] = [[] for _ in self.now]
        for m in reversed(ranked):
            leaving[self.source[m]].append(m)
        for m in ranked:
            if self.made[m]:
                continue
            if batch := self.chain(m, leaving):
                self.batches.append(batch)
                self.settle([self.source[n] for n in batch])

    def chain(self, m: int, leaving: Sequence[list[int]]) -> list[int]:
        """Make a move, and with it others until no channel is overfull.

        An overfull channel makes a move of its own. One is left, because the channel ends within
        its limit, unless that move is held until the end.

        Parameters
        ----------
        leaving : moves out of each channel, the next one last; those taken are removed

        Returns
        -------
        the moves made; []: a channel would stay overfull, and none is made
        """
        batch, taken, over = [m], list[int](), [self.target[m]]
        self.make(m)
        while over:
            channel = over.pop()
            moves = leaving[channel]
            while self.now[channel] > self.most[channel]:
                while moves and self.made[moves[-1]]:
                    taken.append(moves.pop())
                if not moves:
                    self.undo(batch)
                    for n in reversed(taken):
                        leaving[self.source[n]].append(n)
                    return []
                n = moves.pop()
                self.make(n)
                batch.append(n)
                taken.append(n)
                over.append(self.target[n])
        return batch
