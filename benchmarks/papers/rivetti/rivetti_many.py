"""Measure DKG over many runs, for worst cases, and with a quadratic cost (Rivetti et al. 2015).

The source is Table 1, Figs. 4 and 5. Worst cases are of 10,000 runs there. Universal learns
nothing, so it has 10,000 here, too. Its streams are drawn as counts of items, which is all that it
depends on. DKG and frontier learn in the order of the stream, which takes longer, so they have
1,000.

Fig. 5: an item with f tuples costs f^2. DKG's schedule squares the load of its buckets, as the
paper says, "instead of the sum of the squares of the load induced by the tuples hitting the
bucket". The measured value is the sum. So it is scheduled here from the parts of `dkg`, as a
profile has no place for squares of whole buckets. "dkg, distinct" is the paper's next proposal: to
count a bucket's distinct items n and take v^2 / n. Neither sees how uneven a bucket's items are.
frontier has Q, the sum of squares, as its resource, and knows the keys of each slot, as our tables
do.

    python -m benchmarks.papers.rivetti.rivetti_many [runs]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.papers.rivetti.rivetti import ITEMS, MEASURED, learned, rivetti_lambda, streams
from evenkeel.backtest.runners import placed
from evenkeel.backtest.windows import Window
from partitioning.function.channels import numbered_channels
from partitioning.function.function import DEFAULT_SLOTS, PartitioningFunction, successor
from partitioning.function.hashing import slot_of
from partitioning.strategies import STRATEGIES
from partitioning.strategies.published.dkg import draw_hash, schedule, two_universal
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import Floats, Profile, profile_of_keys, sums_by

CHANNELS, THETA, MU = range(2, 11), 0.1, 2
#: Runs of DKG, as many times more of universal, and as many times fewer of the quadratic cost.
RUNS, MORE, FEWER = 1_000, 10, 20
#: Of the linear regression (Table 1), a and b, in percent; sigma at k = 2 (Fig. 4).
PUBLISHED = {"universal": ("87.3 k - 73", "2800 to 9600"), "dkg": ("62 k - 100", "-"),
             "frontier": ("-", "-")}  # fmt: skip
#: Strategy -> load of each channel by number of channels, each (runs, k).
Loads = dict[str, dict[int, Floats]]


def counts_of(alpha: float, runs: int) -> Iterator[tuple[int, Window]]:
    """Yield (run, what is measured), like `streams`, without an order."""
    for run in range(runs):
        random = np.random.default_rng(run)
        counts = random.permutation(random.multinomial(MEASURED, zipf(ITEMS, alpha)))
        load = counts[counts > 0].astype(float)
        hashes = np.sort(hashed_keys(ITEMS, run))[counts > 0]
        yield run, Window("", hashes, load, MEASURED, np.empty(0, dtype=np.int32), None)


def of_universal(runs: int, alpha: float = 2.0) -> dict[int, Floats]:
    """Return Universal's loads of each k, (runs, k)."""
    found: dict[int, list[Floats]] = {k: [] for k in CHANNELS}
    nothing = profile_of_keys(KEY, hashed_keys(1), np.ones(1), DEFAULT_SLOTS)
    for run, window in counts_of(alpha, runs):
        for k, loads in found.items():
            built = STRATEGIES["universal"](nothing, None, numbered_channels(k), seed=run)
            loads.append(sums_by(built.lookup_hashes(window.hashes), window.load, k))
    return {k: np.array(loads) for k, loads in found.items()}


def of_learners(runs: int, alpha: float = 2.0) -> Loads:
    """Return the loads of DKG and frontier."""
    found: dict[str, dict[int, list[Floats]]] = {
        name: {k: [] for k in CHANNELS} for name in ("dkg", "frontier")
    }
    for run, hashes, window in streams(alpha, runs):
        known = learned(hashes, THETA)
        for name, by_count in found.items():
            options = {"theta": THETA, "mu": MU, "seed": run} if name == "dkg" else {}
            for k, loads in by_count.items():
                built = STRATEGIES[name](known, None, numbered_channels(k), **options)
                loads.append(placed(built, window)[0])
    return {n: {k: np.array(x) for k, x in by.items()} for n, by in found.items()}


