"""Measure frontier on many items and channels: planning time, and distance from the LP bound.

Items sit on channels at random, and planning runs on one core. `even` plans for the best balance;
`5%` plans for least bytes at an imbalance of 1.05. "over" is imbalance over the least that the LP
bound allows for the bytes moved. The LP cuts items. "whole" is imbalance over the least that any
choice of whole items allows on the channels that shed them. It does not check whether other
channels have room for them.

    python -m benchmarks.planning.frontier_scale [--quick]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.strategy import frontier
from partitioning.streams.zipf_stream import KEY, zipf
from partitioning.workload.bounds import least_bytes
from partitioning.workload.metrics import imbalance_of
from partitioning.workload.profile import Floats, Profile

#: Items, channels, limit in seconds. Those of 75,000 and 375,000 items are Meta's Shard Manager's
#: (SOSP 2021), whose solver took 30 s and 205 s.
SIZES = (
    (100_000, 1_000, 5),
    (1_000_000, 100, 5),
    (75_000, 1_000, 5),
    (1_000_000, 10, 5),
    (375_000, 5_000, 60),
)
#: Fair shares that the item of the stream "hot" has.
HOT = 7
#: Steps that a channel's fair share is cut into for the bound of whole items.
STEPS = 4000


def problem(
    items: int, channels: int, stream: str, seed: int = 0
) -> tuple[Profile, PartitioningFunction]:
    """Make a profile with one slot an item, and a random function.

    Loads are lognormal or Zipf (0.5). Bytes are in proportion to load or random. A hot item has
    7 channels' fair shares.
    """
    random = np.random.default_rng(seed)
    load = (
        random.permutation(zipf(items, 0.5)) if "zipf" in stream else random.lognormal(size=items)
    )
    if "hot" in stream:
        load[0] = load[1:].sum() * HOT / (channels - HOT)
    size = load if "linear" in stream else random.lognormal(size=items)
    none = np.empty(0)
    profile = Profile(KEY, load, size, np.ones(items), none.astype(np.int64), none, none, none, ())
    at = random.integers(0, channels, items)
    return profile, PartitioningFunction(KEY, numbered_channels(channels), at)


def over_bound(
    profile: Profile, before: PartitioningFunction, after: PartitioningFunction, whole: bool = False
) -> float:
    """Return imbalance over the least possible for the bytes moved; 0 is the bound.

    Parameters
    ----------
    whole : compare with what is possible without cutting items
    """
    reached = imbalance_of(after, profile)
    moved = float(profile.bytes[before.slots != after.slots].sum())
    alone = max(1.0, float(profile.load.max() / profile.load.sum() * len(after.channels)))
    grid = np.linspace(alone, max(reached, alone), 512)
    least = least_bytes(profile.load, profile.bytes, before.slots, after.capacities, grid)
    if whole:
        least = np.maximum(least, least_whole(profile, before, grid))
    within = grid[least <= moved * (1 + 1e-9)]
    if not len(within):
        raise RuntimeError(f"the bound, {least[-1]:g} bytes, is over the {moved:g} that moved")
    return reached / float(within.min()) - 1


def least_whole(profile: Profile, before: PartitioningFunction, grid: Floats) -> Floats:
    """Bound the bytes that channels must shed for each imbalance, float64 (g,).

    All channels have one capacity. It solves one knapsack a channel, in which an item counts as
    the whole steps that it begins.
    """
    count = len(before.channels)
    fair = float(profile.load.sum()) / count
    bound = np.zeros(len(grid))
    for channel in range(count):
        own = np.flatnonzero(before.slots == channel)
        need = (profile.load[own].sum() / fair - grid) * STEPS
        if need.max() <= 0:
            continue
        best = np.full(int(np.ceil(need.max())) + 1, np.inf)
        best[0] = 0.0
        steps = np.ceil(profile.load[own] / fair * STEPS).astype(int).clip(max=len(best) - 1)
        for step, size in zip(steps.tolist(), profile.bytes[own].tolist(), strict=True):
            with_it = size + np.concatenate([np.zeros(step), best[: len(best) - step]])
            best = np.minimum(best, with_it)
        bound += best[np.maximum(np.floor(need), 0).astype(int)]
    return bound


def main(quick: bool = False) -> None:
    """Print the table, in CPU seconds of this process."""
    print(f"{'items':>9}{'channels':>9}  {'stream':22}{'even s':>8}{'limit':>6}{'imbalance':>11}"
          f"{'over':>8}{'5% s':>8}{'over':>8}{'whole':>8}")  # fmt: skip
    for items, channels, limit in SIZES[: 3 if quick else None]:
        for stream in ("lognormal", "lognormal, linear", "zipf 0.5", "zipf 0.5, linear", "hot"):
            profile, before = problem(items, channels, stream)
            owners, began = numbered_channels(channels), time.process_time()
            after = frontier(profile, before, owners)
            seconds = time.process_time() - began
            reached = imbalance_of(after, profile)
            again = replace(profile)  # nothing is remembered of it
            began = time.process_time()
            aimed = frontier(again, before, owners, max_imbalance=1.05)
            aim = time.process_time() - began
            print(
                f"{items:>9,}{channels:>9,}  {stream:22}{seconds:>8.2f}{limit:>6}{reached:>11.4f}"
                f"{over_bound(profile, before, after):>8.2%}{aim:>8.2f}"
                f"{over_bound(profile, before, aimed):>8.2%}"
                f"{over_bound(profile, before, aimed, whole=True):>8.2%}",
                flush=True,
            )


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
