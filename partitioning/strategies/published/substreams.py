"""Strategies that know substreams only: the key's hash picks one of p, each sits on one channel.

Q. Guo, Y. Zhou, "Stateful load balancing for parallel stream processing" (ELB, CLB, and UHLB to
compare with). No key is placed by itself. Open in the papers for all three, and our choice:

- Substream i holds the slots that are i mod p; p stays what it is from epoch to epoch.
- The parallelism is given, not chosen: pi = N, so that (u + v) / 2 is the mean load.
- The first assignment is round robin, by capacity. After another strategy's
  function, a substream is where most of its load was, then most of its slots.
- Channels may differ in capacity: loads are taken over each channel's fair share. Substreams of
  closed channels are reassigned like those of the paper's set R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel, check_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.hashing import check_slots, in_turn
from partitioning.strategies.published.covariance import split_by_covariance
from partitioning.strategies.published.dkg import PRIME, Ints, draw_hash, two_universal
from partitioning.workload.profile import Floats, Profile, sums_by

#: Groups of keys that the strategies place. More: more even, and more work. 100 as in the paper.
SUBSTREAMS = 100
#: Most substreams whose every pair `clb` compares: half a GB of covariances.
PAIRED = 4096


@dataclass(frozen=True, eq=False)
class _Task:
    """Hold the substreams to place.

    Parameters
    ----------
    loads : float64 (p,): load of each in the window
    at : int32 (p,): channel of each; -1: one that is closed
    fair : float64 (N,): fair share of each channel; 0: closed
    of : int64 (S,): substream of each slot
    """

    loads: Floats
    at: Ints
    fair: Floats
    of: npt.NDArray[np.int64]

    def complete(self, at: Ints) -> Ints:
        """Place substreams at -1, largest first, each on the least loaded channel, int32 (p,)."""
        at = at.copy()
        waiting = np.flatnonzero(at < 0)
        loads = np.bincount(at[at >= 0], self.loads[at >= 0], minlength=len(self.fair))
        counts = np.bincount(at[at >= 0], minlength=len(self.fair))
        open_ = np.flatnonzero(self.fair)
        for i in waiting[np.argsort(-self.loads[waiting], kind="stable")].tolist():
            # Lightest for its capacity; where loads are equal, the one with fewest substreams.
            order = np.lexsort((counts[open_] / self.fair[open_], loads[open_] / self.fair[open_]))
            to = int(open_[order[0]])
            at[i] = to
            loads[to] += self.loads[i]
            counts[to] += 1
        return at


def elb(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    substreams: int = SUBSTREAMS,
    width: float = 1.0,
) -> PartitioningFunction:
    """Balance load eagerly: overloaded channels shed substreams to the least loaded (Algorithm 1).

    They shed their largest substreams that do not take them below the mean. The largest are taken
    first.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : the function in force, or None
    substreams : p, at least 1 and at most S, or the default where S is less: substreams past S
        would hold no slot
    width : (u - v) / 2 as a part of the mean load, over 0: larger substreams do not move. The
        paper prints no range and assumes that none is larger; 1 makes that so wherever an even
        assignment exists

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    if not width > 0:
        raise InputError(f"expected more than 0, got {width}", "width", IN_RANGE)
    task = _task(profile, previous, channels, substreams)
    at = task.at.copy()
    loads = np.bincount(at[at >= 0], task.loads[at >= 0], minlength=len(task.fair))
    over = loads > task.fair
    for channel in np.flatnonzero(over & (task.fair > 0)).tolist():
        limit = min(loads[channel] - task.fair[channel], width * task.fair[channel])
        own = np.flatnonzero(task.at == channel)
        for i in own[np.argsort(-task.loads[own], kind="stable")].tolist():
            if 0 < task.loads[i] < limit:
                at[i] = -1
                limit -= task.loads[i]
    # Overloaded channels stay above the mean, so the underloaded take all that is shed.
    options = {"substreams": substreams, "width": width}
    return successor(profile.key, previous, channels, task.complete(at)[task.of], "elb", options)


