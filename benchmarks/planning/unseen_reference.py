"""Plan by four rules alone, for comparison: the planner to beat on windows that nobody has seen.

1. A key's share next time is a mean of its past shares; their squared errors choose the decay.
2. Load that past windows had from new keys is spread over all slots.
3. A channel that is over the others by chance alone gives nothing away.
4. Where whole items do not fit, two large ones change places, if that is worth their load.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenkeel.backtest.windows import Series
from partitioning.function.hashing import slot_of
from partitioning.workload.profile import Floats

SLOTS = 4096
#: Weights of a window against the one after it, of which one is chosen.
DECAYS = np.array([0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
#: A smoother mean is preferred if its squared error is larger by this part at most.
NEAR = 1.05
#: Share of the load from which a key is placed by name.
NAMED = 0.0005
#: Standard deviations of chance by which a channel may be over, and the part it may always be.
BAND, LEAST_BAND = 0.5, 0.005
#: Load that the fullest channel must lose for each unit of load that changes places.
PRICE = 0.05
#: Items that change places are of the largest ones.
SWAPPED = 256
Ints = npt.NDArray[np.intp]


class ReferencePlanner:
    """Plan window by window, from the exact load of each of the series' keys."""

    def __init__(self, series: Series, channels: int) -> None:
        self.channels = channels
        self.slot = slot_of(series.hashes, SLOTS)
        self.slots = np.arange(SLOTS) % channels
        self.named = np.full(series.keys, -1)
        self.means = np.zeros((len(DECAYS), series.keys))
        self.missed = np.zeros(len(DECAYS))
        self.known = np.zeros(series.keys, dtype=np.bool_)
        self.new, self.chance = 0.0, 0.0
        self.expected: Floats | None = None

    def owners(self) -> Ints:
        """Return the channel of every key of the series, (K,)."""
        return np.where(self.named >= 0, self.named, self.slots[self.slot])

    def learn(self, load: Floats) -> None:
        """Learn a window's load of every key, (K,), and plan for the next one."""
        share, first = load / load.sum(), self.expected is None
        if self.expected is not None:
            off = np.bincount(self.owners(), share, self.channels) - self.expected
            error = float(np.square(off).mean())
            self.chance = 0.8 * self.chance + 0.2 * error if self.chance else error
            new = float(share[~self.known].sum())
            self.new = (self.new + new) / 2 if self.missed.any() else new
            self.missed += np.square(self.means - share).sum(axis=1)
        keep = np.zeros(len(DECAYS)) if first else DECAYS
        self.means = keep[:, None] * self.means + (1 - keep)[:, None] * share
        self.known |= load > 0
        chosen = np.flatnonzero(self.missed <= NEAR * self.missed.min())[-1]
        if not np.ptp(self.missed):
            chosen = len(DECAYS) // 2
        self._plan(self.means[chosen], float(DECAYS[chosen]))

    def _plan(self, mean: Floats, decay: float) -> None:
        heavy = np.flatnonzero(mean > NAMED)
        tail = np.bincount(self.slot, np.where(mean > NAMED, 0.0, mean), SLOTS)
        items = (1 - self.new) * np.append(tail, mean[heavy])
        items[:SLOTS] += self.new / SLOTS
        over = BAND * np.sqrt(decay * (1 - decay) * self.chance)
        level = (1 + LEAST_BAND) / self.channels + over
        at = np.append(self.slots, self.owners()[heavy])
        loads = _shed(items, at, self.channels, level)
        _swap(items, at, loads, level)
        self.slots, self.expected = at[:SLOTS], loads
        self.named[:] = -1
        self.named[heavy] = at[SLOTS:]


def _shed(items: Floats, at: Ints, count: int, level: float) -> Floats:
    """Move items off channels over `level`, largest first, to the emptiest; change `at` in place.

    Returns the loads. At first no item goes that leaves its channel below the mean.
    """
    loads = np.bincount(at, items, count)
    order = np.argsort(-items, kind="stable")
    for least in (1 / count, 1 / count, 0.0):
        for item in order[loads[at[order]] > level].tolist():
            source, target, load = at[item], loads.argmin(), items[item]
            gains = loads[target] + load < loads[source]
            if loads[source] > level and gains and loads[source] - load >= least:
                at[item] = target
                loads[source] -= load
                loads[target] += load
    return loads


def _swap(items: Floats, at: Ints, loads: Floats, level: float) -> None:
    """Let large items change places while the fullest channel gains more than that costs."""
    large = np.argsort(-items, kind="stable")[:SWAPPED]
    while loads.max() > level:
        full = int(loads.argmax())
        mine, theirs = large[at[large] == full], large[at[large] != full]
        if not len(mine) or not len(theirs):
            return
        shift = items[mine][:, None] - items[theirs]
        size = items[mine][:, None] + items[theirs]
        after = np.maximum(loads[full] - shift, loads[at[theirs]] + shift)
        worth = loads[full] - after - PRICE * size
        i, j = np.unravel_index(int(worth.argmax()), worth.shape)
        if worth[i, j] <= 0.002 / len(loads):
            return
        one, other = mine[i], theirs[j]
        loads[full] -= shift[i, j]
        loads[at[other]] += shift[i, j]
        at[one], at[other] = at[other], full
