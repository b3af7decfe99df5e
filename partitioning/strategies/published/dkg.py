"""Distribution-aware key grouping, and what its authors compare it with.

Buckets of light keys and single heavy ones are scheduled by load.

N. Rivetti, L. Querzoni, E. Anceaume, Y. Busnel, B. Sericola, "Efficient key grouping for
near-optimal load balancing in stream processing systems", DEBS 2015.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel, check_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.hashing import check_slots
from partitioning.strategies.water_filling import settled_loads
from partitioning.workload.profile import Floats, Profile, sums_by

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
    """Place heavy keys and k mu buckets of the rest, largest first, each on the least loaded.

    Open in the paper, and our choice:

    - The bucket is a 2-universal hash of the slot, not of the key, because our function knows
      slots. Two keys share a bucket with probability 1/S + 1/(k mu) instead of 1/(k mu).
    - It builds once, after the learning phase. Here each window builds from its own profile alone.
      The function in force is not looked at, so nothing limits the state that moves.
    - Heavy keys are those of the profile with a share of at least theta; where its error is
      larger, it may miss some. Space Saving's overestimate does not arise.
    - Channels may differ in capacity: a bucket goes where it leaves the least load over capacity
      (the same for equal ones). Closed channels do not count towards k.
    - If channels are equally loaded, the one with fewest buckets takes the next, then the lowest.

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
    return _built(profile, previous, channels, "dkg", theta, mu, seed)


def dkg_wosim(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    theta: float = 0.1,
    seed: int = 0,
) -> PartitioningFunction:
    """Run dkg without the sparse items' mapping: a hash takes them straight to a channel.

    Heavy keys are scheduled as if nothing else were there. The hash's co-domain is k, so there is
    no mu. Parameters and errors as in `dkg`.

    Source: section 6, Fig. 13, "DKG WOSIM".
    """
    return _built(profile, previous, channels, "dkg_wosim", theta, 1, seed, unseen=True)


def dkg_pkg(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    theta: float = 0.1,
    mu: int = 2,
    seed: int = 0,
) -> PartitioningFunction:
    """Run dkg with two choices: a heavy key is scheduled as two halves.

    Its rows go to the less loaded of their two channels. The function has the shares that this
    comes to, among channels that carry what they are scheduled. Parameters and errors as in `dkg`.

    Source: section 6, Fig. 14.
    """
    return _built(profile, previous, channels, "dkg_pkg", theta, mu, seed, parts=2)


def oapx(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> PartitioningFunction:
    """Schedule every heavy key and the rest of every slot by load: dkg tries to come near it.

    The paper's has every key of the stream it is tried on; a profile lists heavy ones.

    Source: section 5, "O-apx".
    """
    check_slots(profile, previous)
    check_channels(channels)
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    tail = profile.tail(profile.load, profile.heavy_load)
    at = schedule(np.concatenate([profile.heavy_load, tail]), capacities)
    placed = zip(profile.heavy.tolist(), at[: len(profile.heavy)].tolist(), strict=True)
    slots = at[len(profile.heavy) :]
    return successor(profile.key, previous, channels, slots, "oapx", None, dict(placed))


def sia(
    profile: Profile, previous: PartitioningFunction | None, channels: Sequence[Channel]
) -> PartitioningFunction:
    """Place everything on one channel, the first open one: the worst there is.

    Source: section 5, "Single Instance Allocation".
    """
    check_slots(profile, previous)
    check_channels(channels)
    first = next(i for i, c in enumerate(channels) if c.capacity)
    return successor(profile.key, previous, channels, np.full(profile.slots, first), "sia")


def universal(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    seed: int = 0,
) -> PartitioningFunction:
    """Give slots to open channels by a 2-universal hash; `uniform` is the paper's Modulo.

    Parameters and errors as in `dkg`.

    Source: section 5, "Universal".
    """
    check_slots(profile, previous)
    check_channels(channels)
    _check_seed(seed)
    open_ = np.flatnonzero([c.capacity for c in channels])
    slots = open_[_hashed(profile.slots, seed) % len(open_)]
    return successor(profile.key, previous, channels, slots, "universal", {"seed": seed})


def _built(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    name: str,
    theta: float,
    mu: int,
    seed: int,
    *,
    parts: int = 1,
    unseen: bool = False,
) -> PartitioningFunction:
    """Run dkg with each heavy key scheduled in so many equal parts.

    Or leave bucket i on open channel i, unseen by the schedule.
    """
    check_slots(profile, previous)
    check_channels(channels)
    if not 0 < theta <= 1:
        raise InputError(f"expected more than 0 and at most 1, got {theta}", "theta", IN_RANGE)
    if mu < 1:
        raise InputError(f"{mu} buckets a channel", "mu", "Give at least 1")
    _check_seed(seed)
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    buckets = int(np.count_nonzero(capacities)) * mu
    bucket = _hashed(profile.slots, seed) % buckets

    total = float(profile.load.sum())
    heavy = np.flatnonzero((profile.heavy_load >= theta * total) & (profile.heavy_load > 0))
    heavy_load = profile.heavy_load[heavy]
    in_bucket = sums_by(bucket, profile.load, buckets)
    in_bucket -= sums_by(bucket[profile.heavy_slots[heavy]], heavy_load, buckets)
    in_bucket = np.maximum(in_bucket, 0.0)
    split = np.tile(heavy_load / parts, parts)
    at = schedule(split if unseen else np.concatenate([split, in_bucket]), capacities)
    owners, of_bucket = at[: len(split)].reshape(parts, -1).T, at[len(split) :]
    if unseen:
        of_bucket = np.flatnonzero(capacities).astype(np.int32)
    choices = [np.unique(own).astype(np.int64) for own in owners]
    resting = sums_by(of_bucket, in_bucket, len(channels))
    shares = settled_loads(heavy_load, choices, resting, capacities)
    return successor(
        profile.key,
        previous,
        channels,
        of_bucket[bucket],
        name,
        {"theta": theta, "seed": seed} | ({} if unseen else {"mu": mu}),
        split={
            h: dict(zip(own.tolist(), share.tolist(), strict=True))
            for h, own, share in zip(profile.heavy[heavy].tolist(), choices, shares, strict=True)
        },
    )


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"{seed} is below 0", "seed", "Give 0 or more")


def _hashed(slots: int, seed: int) -> npt.NDArray[np.int64]:
    return two_universal(np.arange(slots), *draw_hash(np.random.default_rng(seed)))


def schedule(load: Floats, capacities: Floats) -> Ints:
    """Return the channel of each item, int32 (n,): longest processing time first (section 3.1).

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


def draw_hash(random: np.random.Generator) -> tuple[int, int]:
    """Draw a hash of Carter and Wegman's family: a and b of (a x + b) mod `PRIME`, a not 0."""
    return int(random.integers(1, PRIME)), int(random.integers(0, PRIME))


def two_universal(numbers: npt.NDArray[np.int64], a: int, b: int) -> npt.NDArray[np.int64]:
    """Return (a x + b) mod `PRIME` of each number below it, (n,)."""
    hashed: npt.NDArray[np.int64] = (numbers.astype(np.int64) * a + b) % PRIME
    return hashed
