"""Items on channels: loads, bytes moved, and the emptying of channels that go.

Knows loads, bytes and channel numbers only; profiles and functions stay outside.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from partitioning.workload.profile import Floats

Ints = npt.NDArray[np.int32]
Indices = npt.NDArray[np.intp]
#: Densities closer than this, relatively, are one: sizes in proportion to load differ by rounding.
SAME_DENSITY = 1e-9
#: Result of `densest` if no entry is allowed.
NOTHING = -1


@dataclass(eq=False)
class Assignment:
    """Hold the channel of every item, and the bytes that it took to bring it there.

    Parameters
    ----------
    load, sizes : float64 (n,): load and bytes of each item
    home : int32 (n,): where each item's state is; -1: it has none, and moves for free
    at : int32 (n,): where each item is to be; changed in place
    fair : float64 (N,): fair share of the load of each channel; 0: closed
    fixed : bool (n,): items that no search may move

    These are kept up to date: `loads`, float64 (N,), the load of each channel; `bytes` of the items
    away from home; and the answers of `on` and `heaviest`.
    """

    load: Floats
    sizes: Floats
    home: Ints
    at: Ints
    fair: Floats
    fixed: npt.NDArray[np.bool_] | None = None
    loads: Floats = field(init=False)
    charged: Floats = field(init=False)
    divisor: Floats = field(init=False)
    bytes: float = field(init=False)
    # Each channel's items in order, and what has left and joined it since they were: to put them
    # in order at each move would copy them each time.
    _on: list[Indices] = field(init=False)
    _left: list[set[int]] = field(init=False)
    _joined: list[dict[int, float]] = field(init=False)
    _heaviest: list[float | None] = field(init=False)  # None: to be looked up

    def __post_init__(self) -> None:
        self.loads = np.bincount(self.at, self.load, minlength=len(self.fair)).astype(np.float64)
        self.charged = self.sizes * (self.home >= 0)
        self.divisor = np.where(self.fair > 0, self.fair, np.inf)
        self.bytes = float(self.charged[self.at != self.home].sum())
        loaded = np.flatnonzero((self.load > 0) & (True if self.fixed is None else ~self.fixed))
        loaded = loaded[np.lexsort((loaded, self.load[loaded], self.at[loaded]))]
        ends = np.searchsorted(self.at[loaded], np.arange(1, len(self.fair)))
        self._on = np.split(loaded, ends)
        self._left, self._joined = [set() for _ in self._on], [{} for _ in self._on]
        self._heaviest = [None] * len(self._on)

    @property
    def shares(self) -> Floats:
        """Load of each channel over its fair share, (N,); closed channels count as 0."""
        return self.loads / self.divisor

    def on(self, channel: int) -> Indices:
        """Return the items of a channel that have load and are not fixed, (m,), least load first.

        If loads are equal, the item that came last is last.
        """
        items, joined = self._on[channel], self._joined[channel]
        if self._left[channel]:
            items = items[self.at[items] == channel]
            self._left[channel].clear()
        if joined:
            loads = np.array(list(joined.values()))
            order = np.argsort(loads, kind="stable")
            places = np.searchsorted(self.load[items], loads[order], side="right")
            items = np.insert(items, places, np.array(list(joined), dtype=np.intp)[order])
            joined.clear()
        self._on[channel] = items
        return items

    def heaviest(self, channel: int) -> float:
        """Return the load of the last of a channel's items; 0: there is none."""
        load = self._heaviest[channel]
        if load is None:
            items = self.on(channel)
            load = self._heaviest[channel] = float(self.load[items[-1]]) if len(items) else 0.0
        return load

    def cost(self, items: Indices, source: int, target: int) -> Floats:
        """Return the bytes that moving `items` from `source` to `target` adds; below 0: home."""
        home = self.home[items]
        change = (home == source).view(np.int8) - (home == target).view(np.int8)
        return self.charged[items] * change

    def put(self, item: int, target: int) -> None:
        """Bring one item to `target`."""
        source, home, load = int(self.at[item]), int(self.home[item]), float(self.load[item])
        if load > 0 and source != target:
            if item in self._left[target]:
                self.on(target)  # back behind its equals, not where it was among them
            if self._joined[source].pop(item, None) is None:
                self._left[source].add(item)
            self._joined[target][item] = load
            top = self._heaviest[source]
            if top is not None and load >= top:
                self._heaviest[source] = None
            top = self._heaviest[target]
            if top is not None and load > top:
                self._heaviest[target] = load
        self.bytes += float(self.charged[item]) * ((home == source) - (home == target))
        self.loads[source] -= load
        self.loads[target] += load
        self.at[item] = target


