"""Gedik's hybrid functions: heavy keys placed one by one, the rest by consistent hashing.

B. Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal
2014. Equation and algorithm numbers below are that paper's. Open in it, and our choice:

- The load of a key is beta(f), as in Eq. 16-17 and Fig. 3; Eq. 3 multiplies by f once more.
- Utility is made small, as in the pseudocode; the prose says maximised.
- Eq. 22 lost the sign between its lines: the two keys' costs add up.
- A readjustment's gain is measured from the present mapping, as the prose says. As printed, u
  changes inside the candidate loop, which would make the result depend on the candidates' order,
  and that is not given. Linear resources make many gains equal. Among those the one with the least
  penalty wins, because the search is after balance. Then swaps come before moves, heavier keys
  first, lower hashes first.
- A constant resource stays in rho, as Eq. 20 has it. Section 4.4 leaves it out; `constant` false
  does so, and takes the geometric mean of the others. Kept in, rho is 0 once all channels hold
  equally many tracked keys, and readj stops. LLL, the default here, has no such resource.
- Keys are tracked from delta on (Eq. 17). The paper's lossy counter may list keys from delta -
  epsilon on; `epsilon` tracks these, too.
- Moves of a key are not limited, as in Algorithm 4; `moves` is the limit c of section 4.2.4.
- The quadratic post-filter divides the total by N, as Eq. 14's average does; the text does not.
- scan and redist: the mean in rho is that of the keys placed so far and the candidate. If utilities
  are equal, the heavier key and then the lower channel win. Taking the emptiest channel instead
  changes no figure of the default stream.
- Channels may differ in capacity: loads are taken over the channel's capacity relative to the
  mean. Closed channels do not count towards N.
- Only keys that the profile lists can be tracked: where its error is over delta, fewer are.
- Keys that were tracked before but lay on their slot's channel are not recorded. They are left out
  of the constant part of the migration penalty. Under APM that changes no choice of scan or readj.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partitioning.errors import InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.published.gedik.readjust import readjust
from partitioning.strategies.published.gedik.task import (
    SAME_GAIN,
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
    epsilon: float = 0.0,
    constant: bool = True,
) -> PartitioningFunction:
    """Place the tracked keys again, heaviest first, each where utility is best (Algorithm 2).

    Parameters
    ----------
    profile, previous, channels, and all options : as in `readj`

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    task = gedik_task(
        profile, previous, channels, alpha, sigma, resources, utility, epsilon, constant
    )
    at = _distribute(task, UTILITIES[utility], 1)
    options = _options(alpha, sigma, resources, utility, epsilon, constant)
    return _placed("scan", task, at, profile, previous, channels, options)


def redist(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    alpha: float = 1.2,
    sigma: float = 0.1,
    resources: str = "LLL",
    utility: str = "APM",
    epsilon: float = 0.0,
    constant: bool = True,
) -> PartitioningFunction:
    """Place the tracked keys again, the best pair of key and channel first (Algorithm 3).

    It is the pair, of all keys still to place and all channels, with the best utility per load of
    the key.

    Parameters
    ----------
    profile, previous, channels, and all options : as in `readj`

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    task = gedik_task(
        profile, previous, channels, alpha, sigma, resources, utility, epsilon, constant
    )
    at = _distribute(task, UTILITIES[utility], len(task.shares))
    options = _options(alpha, sigma, resources, utility, epsilon, constant)
    return _placed("redist", task, at, profile, previous, channels, options)


def readj(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    alpha: float = 1.2,
    sigma: float = 0.1,
    resources: str = "LLL",
    utility: str = "APM",
    epsilon: float = 0.0,
    constant: bool = True,
    moves: int = 0,
) -> PartitioningFunction:
    """Readjust the tracked keys by moves and swaps that lower the balance penalty (Algorithm 4).

    The largest gain in utility per load moved comes first.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : the function in force; None: keys start where consistent hashing puts them, and
        migration costs nothing
    alpha : ratio of the fullest to the emptiest channel that is tolerated, over 1
    sigma : part of the tolerance that untracked keys may use up, over 0 and at most 1
    resources : resource functions of state, computation and communication: three of C, L, Q
    utility : A, APM, APLM, ATM or ATLM (section 4.3)
    epsilon : part of delta by which a tracked key may be below it, from 0 to under 1
    constant : whether rho counts constant resources
    moves : times that a key may move; 0: no limit

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S
    """
    if moves < 0:
        raise InputError(f"must be at least 0, got {moves}", "moves", "Give 0 for no limit")
    task = gedik_task(
        profile, previous, channels, alpha, sigma, resources, utility, epsilon, constant
    )
    at = readjust(task, UTILITIES[utility], moves)
    options = _options(alpha, sigma, resources, utility, epsilon, constant)
    options |= {"moves": moves} if moves else {}
    return _placed("readj", task, at, profile, previous, channels, options)


def _options(
    alpha: float, sigma: float, resources: str, utility: str, epsilon: float, constant: bool
) -> dict[str, Any]:
    """Return the options to write into the function; readings only if they differ from ours."""
    options = {"alpha": alpha, "sigma": sigma, "resources": resources, "utility": utility}
    return (
        options
        | ({"epsilon": epsilon} if epsilon else {})
        | ({} if constant else {"constant": False})
    )


def _placed(
    name: str,
    task: GedikTask,
    at: Ints,
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    options: dict[str, Any],
) -> PartitioningFunction:
    """Build the function that places each tracked key at `at`."""
    placed = dict(zip(task.hashes.tolist(), at.tolist(), strict=True))
    return successor(profile.key, previous, channels, task.ring, name, options, placed)


def _distribute(task: GedikTask, utility: Utility, ahead: int) -> Ints:
    """Place keys one by one, starting with none placed (Algorithms 2 and 3); int32 (R,).

    Each time it is the best pair of the first `ahead` keys still to place and all channels.
    """
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
        near = value <= value.min() * (1 + SAME_GAIN)
        k, c = np.unravel_index(int(near.argmax()), value.shape)
        at[keys[k]] = open_[c]
        loads[:, c] += task.loads[:, keys[k]] / weights[c]
        cost = float(costs[k, c])
        waiting = np.delete(waiting, k)
    return at
