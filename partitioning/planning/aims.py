"""Imbalances at which a rebalance begins and stops: those that chance explains are neither."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.whole_keys import level_worth
from partitioning.workload.profile import Profile

#: A gain in imbalance below this is noise, not balance.
MIN_GAIN = 0.005
#: How far over perfect balance a plan may leave the fullest channel, for each unit of chance. A
#: larger value moves less state, and leaves more imbalance. Chosen on half of the sets of
#: `make bench ARGS=unseen`.
BAND = 0.2
#: Probability that even channels stay within `most_by_chance`. A larger value begins fewer
#: rebalances that chance alone asks for, and more of those that are due wait for another window.
#: `make bench ARGS=competitive` measures what waiting costs.
SURE = 0.95


def aim_by_chance(profile: Profile) -> float:
    """Return the imbalance down to which chance explains it.

    A load that is less even than this by chance alone will not last, so no state moves for it.

    Examples
    --------
    >>> from partitioning.streams.zipf_stream import zipf_profile
    >>> aim_by_chance(zipf_profile(1000, 1.0, slots=64))
    1.005
    """
    return 1 + MIN_GAIN + BAND * profile.chance


def aim_for(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    plain: bool = True,
) -> float:
    """Return the imbalance that a plan aims at where nobody asks for one.

    It is that of `aim_by_chance`, or more where the last of it is not worth its bytes. Keys that
    may be split need few bytes, and options of the strategy may change what balance is, so they
    have chance alone.

    Parameters
    ----------
    previous : the function in force; None: there is none, and a plan moves nothing
    channels : the owners to be
    plain : no key is split, and the strategy has no options

    Raises
    ------
    InputError : as in `frontier`
    """
    aim = aim_by_chance(profile)
    if previous is None or not plain:
        return aim
    return level_worth(profile, previous.refined(profile.slots), channels, aim)


def most_by_chance(profile: Profile, channels: int) -> float:
    """Return the imbalance that even channels may show by chance: it is no sign of a real one.

    Each channel's load is off by `profile.chance`. The fullest of N channels is further off than
    most of them: it stays within this limit with the probability `SURE` (normal distribution).

    Examples
    --------
    >>> from dataclasses import replace
    >>> from partitioning.streams.zipf_stream import zipf_profile
    >>> profile = replace(zipf_profile(1000, 1.0, slots=64), chance=0.1)
    >>> [round(most_by_chance(profile, count), 2) for count in (2, 10, 100)]
    [1.2, 1.26, 1.33]
    """
    return fullest_by_chance(profile.chance, channels)


def fullest_by_chance(chance: float, channels: int) -> float:
    """Return as `most_by_chance` where each channel's load is off by `chance`."""
    return 1 + NormalDist().inv_cdf(SURE ** (1 / channels)) * chance


def considered_from(
    profile: Profile, channels: Sequence[Channel], trigger: float, least: float
) -> float:
    """Return the imbalance over which a rebalance is considered.

    It is the trigger, or more: what chance explains, or what no function can improve on.

    Parameters
    ----------
    least : the imbalance that no function is below
    """
    by_chance = most_by_chance(profile, open_channels(channels))
    return max(trigger, least - 1 + by_chance, least + MIN_GAIN)


def open_channels(channels: Sequence[Channel]) -> int:
    """Return how many channels take load.

    Examples
    --------
    >>> open_channels([Channel("0"), Channel("1", 0.0)])
    1
    """
    return sum(c.capacity > 0 for c in channels)
