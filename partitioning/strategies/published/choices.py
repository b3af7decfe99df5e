"""The power of choices: a tuple goes to the least loaded of a few channels that its key hashes to.

M. A. U. Nasir et al., "The power of both choices: practical load balancing for distributed stream
processing engines", ICDE 2015 (pkg); M. A. U. Nasir et al., "When two choices are not enough:
balancing at scale in distributed stream processing", ICDE 2016 (dchoices, wchoices).

The papers choose for each tuple; `PkgRouter` and its kin do so. As functions, these strategies
split the profile's heavy keys in the shares that such choices come to. A function knows no
lighter keys: a slot's rest goes whole to the lesser of the slot's two candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from partitioning.function.channels import Channel, check_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import Hashes
from partitioning.strategies.hashing import check_slots
from partitioning.strategies.water_filling import BATCH, Ints, Router, candidates, settled_loads
from partitioning.workload.profile import Floats, Profile
from partitioning.workload.sketches import SpaceSaving

#: A key of the head has at least this share of a channel's fair load: theta = 1 / 5N.
HEAD_SHARE = 0.2
#: The imbalance that d is chosen for, as a share of all load.
EPSILON = 1e-4


def pkg(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> PartitioningFunction:
    """Give every key two choices (partial key grouping).

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : gives epoch, parent and row column only

    Raises
    ------
    InputError : unusable channels, or a previous function with another S
    """
    return _chosen(profile, previous, channels, "pkg", lambda shares, count: 2, head=0.0)


def dchoices(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> PartitioningFunction:
    """Give keys of the head d choices, others two; d is the least that keeps the head balanced.

    Parameters and errors as in `pkg`; d as in `choices_needed`.
    """
    return _chosen(profile, previous, channels, "dchoices", choices_needed)


def wchoices(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> PartitioningFunction:
    """Let keys of the head choose among all channels, and others between two.

    Parameters and errors as in `pkg`.
    """
    return _chosen(profile, previous, channels, "wchoices", lambda shares, count: count)


def choices_needed(shares: Floats, count: int) -> int:
    """Return the least d with which the head's keys stay balanced; `count` if fewer do not do.

    For each prefix of the head, the load expected on the channels that its keys may use must not
    exceed those channels' fair share. It is all load of the prefix, and that of other keys with all
    their choices there.

    Parameters
    ----------
    shares : float64 (H,), descending: share of the load of each key of the head
    count : N

    Source: Nasir 2016, section IV.
    """
    if not len(shares):
        return min(2, count)
    prefix = np.cumsum(shares)
    size = np.arange(1, len(shares) + 1)
    # The first prefix alone asks for this many.
    alone = 1 - float(shares[0]) / (1 + count * EPSILON)
    least = math.ceil(math.log(alone) / math.log(1 - 1 / count)) if alone > 0 and count > 1 else 0
    for d in range(max(least, 2), count if alone > 0 else 0):
        reached = count - count * ((count - 1) / count) ** (size * d)
        part = reached / count
        rest = part**d * (prefix[-1] - prefix) + part**2 * (1 - prefix[-1])
        if (prefix + rest <= reached * (1 / count + EPSILON)).all():
            return d
    return count


def _chosen(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    name: str,
    choices: Callable[[Floats, int], int],
    head: float = HEAD_SHARE,
) -> PartitioningFunction:
    check_slots(profile, previous)
    check_channels(channels)
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    open_ = np.flatnonzero(capacities)
    total = float(profile.load.sum())
    listed = np.flatnonzero(profile.heavy_load > 0)
    listed = listed[np.argsort(-profile.heavy_load[listed], kind="stable")]
    loads = profile.heavy_load[listed]
    heads = loads >= head / len(open_) * total if total else np.zeros(0, dtype=np.bool_)
    d = choices(loads[heads] / total if total else loads[heads], len(open_))
    tried = _tried(profile.heavy[listed], np.where(heads, d, 2), open_)
    tail = profile.tail(profile.load, profile.heavy_load)
    slots, levels = _two_choices(tail, loads, tried, capacities, open_)
    shares = settled_loads(loads, tried, levels * capacities, capacities)
    split = {
        h: dict(zip(c.tolist(), s.tolist(), strict=True))
        for h, c, s in zip(profile.heavy[listed].tolist(), tried, shares, strict=True)
    }
    return successor(profile.key, previous, channels, slots, name, split=split)


def _tried(hashes: Hashes, counts: Ints, open_: Ints) -> list[Ints]:
    """Return each key's distinct candidates: its first `counts` choices, or all open channels."""
    most = int(counts.max(initial=1))
    if most < len(open_):
        rows = candidates(hashes, most, open_).tolist()
        cut = zip(rows, counts.tolist(), strict=True)
        return [np.array(list(dict.fromkeys(row[:n]))) for row, n in cut]
    pairs = candidates(hashes, 2, open_).tolist()
    return [
        open_ if n >= len(open_) else np.array(list(dict.fromkeys(pair)))
        for pair, n in zip(pairs, counts.tolist(), strict=True)
    ]


