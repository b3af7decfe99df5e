"""Hot keys spread over channels as they grow, others hashed: FlexD, and what it is compared with.

"FlexD: a lightweight stream partitioning method" with progressive splitting, section 4. PStream
(Chen et al., 2021) and Dalton (Zapridou et al., PVLDB 2022) are as FlexD's authors describe them.
Dalton's reward and cap are as its authors published them with their code.

All three hash light keys. The papers route tuple by tuple: the routers do. As functions, these
strategies split the profile's heavy keys in the shares that the routing comes to.
`flexd_routers` has the routers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel, check_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import slot_of
from partitioning.strategies.hashing import check_slots, in_turn
from partitioning.strategies.water_filling import Ints, pour, settled_loads
from partitioning.workload.profile import Floats, Profile, sums_by

#: A key is hot from this share of a channel's fair load, as in D-Choices: theta = 1 / 5N. FlexD's
#: paper prints no value for its f.
HOT_SHARE = 0.2
#: FlexD's growth factor (section 6).
DELTA = 1.5
#: Dalton's share of tuples that explore.
EXPLORE = 0.1
#: Copies that a key may have in the end, in the code of Dalton's authors.
MAX_COPIES = 6


def flexd(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    delta: float = DELTA,
    hot: float = HOT_SHARE,
    running: bool = False,
) -> PartitioningFunction:
    """Give a hot key one channel, and one more each time that its frequency grows by delta.

    Open in the paper, and our choice:

    - f, from where a key is hot, is a share of the channels' fair load; T_f[k] is f delta once the
      key has its first channel.
    - The window is one segment of Space Saving.
    - Among channels, those least loaded when the key gets them: here largest keys first.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : gives epoch, parent and row column only
    delta : growth factor, over 1: the smaller, the more channels
    hot : share of a channel's fair load from which a key is hot, over 0
    running : of the router alone: count tuples as they pass, without collecting a segment first

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S

    Source: section 4.4, Algorithm 1.
    """
    check_thresholds(delta, hot)

    def owners(home: int, share: float, levels: Floats, open_: Ints) -> Ints:
        count = 1 + math.floor(math.log(share * len(open_) / hot, delta) + 1e-9)
        return open_[np.argsort(levels[open_], kind="stable")[:count]]

    options = {"delta": delta, "hot": hot}
    return _split(profile, previous, channels, "flexd", options, owners, _least)


def pstream(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    hot: float = HOT_SHARE,
) -> PartitioningFunction:
    """Send hot keys in turn to all channels (shuffle grouping).

    Parameters and errors as in `flexd`.
    """
    check_thresholds(DELTA, hot)
    return _split(profile, previous, channels, "pstream", {"hot": hot}, _all, _evenly)


def dalton(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    hot: float = HOT_SHARE,
    capped: bool = True,
) -> PartitioningFunction:
    """Place hot keys by a bandit: a share explores channels evenly, others go to the best.

    In a long window, exploring leaves a trace of every hot key on `MAX_COPIES` channels: its home
    and others drawn by chance. Without the cap it leaves one on every channel. Values are taken as
    known here; the router shows what it costs to learn them. Parameters and errors as in `flexd`;
    `capped` false leaves out the cap.
    """
    check_thresholds(DELTA, hot)
    random = np.random.default_rng(0)

    def owners(home: int, share: float, levels: Floats, open_: Ints) -> Ints:
        if not capped or len(open_) <= MAX_COPIES:
            return open_
        others = random.permutation(open_[open_ != home])[: MAX_COPIES - 1]
        return np.sort(np.append(others, home))

    def spread(levels: Floats, width: Floats, load: float) -> Floats:
        explored = _evenly(levels, width, load * EXPLORE)
        return explored + pour(levels + explored / width, width, load * (1 - EXPLORE))

    options = {"hot": hot} | ({} if capped else {"capped": False})
    return _split(profile, previous, channels, "dalton", options, owners, spread)


def _all(home: int, share: float, levels: Floats, open_: Ints) -> Ints:
    return open_


def _least(levels: Floats, width: Floats, load: float) -> Floats:
    return pour(levels, width, load)


def _evenly(levels: Floats, width: Floats, load: float) -> Floats:
    return np.full(len(width), load / len(width))


def check_thresholds(delta: float, hot: float) -> None:
    """Refuse a delta that is not over 1, or a share that is not over 0."""
    if not delta > 1:
        raise InputError(f"expected more than 1, got {delta}", "delta", IN_RANGE)
    if not hot > 0:
        raise InputError(f"expected more than 0, got {hot}", "hot", IN_RANGE)


def _split(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    name: str,
    options: dict[str, float],
    owners: Callable[[int, float, Floats, Ints], Ints],
    spread: Callable[[Floats, Floats, float], Floats],
) -> PartitioningFunction:
    """Place light keys by `uniform`, and hot ones, largest first, among `owners` by `spread`."""
    check_slots(profile, previous)
    check_channels(channels)
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    open_, width = np.flatnonzero(capacities), np.where(capacities > 0, capacities, 1.0)
    slots = in_turn(profile.slots, capacities)
    total = float(profile.load.sum())
    hot = (profile.heavy_load >= options["hot"] / len(open_) * total) & (profile.heavy_load > 0)
    tail = profile.tail(profile.load, np.where(hot, profile.heavy_load, 0.0))
    resting = sums_by(slots, tail, len(channels))
    levels, shares = resting / width, []
    keys = np.flatnonzero(hot)[np.argsort(-profile.heavy_load[hot], kind="stable")]
    chosen = []
    homes = slots[slot_of(profile.heavy[keys], profile.slots)].tolist()
    for home, load in zip(homes, profile.heavy_load[keys].tolist(), strict=True):
        chosen.append(owners(home, load / total, levels, open_))
        shares.append(spread(levels[chosen[-1]], width[chosen[-1]], load))
        levels[chosen[-1]] += shares[-1] / width[chosen[-1]]
    if spread is _least:
        shares = settled_loads(profile.heavy_load[keys], chosen, resting, capacities)
    split = {
        h: dict(zip(c.tolist(), s.tolist(), strict=True))
        for h, c, s in zip(profile.heavy[keys].tolist(), chosen, shares, strict=True)
    }
    return successor(profile.key, previous, channels, slots, name, options, split=split)
