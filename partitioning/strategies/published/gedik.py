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
- scan and redist: the mean in rho is that of the keys placed so far and the candidate. Of equal
  utilities the heavier key and then the lower channel win; taking the emptiest channel instead
  changes no figure of the default stream.
- Channels may differ in capacity: loads are taken over the channel's capacity relative to the
  mean. Closed channels do not count towards N.
- Only keys that the profile lists can be tracked: where its error is over delta, fewer are.
- Which keys were tracked before but lay on their slot's channel is not kept; they are left out
  of the constant part of the migration penalty, which under APM changes no choice of scan or readj.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from partitioning.function.function import Channel, PartitioningFunction, successor
from partitioning.strategies.published.gedik_readjust import readjust
from partitioning.strategies.published.gedik_task import (
    SAME,
    UTILITIES,
    GedikTask,
    Ints,
    Utility,
    gedik_task,
)
from partitioning.workload.profile import Profile


def scan(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    alpha: float = 1.2,
    sigma: float = 0.1,
    resources: str = "LLL",
    utility: str = "APM",
) -> PartitioningFunction:
    """Place the tracked keys anew, heaviest first, each where utility is best (Algorithm 2).

    Parameters
    ----------
    profile, previous, channels, alpha, sigma, resources, utility : as in `readj`

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    return _placed("scan", _scanned, profile, previous, channels, alpha, sigma, resources, utility)


def redist(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    alpha: float = 1.2,
    sigma: float = 0.1,
    resources: str = "LLL",
    utility: str = "APM",
) -> PartitioningFunction:
    """Place the tracked keys anew: of all keys still to place and all channels, that pair first
    whose utility per load of the key is best (Algorithm 3).

    Parameters
    ----------
    profile, previous, channels, alpha, sigma, resources, utility : as in `readj`

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    return _placed(
        "redist", _redistributed, profile, previous, channels, alpha, sigma, resources, utility
    )


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
    return _placed("readj", readjust, profile, previous, channels, alpha, sigma, resources, utility)


def _placed(
    name: str,
    algorithm: Callable[[GedikTask, Utility], Ints],
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    alpha: float,
    sigma: float,
    resources: str,
    utility: str,
) -> PartitioningFunction:
    task = gedik_task(profile, previous, channels, alpha, sigma, resources, utility)
    at = algorithm(task, UTILITIES[utility])
    options = {"alpha": alpha, "sigma": sigma, "resources": resources, "utility": utility}
    placed = dict(zip(task.hashes.tolist(), at.tolist(), strict=True))
    return successor(profile.key, previous, channels, task.ring, name, options, placed)


def _scanned(task: GedikTask, utility: Utility) -> Ints:
    return _distribute(task, utility, 1)


def _redistributed(task: GedikTask, utility: Utility) -> Ints:
    return _distribute(task, utility, len(task.shares))


def _distribute(task: GedikTask, utility: Utility, ahead: int) -> Ints:
    """Algorithms 2 and 3: from nothing, the best of the first `ahead` keys still to place and all
    channels is placed, until none is left. int32 (R,)."""
    at = np.full(len(task.shares), -1, dtype=np.int32)
    open_ = np.flatnonzero(task.weights > 0)
    weights = task.weights[open_]
    loads = np.zeros((len(task.loads), len(open_)))
    waiting, cost = np.arange(len(at)), task.untracked
    while len(waiting):
        keys = waiting[:ahead]
        load = task.loads[:, keys, None]
        taken = loads[:, None, :] + load / weights
        others = np.sort(loads, axis=1)
        emptiest = np.arange(len(open_)) == loads.argmin(axis=1)[:, None]
        second = others[:, min(1, len(open_) - 1), None]
        rest = np.where(emptiest, second, others[:, :1])[:, None, :]
        means = ((loads * weights).sum(axis=1)[:, None, None] + load) / len(open_)
        most = np.maximum(loads.max(axis=1)[:, None, None], taken)
        rho = task.rho(most, np.minimum(taken, rest), means)
        costs = cost + task.state[keys, None] * (task.old[keys, None] != open_)
        value = utility(rho, costs / task.ideal) / task.shares[keys, None]
        near = value <= value.min() * (1 + SAME)
        k, c = np.unravel_index(int(near.argmax()), value.shape)
        at[keys[k]] = open_[c]
        loads[:, c] += task.loads[:, keys[k]] / weights[c]
        cost = float(costs[k, c])
        waiting = np.delete(waiting, k)
    return at
