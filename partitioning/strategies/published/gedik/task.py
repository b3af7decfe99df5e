"""What Gedik's algorithms place: tracked keys, their loads and state, and the two penalties.

Section and equation numbers are those of the paper named in `constructions`, which also says what
the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.strategies.hashing import check_slots, ring_slots
from partitioning.strategies.published.gedik.resources import RESOURCES, delta, theta
from partitioning.workload.profile import Floats, Profile

Ints = npt.NDArray[np.int32]
Utility = Callable[[Floats, Floats], Floats]

#: Gains closer than this, relatively, are equal: linear resources make many so.
SAME_GAIN = 1e-9

#: Utility functions U(rho, gamma) of section 4.3; lower is better.
UTILITIES: dict[str, Utility] = {
    "A": lambda rho, gamma: rho + 0.0 * gamma,
    "APM": lambda rho, gamma: rho + gamma,
    "APLM": lambda rho, gamma: rho + np.log1p(gamma),
    "ATM": lambda rho, gamma: rho * (1 + gamma),
    "ATLM": lambda rho, gamma: rho * (1 + np.log1p(gamma)),
}


@dataclass(frozen=True, eq=False)
class GedikTask:
    """Hold the R tracked keys to place, heaviest first, on the open channels.

    hashes, shares : (R,): keys and their share of the load
    loads : float64 (k, R): beta of each key for each distinct resource
    exponents : float64 (k,): how often that resource is counted in rho, over 3
    state : float64 (R,): beta of the state resource; 0 where there is no state yet
    old : int32 (R,): channel of each key before; -1: one that is closed now
    start : int32 (R,): where readj begins
    ring : int32 (S,): the tail
    weights : float64 (N,): capacity over the mean of the open ones; 0: closed
    theta : how far a channel may be off the mean, as a part of it
    untracked, ideal : bytes moved by keys not tracked any more, and what gamma divides by
    """

    hashes: Hashes
    shares: Floats
    loads: Floats
    exponents: Floats
    state: Floats
    old: Ints
    start: Ints
    ring: Ints
    weights: Floats
    theta: float
    untracked: float
    ideal: float

    @property
    def means(self) -> Floats:
        """Mean load of an open channel once all is placed, (k,)."""
        total: Floats = self.loads.sum(axis=1)
        return total / np.count_nonzero(self.weights)

    def channel_loads(self, at: Ints) -> Floats:
        """Return loads over capacity, (k, N); closed channels are NaN."""
        sums = np.array([np.bincount(at, b, minlength=len(self.weights)) for b in self.loads])
        return np.divide(sums, self.weights, out=np.full_like(sums, np.nan), where=self.weights > 0)

    def rho(self, most: Floats, least: Floats, means: Floats) -> Floats:
        """Return the balance penalty (Eq. 19-20).

        Parameters
        ----------
        most, least, means : (k, ...): loads of the fullest, the emptiest and the mean channel
        """
        shape = (-1,) + (1,) * (most.ndim - 1)
        each = np.maximum(most - least, 0.0) / np.maximum(self.theta * means, 1e-300)
        penalty: Floats = np.prod(each ** self.exponents.reshape(shape), axis=0)
        return penalty


def gedik_task(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    alpha: float,
    sigma: float,
    resources: str,
    utility: str,
    epsilon: float = 0.0,
    constant: bool = True,
) -> GedikTask:
    """Return what is to be placed, with the options checked; parameters as in `gedik.readj`.

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    if not alpha > 1:
        raise InputError(f"{alpha} tolerates no imbalance", "alpha", "Give more than 1")
    if not 0 < sigma <= 1:
        raise InputError(f"expected more than 0 and at most 1, got {sigma}", "sigma", IN_RANGE)
    if not 0 <= epsilon < 1:
        raise InputError(f"must be from 0 to under 1, got {epsilon}", "epsilon", IN_RANGE)
    if len(resources) != 3 or set(resources) - set(RESOURCES):
        what = f"expected three of C, L and Q, got {resources!r}"
        raise InputError(what, "resources", "Give LLL to even out load alone")
    if utility not in UTILITIES:
        raise InputError(f"no utility {utility!r}", "utility", f"Allowed: {', '.join(UTILITIES)}")
    check_slots(profile, previous)
    ring = ring_slots(profile.slots, channels)
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    open_ = int(np.count_nonzero(capacities))
    if previous is not None:
        profile = profile.listing(previous.explicit_keys)
    share = profile.heavy_load / (float(profile.load.sum()) or 1.0)

    domain = float(profile.rows.sum())
    tracked = _tracked(share, alpha, sigma, open_, resources, domain, 1 - epsilon)
    hashed = ring[profile.heavy_slots]
    if previous is None:
        old, migrates = hashed, False
    else:
        old, migrates = previous.lookup_hashes(profile.heavy), True
        gone = (old >= len(capacities)) | (capacities[np.minimum(old, len(capacities) - 1)] == 0)
        old = np.where(gone, -1, old).astype(np.int32)
    state = RESOURCES[resources[0]](share) * migrates
    before = np.isin(profile.heavy, previous.explicit_keys if previous else [])
    order = np.flatnonzero(tracked)
    order = order[np.argsort(-share[order], kind="stable")]
    balanced = resources if constant else resources.replace("C", "") or resources
    kinds = sorted(set(balanced))
    loads = np.array([RESOURCES[r](share[order]) for r in kinds]).reshape(len(kinds), -1)
    return GedikTask(
        hashes=profile.heavy[order],
        shares=share[order],
        loads=loads,
        exponents=np.array([balanced.count(r) / len(balanced) for r in kinds]),
        state=state[order],
        old=old[order],
        start=np.where(old < 0, hashed, old).astype(np.int32)[order],
        ring=ring,
        weights=capacities * open_ / capacities.sum(),
        theta=theta(alpha, open_),
        untracked=float(state[before & ~tracked & (old != hashed)].sum()),
        ideal=max(float(state[before | tracked].sum()) / open_, 1e-300),
    )


def _tracked(
    share: Floats,
    alpha: float,
    sigma: float,
    channels: int,
    resources: str,
    domain: float,
    part: float,
) -> npt.NDArray[np.bool_]:
    """Return which keys go into the explicit hash: those of at least this part of delta.

    With one channel there is nothing to place.
    """
    if channels == 1:
        return np.zeros(len(share), dtype=np.bool_)
    tracked = (share >= part * delta(alpha, sigma, channels, resources, domain)) & (share > 0)
    if "Q" in resources:
        # Eq. 17 takes the mean load from equal keys; the tracked ones give a higher one.
        listed = share[tracked]
        rest = max(domain - len(listed), 1.0)
        mean = (np.square(listed).sum() + (1 - listed.sum()) ** 2 / rest) / channels
        limits = [delta(alpha, sigma, channels, r, domain) for r in resources if r != "Q"]
        limits.append(float(np.sqrt(sigma * theta(alpha, channels) * mean)))
        tracked &= share >= part * min(limits)
    return tracked
