"""Whether to rebalance at all: balance is worth moving state for only if it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from partitioning.function.channels import Channel, capacities_of
from partitioning.function.function import PartitioningFunction
from partitioning.moves.moves import moves_between
from partitioning.planning.aims import MIN_GAIN, most_by_chance, open_channels
from partitioning.strategies.frontier.options import WORTH
from partitioning.strategies.frontier.strategy import frontier
from partitioning.workload.bounds import floor
from partitioning.workload.metrics import imbalance_of
from partitioning.workload.profile import Profile


def days_of(profile: Profile) -> int:
    """Return the days that a profile's load is of; 1 if its events have no time.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from partitioning.streams.zipf_stream import zipf_profile
    >>> profile = zipf_profile(1000, 1.0, slots=64)
    >>> days_of(profile), days_of(replace(profile, window=("2024-01-01", "2024-01-29")))
    (1, 28)
    """
    if not all(profile.window):
        return 1
    start, end = (date.fromisoformat(day) for day in profile.window)
    return max((end - start).days, 1)


@dataclass(frozen=True)
class Pace:
    """How fast state moves, as earlier migrations measured it.

    Parameters
    ----------
    bytes_per_second : of state that moves
    least_seconds : that a migration takes however little it moves
    """

    bytes_per_second: float
    least_seconds: float = 0.0

    def seconds(self, size: float) -> float:
        """Return the seconds that moving `size` bytes takes."""
        return max(size / self.bytes_per_second, self.least_seconds)


@dataclass(frozen=True)
class Policy:
    """When to rebalance.

    Without `seconds_per_load` or `pace`, saving and cost are not compared.

    Parameters
    ----------
    trigger : imbalance from which a rebalance is considered
    max_imbalance : imbalance that it aims at; None: as even as it gets. Between this and the
        trigger nothing happens (hysteresis)
    horizon : number of days over which the straggler time saved must exceed the time of moving
    seconds_per_load : as measured when windows are applied; None: not known
    pace : as measured by earlier migrations; None: not known
    splitting, copies, worth, budget, options : as in `make_plan` for frontier
    """

    trigger: float
    max_imbalance: float | None
    horizon: int
    seconds_per_load: float | None = None
    pace: Pace | None = None
    splitting: bool = False
    copies: int | None = None
    worth: float = WORTH
    budget: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """Hold the answer and what it rests on.

    Parameters
    ----------
    rebalance : a plan is to be made
    reason : why, or why not, in words
    imbalance : now; 1 is perfect
    reachable : imbalance of the plan that would be made
    floor : least imbalance that any function reaches
    bytes : of state that this plan would move
    saved_seconds : that windows wait less over the horizon; None: not measured
    cost_seconds : that moving would take; None: not measured
    worth : of a partial row; 0 if only that pays; None: the policy's
    uncertain : why the expected load may be far off; empty: it is not known to be
    """

    rebalance: bool
    reason: str
    imbalance: float
    reachable: float
    floor: float
    bytes: float
    saved_seconds: float | None
    cost_seconds: float | None
    worth: float | None = None
    uncertain: str = ""

    @property
    def pays(self) -> bool:
        """Whether moving saves more than it takes; where that is unmeasured, it does."""
        saved, cost = self.saved_seconds, self.cost_seconds
        return saved is None or cost is None or saved > cost

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def decide(
    profile: Profile,
    function: PartitioningFunction,
    channels: Sequence[Channel],
    policy: Policy,
    *,
    force: bool = False,
) -> Decision:
    """Decide whether to rebalance `function` on this profile, with the reason in words.

    Moving slots to make room for a hot key may cost more than balance saves. Then more channels may
    share the key without that room. If the profile has more slots than the function, the plan is to
    split the function's.
    """
    function = function.refined(profile.slots)
    found = _decided(profile, function, channels, policy, force)
    if found.rebalance or found.pays or found.imbalance <= policy.trigger or not policy.splitting:
        return found
    free = _decided(profile, function, channels, replace(policy, worth=0.0), force)
    return replace(free, worth=0.0) if free.rebalance else found


def _decided(
    profile: Profile,
    function: PartitioningFunction,
    channels: Sequence[Channel],
    policy: Policy,
    force: bool,
) -> Decision:
    now = imbalance_of(function, profile)
    least = floor(profile, channels, policy.splitting)
    reachable, size = _found(profile, function, channels, policy)
    saved = cost = None
    if policy.seconds_per_load is not None and policy.pace is not None:
        old, new = function.capacities, capacities_of(channels)
        # A channel of mean weight counts, because seconds were measured on the weights in force.
        less = (now / old.sum() - reachable / new.sum()) * float(old[old > 0].mean())
        load = float(profile.load.sum())
        daily = less * load * policy.seconds_per_load / days_of(profile)
        saved = daily * policy.horizon
        cost = policy.pace.seconds(size)

    def answer(rebalance: bool, reason: str) -> Decision:
        return replace(found, rebalance=rebalance, reason=reason)

    found = Decision(
        False, "", now, reachable, least, size, saved, cost, uncertain=profile.uncertain
    )
    if tuple(channels) != function.channels:
        return answer(
            True,
            f"channels change from {len(function.channels)} to {len(channels)}"
            if len(channels) != len(function.channels)
            else "channels change",
        )
    if force:
        return answer(True, "forced")
    if now <= policy.trigger:
        return answer(False, f"imbalance {now:.3f} is not over the trigger, {policy.trigger:g}")
    # A key that is too heavy adds to what chance does, and no plan makes it lighter.
    by_chance = least - 1 + most_by_chance(profile, open_channels(channels))
    if least + MIN_GAIN < now <= by_chance:
        return answer(False, f"imbalance {now:.3f} is explained by chance")
    if now - reachable < MIN_GAIN:
        aim = policy.max_imbalance or 1.0
        return answer(
            False,
            f"imbalance {now:.3f} is not over the aim, {aim:g}"
            if now <= aim
            else f"imbalance {now:.3f} cannot be improved on (floor {least:.3f})",
        )
    if not found.pays:
        return answer(
            False,
            f"moving {size:.0f} bytes takes {cost:.1f} s and saves {saved:.1f} s "
            f"over {policy.horizon} days",
        )
    return answer(True, f"imbalance {now:.3f} is over the trigger, {policy.trigger:g}")


def _found(
    profile: Profile, function: PartitioningFunction, channels: Sequence[Channel], policy: Policy
) -> tuple[float, float]:
    """Return the imbalance that frontier reaches, and the bytes that it moves.

    A curve would not tell: frontier goes on beside a key that is too heavy, and to split keys.
    """
    options = {"max_imbalance": policy.max_imbalance, "budget": policy.budget}
    if policy.splitting:
        options |= {"splitting": True, "copies": policy.copies, "worth": policy.worth}
    whole = len(function.split) and not policy.splitting
    if tuple(channels) != function.channels or whole:
        # The plan says if it does not empty the channels that go, or make split keys whole.
        options["budget"] = None
    found = frontier(profile, function, channels, **{**options, **policy.options})
    listed = profile.listing(np.concatenate([function.exceptions, found.exceptions]))
    size = sum(m.bytes for m in moves_between(function, found, listed))
    return imbalance_of(found, profile), size