def clb(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    substreams: int = SUBSTREAMS,
    period: int = 24,
    theta: float = 0.0,
) -> PartitioningFunction:
    """Balance load by correlation (Algorithm 2).

    Every `period` windows, substreams whose loads rise and fall together go to different channels.

    A function is made from one window. The windows before it are carried in the options of the
    function in force, as `history` (substream loads, oldest first, at most `period`) and `age`
    (windows since the last balancing). In between, and until two windows are known, substreams stay
    where they are, but for those on closed channels. The paper does not say which set goes to which
    channel: here each takes the set with which it shares most load.

    Parameters
    ----------
    profile, previous, channels, substreams : as in `elb`, substreams at most 4,096
    period : m = 1/f, windows between two balancings, at least 1
    theta : correlation from which two substreams are put apart, at least 0 and below 1

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    if period < 1:
        raise InputError(f"expected 1 window or more, got {period}", "period", IN_RANGE)
    if not 0 <= theta < 1:
        raise InputError(f"expected 0 or more and less than 1, got {theta}", "theta", IN_RANGE)
    task = _task(profile, previous, channels, substreams, PAIRED)
    history, age = [(task.loads / (task.loads.sum() or 1.0)).tolist()], 1
    known = previous.options if previous is not None and previous.strategy == "clb" else {}
    if known.get("substreams") == substreams:
        history = [*known["history"], *history][-max(period, 2) :]
        age = known["age"] + 1
    at = task.complete(task.at)
    changed = previous is not None and tuple(channels) != previous.channels
    if len(history) > 1 and (age >= period or changed):
        sets = split_by_covariance(np.array(history), int(np.count_nonzero(task.fair)), theta)
        at, age = _matched(sets, at, task), 0
    options = {
        "substreams": substreams, "period": period, "theta": theta, "history": history, "age": age
    }  # fmt: skip
    return successor(profile.key, previous, channels, at[task.of], "clb", options)


def uhlb(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    substreams: int = SUBSTREAMS,
    draws: int = 10,
    seed: int = 0,
) -> PartitioningFunction:
    """Hash substreams universally; draw again for as long as that makes loads more even.

    The paper says only that h is drawn at random from a 2-universal family; one draw would never
    move state, and a new draw each window would balance nothing. So of the hash in force and
    `draws` new ones the one with least variance of channel loads is taken. Which state moves is
    left to chance, as with any redrawn hash.

    Parameters
    ----------
    profile, previous, channels, substreams : as in `elb`
    draws : new hashes to try, at least 1
    seed : together with the epoch's number picks them

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    if draws < 1:
        raise InputError(f"{draws} draws", "draws", "Give at least 1")
    if seed < 0:
        raise InputError(f"{seed} is below 0", "seed", "Give 0 or more")
    task = _task(profile, previous, channels, substreams)
    random = np.random.default_rng([seed, previous.epoch + 1 if previous else 0])
    tried = [draw_hash(random) for _ in range(draws)]
    if previous is not None and previous.strategy == "uhlb":
        tried.insert(0, (previous.options["a"], previous.options["b"]))
    ends = np.cumsum(task.fair) / task.fair.sum()

    def placed(a: int, b: int) -> Ints:
        places = two_universal(np.arange(substreams), a, b) / PRIME
        return np.searchsorted(ends, places, side="right").astype(np.int32)

    def variance(at: Ints) -> float:
        sums = np.bincount(at, task.loads, minlength=len(ends))
        open_ = task.fair > 0
        return float(np.square(sums[open_] / task.fair[open_] - 1).mean())

    a, b = min(tried, key=lambda h: variance(placed(*h)))
    options = {"substreams": substreams, "draws": draws, "seed": seed, "a": a, "b": b}
    return successor(profile.key, previous, channels, placed(a, b)[task.of], "uhlb", options)


def _task(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    count: int,
    paired: int | None = None,
) -> _Task:
    check_slots(profile, previous)
    check_channels(channels)
    if count < 1:
        raise InputError(f"{count} substreams", "substreams", "Give at least 1")
    if paired is not None and count > paired:
        why = f"Give at most {paired:,}: every two are compared, in memory"
        raise InputError(f"{count:,} substreams", "substreams", why)
    most = max(profile.slots, SUBSTREAMS)
    if count > most:
        why = f"Give at most {most:,}: a substream is of whole slots, of which there are "
        raise InputError(f"{count:,} substreams", "substreams", f"{why}{profile.slots:,}")
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    fair = capacities / capacities.sum() * (float(profile.load.sum()) or 1.0)
    of = np.arange(profile.slots) % count
    loads = sums_by(of, profile.load, count)
    if previous is None:
        return _Task(loads, in_turn(count, capacities), fair, of)
    width = len(previous.channels)
    where = of * width + previous.slots
    load = sums_by(where, profile.load, count * width).reshape(count, width)
    slots = np.bincount(where, minlength=count * width).reshape(count, width)
    order = np.lexsort((-slots, -load), axis=1)
    at = order[:, 0].astype(np.int32)
    closed = (at >= len(fair)) | (fair[np.minimum(at, len(fair) - 1)] == 0)
    return _Task(loads, np.where(closed, -1, at).astype(np.int32), fair, of)


def _matched(sets: Ints, before: Ints, task: _Task) -> Ints:
    """Give sets to channels, most shared load first: channel of each substream, int32 (p,)."""
    open_ = np.flatnonzero(task.fair)
    shared = np.zeros((len(open_), len(task.fair)))
    np.add.at(shared, (sets, before), task.loads)
    shared = shared[:, open_]
    channel = np.zeros(len(open_), dtype=np.int32)
    for _ in range(len(open_)):
        one, to = np.unravel_index(int(shared.argmax()), shared.shape)
        channel[one] = open_[to]
        shared[one], shared[:, to] = -1.0, -1.0
    return channel[sets]
