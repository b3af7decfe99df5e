"""Gedik's hybrid functions: heavy keys placed one by one, the rest by consistent hashing.

B. Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB
Journal 2014. Equation and algorithm numbers below are that paper's. What it leaves open, and
what we chose:

- The load of a key is beta(f), as in Eq. 16-17 and Fig. 3; Eq. 3 multiplies by f once more.
- Utility is made small, as in the pseudocode; the prose says maximised.
- Eq. 22 lost the sign between its lines: the two keys' costs add up.
- A readjustment's gain is measured from the present mapping, as the prose says. As printed, u
  changes inside the candidate loop, which would make the result depend on the candidates' order,
  and that is not given. Linear resources make many gains equal: of those the one with the least
  penalty wins, as balance is what the search is after; then swaps before moves, heavier keys
  first, lower hashes first.
- A constant resource stays in rho, as Eq. 20 has it, against section 4.4 which leaves it out:
  only so does redist's published migration over N come out near. Once all channels hold equally
  many tracked keys rho is 0 and readj stops. LLL, the default here, has no such resource.
- The quadratic post-filter divides the total by N, as Eq. 14's average does; the text does not.
- Channels may differ in capacity: loads are taken over the channel's capacity relative to the
  mean. Closed channels do not count towards N.
- Only keys that the profile lists can be tracked: where its error is over delta, fewer are.
- Which keys were tracked before but lay on their slot's channel is not kept; they are left out
  of the constant part of the migration penalty, which under APM changes no choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function import Channel, PartitioningFunction, successor
from partitioning.hashing import Hashes
from partitioning.profile import Floats, Profile
from partitioning.resources import RESOURCES, delta, theta
from partitioning.strategies.hashing import check_slots, ring_slots

Ints = npt.NDArray[np.int32]
Indices = npt.NDArray[np.integer[Any]]

#: Gains closer than this, relatively, are equal: linear resources make many so.
SAME = 1e-9

#: Utility functions U(rho, gamma) of section 4.3; lower is better.
UTILITIES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "A": lambda rho, gamma: rho + 0.0 * gamma,
    "APM": lambda rho, gamma: rho + gamma,
    "APLM": lambda rho, gamma: rho + np.log1p(gamma),
    "ATM": lambda rho, gamma: rho * (1 + gamma),
    "ATLM": lambda rho, gamma: rho * (1 + np.log1p(gamma)),
}


@dataclass(frozen=True, eq=False)
class _Task:
    """What the algorithms place: R tracked keys, heaviest first, on the open channels.

    hashes, shares : (R,): keys and their share of the load
    loads : float64 (k, R): beta of each key for each distinct resource
    exponents : float64 (k,): how often that resource is counted in rho, over 3
    state : float64 (R,): beta of the state resource; 0 where there is no state yet
    old : int32 (R,): channel of each key before; -1: one that is closed now
    start : int32 (R,): where readj begins
    ring : int32 (S,): the tail
    weights : float64 (N,): capacity over the mean of the open ones; 0: closed
    scale : what rho divides max - min by, for each resource, (k,)
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
    scale: Floats
    untracked: float
    ideal: float

    def channel_loads(self, at: Ints) -> Floats:
        """(k, N), over capacity; closed channels are NaN."""
        sums = np.array([np.bincount(at, b, minlength=len(self.weights)) for b in self.loads])
        return np.divide(sums, self.weights, out=np.full_like(sums, np.nan), where=self.weights > 0)

    def rho(self, most: Floats, least: Floats) -> Floats:
        """Balance penalty (Eq. 19-20) from the fullest and emptiest channel, (k, ...)."""
        shape = (-1,) + (1,) * (most.ndim - 1)
        each = np.maximum(most - least, 0.0) / self.scale.reshape(shape)
        penalty: Floats = np.prod(each ** self.exponents.reshape(shape), axis=0)
        return penalty