def evacuate(start: Ints, load: Floats, fair: Floats, tail: Ints) -> Ints:
    """Place items of closed channels: largest load first, each on the emptiest channel.

    Parameters
    ----------
    start : int32 (n,): where each item is
    fair : float64 (N,): fair share of each channel, in any unit; 0: closed. Those past N are too
    tail : int32 (n,): the item that is the tail of this one's slot; its own number for tails

    Returns
    -------
    int32 (n,)
    """
    at = start.copy()
    gone = (start >= len(fair)) | (fair[np.minimum(start, len(fair) - 1)] == 0)
    if not gone.any():
        return at
    kept = np.flatnonzero(~gone)
    loads = np.bincount(at[kept], load[kept], minlength=len(fair))
    tails = np.bincount(at[kept[tail[kept] == kept]], minlength=len(fair))
    open_ = np.flatnonzero(fair > 0).tolist()
    # Items without load are spread by number: keys not seen yet will come to them too.
    by_load = [(loads[c] / fair[c], c) for c in open_]
    by_number = [(tails[c] / fair[c], c) for c in open_]
    heapq.heapify(by_load)
    heapq.heapify(by_number)
    idle_keys = gone & (load == 0) & (tail != np.arange(len(tail)))
    moving = np.flatnonzero(gone & ~idle_keys)
    for item in moving[np.argsort(-load[moving], kind="stable")].tolist():
        heap, weight = (by_load, load[item]) if load[item] > 0 else (by_number, 1.0)
        height, target = heap[0]
        heapq.heapreplace(heap, (height + weight / fair[target], target))
        at[item] = target
    at[idle_keys] = at[tail[idle_keys]]
    return at


def gathered(at: Ints, home: Ints, kinds: Floats) -> Ints:
    """Exchange slots that are alike, so that those that leave a channel are neighbours.

    The plan moves the same bytes, in runs of slots that touch fewer files.

    Parameters
    ----------
    at, home : int32 (S,): where each slot is to be, and is
    kinds : float64 (R, S): slots of one channel that agree in all are alike

    Returns
    -------
    int32 (S,): where each slot is to be
    """
    moved = (at != home) & (home >= 0)
    near = np.flatnonzero(np.isin(kinds[0], kinds[0][moved]) & np.isin(home, home[moved]))
    if not len(near):
        return at
    at = at.copy()
    rows = np.vstack([home[near].astype(np.float64), kinds[:, near]]).T
    _, kind = np.unique(rows, axis=0, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    for alike in np.split(near[order], np.flatnonzero(np.diff(kind[order])) + 1):
        going = alike[moved[alike]]
        if 0 < len(going) < len(alike):
            source = home[alike[0]]
            others = np.setdiff1d(np.flatnonzero(moved & (home == source)), alike)
            middle = np.median(others if len(others) else going)
            nearest = alike[np.argsort(np.abs(alike - middle), kind="stable")[: len(going)]]
            targets = np.sort(at[going])
            at[going] = source
            at[np.sort(nearest)] = targets
    return at


def density_of(shed: Floats, cost: Floats) -> Floats:
    """Return the load shed per byte; infinite where it costs nothing."""
    return np.divide(shed, cost, out=np.full(len(shed), np.inf), where=cost > 0)


def densest(density: Floats, shed: Floats, allowed: npt.NDArray[np.bool_]) -> int:
    """Return the densest allowed entry, of equals the one that sheds most; or NOTHING."""
    if not allowed.any():
        return NOTHING
    most = density[allowed].max()
    near = allowed & (density >= most * (1 - SAME_DENSITY))
    return int(np.where(near, shed, -1.0).argmax())
