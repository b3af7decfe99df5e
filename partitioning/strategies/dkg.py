"""Distribution-aware key grouping: buckets of light keys and single heavy ones, scheduled by load.

N. Rivetti, L. Querzoni, E. Anceaume, Y. Busnel, B. Sericola, "Efficient key grouping for
near-optimal load balancing in stream processing systems", DEBS 2015.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function import Channel, PartitioningFunction, check_channels, successor
from partitioning.profile import Floats, Profile, sums_by
from partitioning.strategies.hashing import check_slots

Ints = npt.NDArray[np.int32]
#: A Mersenne prime: above every number of slots, and products of two numbers below it fit.
PRIME = 2**31 - 1


def dkg(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    theta: float = 0.1,
    mu: int = 2,
    seed: int = 0,
) -> PartitioningFunction:
    """Heavy keys and k mu buckets of the rest, largest load first, each to the least loaded.

    What the paper leaves open, and what we chose:

    - The bucket is a 2-universal hash of the slot, not of the key, as our function knows slots:
      two keys share a bucket with probability 1/S + 1/(k mu) instead of 1/(k mu).
    - It builds once, after the learning phase. Here each window builds anew from its own profile;
      what was before is not looked at, so the state that moves is whatever comes out.
    - Heavy keys are those of the profile with a share of at least theta; where its error is
      larger, it may miss some. Space Saving's overestimate does not arise.
    - Channels may differ in capacity: a bucket goes where it leaves the least load over capacity
      (the same for equal ones). Closed channels do not count towards k.
    - Of equally loaded channels the one with fewest buckets takes the next, then the lowest.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : gives epoch and parent only
    theta : share of the load from which a key is placed by itself, over 0 and at most 1
    mu : buckets a channel, at least 1
    seed : picks the hash of the family

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S

    Source: section 3.2, Listings 3.1 and 3.2; the test settings (theta, mu) of section 5.
    """
    check_slots(profile, previous)
    check_channels(channels)
    if not 0 < theta <= 1:
        raise InputError(f"{theta} is not over 0 and at most 1", "theta")
    if mu < 1:
        raise InputError(f"{mu} buckets a channel", "mu", "Give at least 1")
    if seed < 0:
        raise InputError(f"{seed} is below 0", "seed")
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    buckets = int(np.count_nonzero(capacities)) * mu
    bucket = universal(np.arange(profile.slots), *drawn(np.random.default_rng(seed))) % buckets

    total = float(profile.load.sum())
    heavy = np.flatnonzero((profile.heavy_load >= theta * total) & (profile.heavy_load > 0))
    heavy_load = profile.heavy_load[heavy]
    in_bucket = sums_by(bucket, profile.load, buckets)
    in_bucket -= sums_by(bucket[profile.heavy_slots[heavy]], heavy_load, buckets)
    at = schedule(np.concatenate([heavy_load, np.maximum(in_bucket, 0.0)]), capacities)
    placed = zip(profile.heavy[heavy].tolist(), at[: len(heavy)].tolist(), strict=True)
    options = {"theta": theta, "mu": mu, "seed": seed}
    slots = at[len(heavy) :][bucket]
    return successor(profile.key, previous, channels, slots, "dkg", options, dict(placed))


def schedule(load: Floats, capacities: Floats) -> Ints:
    """Channel of each item, int32 (n,): longest processing time first (section 3.1).

    Parameters
    ----------
    load : float64 (n,)
    capacities : float64 (N,); 0: closed
    """
    at = np.empty(len(load), dtype=np.int32)
    open_ = np.flatnonzero(capacities)
    weights, loads = capacities[open_], np.zeros(len(open_))
    counts = np.zeros(len(open_))
    for item in np.argsort(-load, kind="stable").tolist():
        after = (loads + load[item]) / weights
        equal = after <= after.min() * (1 + 1e-12)
        best = int(np.where(equal, counts / weights, np.inf).argmin())
        at[item] = open_[best]
        loads[best] += load[item]
        counts[best] += 1
    return at


def drawn(random: np.random.Generator) -> tuple[int, int]:
    """A hash of Carter and Wegman's family: a and b of (a x + b) mod `PRIME`, a not 0."""
    return int(random.integers(1, PRIME)), int(random.integers(0, PRIME))


def universal(numbers: npt.NDArray[np.int64], a: int, b: int) -> npt.NDArray[np.int64]:
    """(a x + b) mod `PRIME` of each number below it, (n,)."""
    hashed: npt.NDArray[np.int64] = (numbers.astype(np.int64) * a + b) % PRIME
    return hashed