def worst(found: Loads) -> None:
    print("worst lambda in percent, Zipf-2, Theta = 0.1, mu = 2, and its line over k (Table 1)")
    print(f"  {'runs':>18}" + "".join(f"{f'k = {k}':>8}" for k in CHANNELS) + "   a k + b, paper")
    for name, by_count in found.items():
        most = [max(map(rivetti_lambda, loads)) for loads in by_count.values()]
        a, b = np.polyfit(list(by_count), most, 1)
        runs = len(next(iter(by_count.values())))
        print(f"  {name:10}{runs:>8,}" + "".join(f"{x:>8.1f}" for x in most)
              + f"   {a:.1f} k - {-b:.1f}, {PUBLISHED[name][0]}")  # fmt: skip
    print("\nsigma over the runs, Zipf-2 (Fig. 4)")
    marks = (0, 5, 50, 95, 100)
    print(f"  {'':15}" + "".join(f"{f'P{p}':>8}" for p in marks) + "   paper")
    for name, by_count in found.items():
        for k in (2, 5):
            cells = np.percentile(by_count[k].std(axis=1), marks)
            paper = PUBLISHED[name][1] if k == 2 else "-"
            print(f"  {name:10}k = {k}" + "".join(f"{x:>8,.0f}" for x in cells) + f"   {paper}")


def squared(
    known: Profile, k: int, seed: int, distinct: Floats | None = None
) -> PartitioningFunction:
    """Schedule DKG for items that cost their square.

    Buckets cost the square of their whole load. If the distinct items of each slot are known,
    float64 (S,), a bucket costs what as many equal items do.
    """
    buckets, channels = k * MU, numbered_channels(k)
    of = two_universal(np.arange(DEFAULT_SLOTS), *draw_hash(np.random.default_rng(seed))) % buckets
    cost = sums_by(of, known.tail(known.load, known.heavy_load), buckets) ** 2
    if distinct is not None:
        cost /= np.maximum(sums_by(of, distinct, buckets), 1.0)
    at = schedule(np.concatenate([known.heavy_load**2, cost]), np.ones(k))
    heavy = len(known.heavy)
    explicit = dict(zip(known.heavy.tolist(), at[:heavy].tolist(), strict=True))
    return successor(KEY, None, channels, at[heavy:][of], "dkg", {"seed": seed}, explicit)


def planned(name: str, known: Profile, distinct: Floats, window: Window, k: int, run: int) -> Any:
    """Build the function of a strategy for quadratic cost."""
    channels = numbered_channels(k)
    if name.startswith("dkg"):
        return squared(known, k, run, distinct if name.endswith("distinct") else None)
    if name == "universal":
        return STRATEGIES[name](known, None, channels, seed=run)
    if name == "oapx":  # it knows what it is measured on
        known = profile_of_keys(KEY, window.hashes, window.load**2, DEFAULT_SLOTS)
    elif name == "frontier":
        counted = replace(known, rows=distinct, heavy_rows=np.ones(len(known.heavy)))
        return STRATEGIES[name](counted, None, channels, resources="Q")
    return STRATEGIES[name](known, None, channels)


def quadratic(runs: int, alpha: float = 1.0) -> dict[str, Floats]:
    """Return sigma of the sums of squares, in thousands, (runs, ks), of each strategy."""
    names = ("oapx", "dkg", "dkg, distinct", "universal", "sia", "frontier")
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for run, hashes, window in streams(alpha, runs):
        known, cost = learned(hashes, THETA), window.load**2
        distinct = sums_by(slot_of(items := np.unique(hashes), DEFAULT_SLOTS),
                           np.ones(len(items)), DEFAULT_SLOTS)  # fmt: skip
        for name, rows in found.items():
            rows.append([])
            for k in CHANNELS:
                built = planned(name, known, distinct, window, k, run)
                sums = sums_by(built.lookup_hashes(window.hashes), cost, k)
                rows[-1].append(float(sums.std()) / 1e3)
    return {name: np.array(rows) for name, rows in found.items()}


def told(found: dict[str, Floats]) -> None:
    runs = len(found["dkg"])
    print(
        f"\nsigma in thousands, mean of {runs} runs, quadratic cost, Zipf-1 (Fig. 5): dkg over oapx"
    )
    print("for k < 5, and its worst far above its mean; universal's mean hardly below dkg's worst,")
    print("its worst near sia")
    print(f"  {'':22}" + "".join(f"{f'k = {k}':>8}" for k in CHANNELS))
    for name, values in found.items():
        for label, row in (("", values.mean(axis=0)), (", worst", values.max(axis=0))):
            if not label or name in ("dkg", "universal", "frontier"):
                print(f"  {name + label:22}" + "".join(f"{x:>8,.0f}" for x in row))


def main(runs: int = RUNS) -> None:
    worst({"universal": of_universal(runs * MORE), **of_learners(runs)})
    told(quadratic(max(runs // FEWER, 1)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
