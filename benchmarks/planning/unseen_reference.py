"""Plan by four rules alone: the reference that the planner is compared with on unseen windows.

1. A key's share next time is a mean of its past shares; their squared errors choose the decay.
2. Load that past windows had from new keys is spread over all slots.
3. A channel that is over the others by chance alone gives nothing away.
4. Where whole items do not fit, two large ones change places, if that is worth their load.

It knows the exact load of every key, which sketches do not tell.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioning.function.hashing import Hashes
from partitioning.workload.profile import Floats

#: Weights of a window against the one after it, of which one is chosen.
DECAYS = np.array([0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
#: Position in `DECAYS` of the decay that is taken as long as all foretold equally well.
UNKNOWN = 3
#: Part of the load from which on a key is pinned.
HEAVY = 0.0005
#: A smoother mean is preferred if its squared error is larger by this part at most.
SLACK = 0.05
#: Parts of the error by chance, and of the mean load, by which a channel may be over the mean.
BAND, MIN_BAND = 0.25, 0.005
#: Load that the fullest channel must lose for each unit of load that changes places.
PRICE = 0.05
#: Items that change places are of the largest ones.
SWAPPED = 256
#: Part of the mean load that a swap must take off the fullest channel.
MIN_GAIN = 0.002
Ints = npt.NDArray[np.intp]


class ReferencePlanner:
    """Plan window by window; keys are numbered 0, 1, ... in the order in which they first came."""

    def __init__(self, channels: int, slots: int = 4096) -> None:
        self.channels = channels
        self.slot_owner = np.arange(slots) % channels
        self.key_owner = np.empty(0, dtype=np.intp)  # -1: as its slot
        self.means = np.zeros((len(DECAYS), 0))
        self.loss = np.zeros(len(DECAYS))
        self.new: float | None = None
        self.noise: float | None = None
        self.expected: Floats | None = None

    def owners(self, hashes: Hashes) -> Ints:
        """Return the channel of each key, (n,); those that have not come yet are last."""
        more = np.full(len(hashes) - len(self.key_owner), -1)
        named = np.append(self.key_owner, more)
        return np.where(named >= 0, named, self.slot_owner[hashes % len(self.slot_owner)])

    def plan(self, hashes: Hashes, loads: Floats) -> Ints:
        """Learn a window, plan for the next one, and return the channel of each key so far.

        Parameters
        ----------
        hashes, loads : int64 and float64 (n,): hash of each key so far, and its load in the window
        """
        seen, slots, count = len(self.key_owner), len(self.slot_owner), self.channels
        slot, shares = hashes % slots, loads / loads.sum()
        self.means = np.pad(self.means, ((0, 0), (0, len(loads) - seen)))
        self.key_owner = np.append(self.key_owner, np.full(len(loads) - seen, -1))
        owner = self.owners(hashes)
        if self.expected is not None:
            off = np.bincount(owner, weights=shares, minlength=count) - self.expected
            self.noise = _smoothed(self.noise, float(np.mean(off**2)), 0.8)
        mean, new, decay = self._forecast(shares, seen)
        named = np.flatnonzero(mean > HEAVY)
        tail = np.bincount(slot, weights=np.where(mean > HEAVY, 0, mean), minlength=slots)
        items = np.append(mean[named] * (1 - new), tail * (1 - new) + new / slots)
        # Of the squared error of a mean of decay d, d (1 - d) is chance. No move follows it.
        level = (1 + MIN_BAND) / count
        level += 2 * BAND * float(np.sqrt(decay * (1 - decay) * (self.noise or 0.0)))
        at = np.append(owner[named], self.slot_owner)
        load = np.bincount(at, weights=items, minlength=count)
        _shed(items, at, load, level)
        _swap(items, at, load, level)
        self.expected = np.bincount(at, weights=items, minlength=count)
        self.key_owner[:] = -1
        self.key_owner[named], self.slot_owner = at[: len(named)], at[len(named) :]
        return self.owners(hashes)

    def _forecast(self, shares: Floats, seen: int) -> tuple[Floats, float, float]:
        """Return each key's share next time, the share of the load of new keys, and the decay."""
        if seen:
            self.loss += np.square(self.means - shares).sum(axis=1)
            self.new = _smoothed(self.new, float(shares[seen:].sum()), 0.5)
        self.means += (1 - DECAYS[:, None] * bool(seen)) * (shares - self.means)
        best = int(np.flatnonzero(self.loss <= self.loss.min() * (1 + SLACK))[-1])
        if not np.ptp(self.loss):
            best = UNKNOWN
        return self.means[best], self.new or 0.0, float(DECAYS[best])


def _smoothed(old: float | None, new: float, keep: float) -> float:
    return new if old is None else keep * old + (1 - keep) * new


def _shed(items: Floats, at: Ints, load: Floats, level: float) -> None:
    """Let channels over `level` give items, largest first, to the emptiest.

    At first no item goes that is larger than what its channel has over the mean. The channels, `at`
    (n,), and their loads, `load` (N,), are changed in place.
    """
    for any_size in (False, False, False, True):
        for full in np.argsort(-load).tolist():
            own = np.flatnonzero(at == full)
            for item in own[np.argsort(-items[own], kind="stable")].tolist():
                to, size = int(load.argmin()), items[item]
                if load[full] <= level:
                    break
                fits = any_size or size <= load[full] - 1 / len(load)
                if fits and load[to] + size < load[full]:
                    at[item] = to
                    load[to] += size
                    load[full] -= size


def _swap(items: Floats, at: Ints, load: Floats, level: float) -> None:
    """Let large items change places while the fullest channel gains more than that costs."""
    large = np.argsort(-items)[:SWAPPED]
    while load.max() > level:
        full = int(load.argmax())
        mine, theirs = large[at[large] == full], large[at[large] != full]
        if not len(mine) or not len(theirs):
            break
        less = items[mine, None] - items[theirs]
        both = items[mine, None] + items[theirs]
        worst = np.maximum(load[full] - less, load[at[theirs]] + less) + PRICE * both
        if worst.min() > load[full] - MIN_GAIN / len(load):
            break
        i, j = np.unravel_index(int(worst.argmin()), worst.shape)
        other = int(at[theirs[j]])
        load[[full, other]] += -less[i, j], less[i, j]
        at[mine[i]], at[theirs[j]] = other, full
