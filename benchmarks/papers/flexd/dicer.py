"""Run the chaos test of Dicer's sharding algorithm, rebuilt from its description.

The source is `AlgorithmChaosSuite` of Databricks' auto-sharder, github.com/databricks/dicer. It has
1,000 rounds. In each round 6 to 8 of 8 workers are alive, at random. The load over 128 ranges of
the keyspace is drawn again, with densities within a factor of 4. A coin decides whether one random
key has half of all load. Bounds on the overload of the fullest worker are asserted at percentiles.

Dicer replicates a hot slice, and its replicas share evenly; here keys may be split by weight. Dicer
asserts the overload over its mean load or the capacity hint, whichever is more, with a reserve for
each worker. That is less than the overload over the mean alone, which is ours. Dicer keeps slices
that it may cut anywhere; we keep the existing slots. Loads are shares of keys, not of rows drawn by
a hash.

"keyspace moved" is the part that changed its worker, and "forced" the part whose worker had died.
"least" is a lower bound: no assignment as even moves less (LP relaxation).

    python -m benchmarks.papers.flexd.dicer [rounds]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.strategy import frontier
from partitioning.streams.zipf_stream import KEY
from partitioning.workload.bounds import least_bytes
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import Profile

WORKERS, ALIVE, RANGES, DENSITY, HOT, SLOTS = 8, (6, 7, 8), 128, 4.0, 0.5, 4096
#: Percentiles of overload that Dicer asserts, with its default churn penalty.
PUBLISHED = {10: 0.01, 50: 0.02, 90: 0.03, 95: 0.04, 99: 0.35, 100: 0.70}
#: Imbalance aimed at; None: as even as it gets.
AIMS = (1.02, 1.005, None)


@dataclass(frozen=True)
class Round:
    """Overload of the fullest worker, and how much of the keyspace moved.

    The parts of the keyspace are: moved, moved by force, and the least possible. `owners` counts
    the channels of the hot key, 0 if there is none.
    """

    overload: float
    moved: float
    forced: float
    least: float
    copies: int


def windows(rounds: int, seed: int) -> Iterator[tuple[Profile, tuple[Channel, ...]]]:
    """Yield load and keyspace by slot, and the workers that are alive."""
    random = np.random.default_rng(seed)
    none = np.empty(0)
    for _ in range(rounds):
        alive = random.permutation(WORKERS)[: random.choice(ALIVE)]
        channels = tuple(Channel(str(i), float(i in alive)) for i in range(WORKERS))
        cuts = np.sort(random.choice(np.arange(1, SLOTS), RANGES - 1, replace=False))
        widths = np.diff(cuts, prepend=0, append=SLOTS)
        load = np.repeat(random.uniform(1.0, DENSITY, RANGES), widths)
        load /= load.sum()
        keyspace = np.full(SLOTS, 1 / SLOTS)
        heavy, heavy_load = none.astype(np.int64), none
        if random.random() < 0.5:  # a key, and none of the keyspace to speak of
            heavy = random.integers(0, 2**62, 1)
            heavy_load = np.array([HOT])
            load *= 1 - HOT
            load[heavy % SLOTS] += HOT
        zero = np.zeros(len(heavy))
        names = tuple(map(str, heavy.tolist()))
        yield Profile(KEY, load, keyspace, keyspace, heavy, heavy_load, zero, zero, names), channels


def chaos(rounds: int, aim: float | None, seed: int = 0) -> Iterator[Round]:
    """Yield every round except the first, which has nothing to move from."""
    before: PartitioningFunction | None = None
    for profile, channels in windows(rounds + 1, seed):
        after = frontier(profile, before, channels, max_imbalance=aim, splitting=True, worth=0.0)
        if before is not None:
            reached = imbalance(channel_loads(after, profile), after.capacities)
            tail = profile.tail(profile.load, profile.heavy_load)
            over = np.array([reached / tail.sum()])
            least = least_bytes(tail, profile.bytes, before.slots, after.capacities, over)
            yield Round(
                reached - 1,
                float(profile.bytes[after.slots != before.slots].sum()),
                float(profile.bytes[after.capacities[before.slots] == 0].sum()),
                float(least[0]),
                len(after.split.channels),
            )
        before = after


def main(rounds: int = 1000) -> None:
    marks = list(PUBLISHED)
    print(f"{rounds} rounds; overload of the fullest worker above the mean, percentiles")
    heads = "".join(f"{'p' + str(p):>8}" for p in marks)
    print(f"{'aim':16}{heads}   keyspace moved  forced  least")
    asserted = "".join(f"{PUBLISHED[p]:>8.0%}" for p in marks)
    print(f"{'Dicer asserts':16}{asserted}                -       -      -")
    for aim in AIMS:
        every = list(chaos(rounds, aim))
        name = "frontier" + ("" if aim is None else f", {aim:g}")
        overload = np.percentile([r.overload for r in every], marks)
        moved, forced, least = (
            float(np.mean([getattr(r, part) for r in every]))
            for part in ("moved", "forced", "least")
        )
        shown = "".join(f"{o:>8.2%}" for o in overload)
        print(f"{name:16}{shown}{moved:>17.1%}{forced:>8.1%}{least:>7.1%}", flush=True)
    copies = [r.copies for r in every if r.copies]
    print(f"owners of the hot key, without an aim: {np.mean(copies):.1f} in the mean")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
