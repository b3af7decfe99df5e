"""Compare frontier with every other strategy at that strategy's own bytes.

Profiles are drawn at random. Loads are Zipf's or lognormal; bytes of state are as large as the
load, or lognormal. There are 2 to 24 channels, half of the time as many as before, and the function
before is of hashing, scan or readj. Each other strategy plans. frontier may move just the bytes
that this plan moves, and may split keys if the other does.

The table shows how often the other strategy is more even by over 0.1%, and by how much at most. One
part has as many slots as specs have. The other has few; there each item is a large part of a
channel, and the most even plan is a bin-packing problem.

    python -m benchmarks.planning.own_bytes [profiles]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.moves.moves import moves_between
from partitioning.strategies import SPLITTING, STRATEGIES, WHOLE
from partitioning.strategies.frontier.strategy import frontier
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.metrics import imbalance_of
from partitioning.workload.profile import Profile, profile_of_keys

#: Keys and slots that are drawn from, and most channels.
SIZES = {
    "specs' sizes": ((1_000, 5_000, 20_000), (1_024, 4_096), 24),
    "few items": ((20, 100, 500, 3_000), (16, 64, 256), 12),
}
#: Rivals: frontier itself at its own bytes tells nothing.
OTHERS = tuple(name for name in STRATEGIES if name != "frontier")
STARTS = ("uniform", "consistent", "scan", "readj")
#: Relative difference in imbalance that counts as equal: frontier's search ends that near.
CLOSE = 1e-3


def moved(profile: Profile, before: PartitioningFunction, after: PartitioningFunction) -> float:
    """Return the bytes of state that a function moves, as plans count them."""
    listed = profile.listing(np.union1d(before.exceptions, after.exceptions))
    return sum(move.bytes for move in moves_between(before, after, listed))


def drawn(seed: int, size: str) -> tuple[Profile, PartitioningFunction, tuple[Channel, ...]]:
    """Draw a profile, the function in force, and the new channels."""
    random, (keys, slots, most) = np.random.default_rng(seed), SIZES[size]
    count, wide = int(random.choice(keys)), int(random.choice(slots))
    lognormal = random.lognormal(0, random.uniform(0, 2.5), count)
    load = lognormal if random.random() < 0.5 else zipf(count, random.uniform(0, 2))
    state = random.lognormal(0, random.uniform(0, 2), count) if random.random() < 0.6 else None
    least = random.uniform(0.0005, 0.05) * load.sum()
    hashes = hashed_keys(count, seed)
    profile = profile_of_keys(KEY, hashes, load, wide, state=state, threshold=least)
    before, now = random.integers(2, most + 1, 2).tolist()
    start = STRATEGIES[STARTS[random.integers(len(STARTS))]]
    previous = start(profile, None, numbered_channels(before))
    return profile, previous, numbered_channels(before if random.random() < 0.5 else now)


def compared(
    profile: Profile,
    previous: PartitioningFunction,
    channels: Sequence[Channel],
    names: Iterable[str] = OTHERS,
) -> dict[str, float]:
    """Return how much more even each strategy is than frontier at its own bytes, as a ratio - 1.

    A negative value means that frontier is more even. It is infinite if frontier moves more bytes.
    """
    found = {}
    for name in names:
        other = STRATEGIES[name](profile, previous, channels)
        budget = moved(profile, previous, other)
        splitting = name in SPLITTING
        ours = frontier(profile, previous, channels, budget=budget, splitting=splitting)
        reached, theirs = (imbalance_of(f, profile) for f in (ours, other))
        kept = moved(profile, previous, ours) <= budget * (1 + 1e-12)
        found[name] = reached / theirs - 1 if kept else math.inf
    return found


def main(profiles: int = 200) -> None:
    head = f"{profiles} profiles each"
    print(f"{head:28}{'comparisons':>14}{'another more even':>23}{'at most by':>13}")
    for size in SIZES:
        runs = [compared(*drawn(seed, size)) for seed in range(profiles)]
        for told, names in (("whole keys", WHOLE), ("splitting", SPLITTING)):
            parts = np.array([part for run in runs for n, part in run.items() if n in names])
            over = parts[parts > CLOSE]
            print(f"{size + ', ' + told:28}{len(parts):>14,}{len(over):>23}"
                  f"{over.max(initial=0.0):>13.1%}")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