def readj(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    alpha: float = 1.2,
    sigma: float = 0.1,
    resources: str = "LLL",
    utility: str = "APM",
) -> PartitioningFunction:
    """Readjust the tracked keys from where they are, by moves and swaps that lower the balance
    penalty, the largest gain in utility per load moved first (Algorithm 4).

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : the function in force; None: keys start where consistent hashing puts them, and
        migration costs nothing
    alpha : ratio of the fullest to the emptiest channel that is tolerated, over 1
    sigma : part of the tolerance that untracked keys may use up, over 0 and at most 1
    resources : resource functions of state, computation and communication: three of C, L, Q
    utility : one of `UTILITIES`

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    task = _task(profile, previous, channels, alpha, sigma, resources, utility)
    at = _readjust(task, UTILITIES[utility])
    options = {"alpha": alpha, "sigma": sigma, "resources": resources, "utility": utility}
    placed = dict(zip(task.hashes.tolist(), at.tolist(), strict=True))
    return successor(profile.key, previous, channels, task.ring, "readj", options, placed)


def _task(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    alpha: float,
    sigma: float,
    resources: str,
    utility: str,
) -> _Task:
    if not alpha > 1:
        raise InputError(f"{alpha} tolerates no imbalance", "alpha", "Give more than 1")
    if not 0 < sigma <= 1:
        raise InputError(f"{sigma} is not over 0 and at most 1", "sigma")
    if len(resources) != 3 or set(resources) - set(RESOURCES):
        raise InputError(f"{resources!r} is not three of C, L and Q", "resources")
    if utility not in UTILITIES:
        raise InputError(f"no utility {utility!r}", "utility", f"Allowed: {', '.join(UTILITIES)}")
    check_slots(profile, previous)
    ring = ring_slots(profile.slots, channels)
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    open_ = int(np.count_nonzero(capacities))
    if previous is not None:
        profile = profile.listing(previous.explicit_keys)
    share = profile.heavy_load / (float(profile.load.sum()) or 1.0)

    tracked = _tracked(share, alpha, sigma, open_, resources, float(profile.rows.sum()))
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
    kinds = sorted(set(resources))
    loads = np.array([RESOURCES[r](share[order]) for r in kinds]).reshape(len(kinds), -1)
    mean = loads.sum(axis=1) / open_
    return _Task(
        hashes=profile.heavy[order],
        shares=share[order],
        loads=loads,
        exponents=np.array([resources.count(r) / 3 for r in kinds]),
        state=state[order],
        old=old[order],
        start=np.where(old < 0, hashed, old).astype(np.int32)[order],
        ring=ring,
        weights=capacities * open_ / capacities.sum(),
        scale=np.maximum(theta(alpha, open_) * mean, 1e-300),
        untracked=float(state[before & ~tracked & (old != hashed)].sum()),
        ideal=max(float(state[before | tracked].sum()) / open_, 1e-300),
    )


def _tracked(
    share: Floats, alpha: float, sigma: float, channels: int, resources: str, domain: float
) -> npt.NDArray[np.bool_]:
    """Which keys go into the explicit hash; with one channel there is nothing to place."""
    if channels == 1:
        return np.zeros(len(share), dtype=np.bool_)
    tracked = (share >= delta(alpha, sigma, channels, resources, domain)) & (share > 0)
    if "Q" in resources:
        # Eq. 17 takes the mean load from equal keys; the tracked ones give a higher one.
        listed = share[tracked]
        rest = max(domain - len(listed), 1.0)
        mean = (np.square(listed).sum() + (1 - listed.sum()) ** 2 / rest) / channels
        limits = [delta(alpha, sigma, channels, r, domain) for r in resources if r != "Q"]
        limits.append(float(np.sqrt(sigma * theta(alpha, channels) * mean)))
        tracked &= share >= min(limits)
    return tracked


def _readjust(task: _Task, utility: Callable[[Floats, Floats], Floats]) -> Ints:
    """Algorithm 4's main loop; all candidates of a round at once. int32 (R,)."""
    at = task.start.copy()
    count, open_ = len(at), np.flatnonzero(task.weights > 0)
    # A candidate takes one key to the channel of another in exchange (swap), or of none (move).
    # None is written as an item past the last one, without load or state.
    loads_of = np.pad(task.loads, ((0, 0), (0, 1)))
    shares, state = np.append(task.shares, 0.0), np.append(task.state, 0.0)
    old = np.append(task.old, -2)
    cost = task.untracked + float(task.state[at != task.old].sum())
    while count:
        loads = task.channel_loads(at)
        rho = float(task.rho(np.nanmax(loads, axis=1), np.nanmin(loads, axis=1)))
        # Only a pair with the fullest or the emptiest channel of some resource can lower rho.
        ends = np.unique([np.nanargmax(loads, axis=1), np.nanargmin(loads, axis=1)])
        first, second, target = _candidates(at, ends, open_)
        source = at[first]
        change = loads_of[:, first] - loads_of[:, second]
        moved = np.abs(shares[first] - shares[second])
        left = loads[:, source] - change / task.weights[source]
        taken = loads[:, target] + change / task.weights[target]
        most = _fullest_besides(loads, source, target)
        least = -_fullest_besides(-loads, source, target)
        after = task.rho(
            np.maximum(np.maximum(left, taken), most), np.minimum(np.minimum(left, taken), least)
        )
        # Eq. 22: leaving the old channel costs, coming back pays.
        costs = (
            cost
            + state[first] * ((old[first] == source) * 1.0 - (old[first] == target))
            + state[second] * ((old[second] == target) * 1.0 - (old[second] == source))
        )
        now = utility(np.array(rho), np.array(cost / task.ideal))
        better = (after < rho * (1 - 1e-12)) & (moved > 0)
        if not better.any():
            break
        gain = now - utility(after, np.maximum(costs, 0.0) / task.ideal)
        gain = np.divide(gain, moved, out=np.full(len(gain), -np.inf), where=better)
        near = gain >= gain.max() - SAME * abs(gain.max())
        best = int(np.where(near, after, np.inf).argmin())
        cost = float(costs[best])
        if second[best] < count:
            at[second[best]] = source[best]
        at[first[best]] = target[best]
    return at


def _candidates(at: Ints, ends: Indices, open_: Indices) -> tuple[Indices, Indices, Indices]:
    """Every swap and move between a channel of `ends` and another: (first key, second key or R
    for a move, channel the first goes to), each (c,). A swap is listed from one side only."""
    count = len(at)
    at_end = np.isin(at, ends)
    keys = np.flatnonzero(at_end)
    a, b = np.nonzero((at[keys][:, None] != at) & ~(at_end & (np.arange(count) < keys[:, None])))
    c, d = np.nonzero((at[:, None] != open_) & (at_end[:, None] | np.isin(open_, ends)))
    first = np.concatenate([keys[a], c])
    second = np.concatenate([b, np.full(len(c), count)])
    return first, second, np.concatenate([at[b], open_[d]])


def _fullest_besides(loads: Floats, source: Indices, target: Indices) -> Floats:
    """Load of the fullest channel besides each candidate's two, (k, c); -inf where none is."""
    known = np.where(np.isnan(loads), -np.inf, loads)
    known = np.pad(known, ((0, 0), (0, 3)), constant_values=-np.inf)
    top = np.argsort(-known, axis=1, kind="stable")[:, :3]
    load = np.take_along_axis(known, top, axis=1)[:, :, None]
    taken = (top[:, :, None] == source) | (top[:, :, None] == target)
    second = np.where(taken[:, 1], load[:, 2], load[:, 1])
    return np.where(taken[:, 0], second, load[:, 0])