def _two_choices(
    tail: Floats, loads: Floats, tried: list[Ints], capacities: Floats, open_: Ints
) -> tuple[npt.NDArray[np.int32], Floats]:
    """Return the channel of each slot's tail, int32 (S,), and the level that tails reach, (N,).

    Largest first, each to the lesser of its two candidates; heavy keys are thought to be spread
    evenly over theirs meanwhile.
    """
    width = np.where(capacities > 0, capacities, 1.0)
    levels = np.zeros(len(capacities))
    for load, mine in zip(loads.tolist(), tried, strict=True):
        levels[mine] += load / width[mine].sum()
    among = levels.tolist()
    own = [0.0] * len(among)
    step = (1 / width).tolist()
    pairs = candidates(np.arange(len(tail)), 2, open_).tolist()
    slots = np.empty(len(tail), dtype=np.int32)
    weights = tail.tolist()
    for slot in np.argsort(-tail, kind="stable").tolist():
        a, b = pairs[slot]
        at = a if among[a] <= among[b] else b
        among[at] += weights[slot] * step[at]
        own[at] += weights[slot] * step[at]
        slots[slot] = at
    return slots, np.array(own)


class PkgRouter(Router):
    """Partial key grouping, tuple by tuple."""

    def __init__(self, hashes: Hashes, channels: Sequence[Channel], *, batch: int = BATCH) -> None:
        super().__init__(hashes, channels, batch=batch)
        self.pairs = candidates(hashes, 2, self.open)

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Return no key."""
        return np.zeros(len(keys), dtype=np.bool_)

    def light(self, keys: Ints, rows: Ints, units: Floats) -> None:
        """Route each tuple to the lesser of the key's two candidates."""
        pairs = self.pairs[keys]
        one = rows == 1
        levels, at = self.levels.tolist(), np.empty(len(keys), dtype=np.int64)
        steps = (units / self.capacities[pairs.T]).T.tolist()
        for i, (a, b) in enumerate(pairs.tolist()):
            if one[i]:
                at[i] = a if levels[a] <= levels[b] else b
                levels[at[i]] += steps[i][levels[a] > levels[b]]
                continue
            mine = np.array([a, b] if a != b else [a])
            self.levels[mine] = [levels[c] for c in mine]
            self.least(int(keys[i]), mine, int(rows[i]), float(units[i]))
            for c in mine:
                levels[c] = float(self.levels[c])
        self.levels = np.array(levels)
        self.note(keys[one], at[one], rows[one], units[one])

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Do nothing: no key is heavy."""


class HeadRouter(PkgRouter):
    """Route W-Choices tuple by tuple: keys of the head may use every channel.

    Space Saving finds the head. Its epsilon is half of theta; the paper leaves it open.
    """

    def __init__(self, hashes: Hashes, channels: Sequence[Channel], *, batch: int = BATCH) -> None:
        super().__init__(hashes, channels, batch=batch)
        self.theta = HEAD_SHARE / len(self.open)
        self.seen = SpaceSaving(self.theta / 2)

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Return the keys with a share of theta so far, as far as the sketch tells."""
        self.seen.update(keys, load)
        return self.seen.estimates(keys) >= self.theta * self.seen.total

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Route to the least loaded of all."""
        self.least(key, self.open, rows, unit)


class DChoicesRouter(HeadRouter):
    """D-Choices, tuple by tuple; d is chosen again with each batch."""

    def __init__(self, hashes: Hashes, channels: Sequence[Channel], *, batch: int = BATCH) -> None:
        super().__init__(hashes, channels, batch=batch)
        self.known: dict[tuple[int, int], Ints] = {}

    def hot(self, keys: Ints, load: Floats) -> npt.NDArray[np.bool_]:
        """Return the keys of the head, and choose d by their shares."""
        found = super().hot(keys, load)
        shares = np.sort((self.seen.counts + self.seen.missed) / self.seen.total)[::-1]
        self.d = choices_needed(shares[shares >= self.theta], len(self.open))
        return found

    def heavy(self, key: int, rows: int, unit: float) -> None:
        """Route to the least loaded of the key's first d candidates."""
        if (key, self.d) not in self.known:
            (mine,) = _tried(self.hashes[[key]], np.array([self.d]), self.open)
            self.known[key, self.d] = mine
        self.least(key, self.known[key, self.d], rows, unit)
