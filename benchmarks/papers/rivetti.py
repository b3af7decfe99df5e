"""DKG's imbalance over k, mu, Theta and against PKG (Rivetti et al. 2015, Table 1, Figs. 6, 7, 14).

As in section 5.1: 10,000 items under other names each run, 80,000 tuples learned with Space Saving
of epsilon = Theta/2, 20,000 more measured. Runs are tens, not 10,000, so worst cases are milder.

    python -m benchmarks.papers.rivetti [runs]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenkeel.backtest_runs import placed
from evenkeel.windows import Window
from partitioning.function import DEFAULT_SLOTS, numbered_channels
from partitioning.generator import KEY, hashed_keys, zipf
from partitioning.hashing import slot_of
from partitioning.metrics import rivetti_lambda
from partitioning.profile import Profile, profile_of_keys, sums_by
from partitioning.sketches import SpaceSaving
from partitioning.strategies import ROUTERS, STRATEGIES

ITEMS, LEARNED, MEASURED = 10_000, 80_000, 20_000
#: Table 1: lambda = a k + b, in percent.
PUBLISHED = {"oapx": (60.7, -100), "universal": (60.7, -60.7), "universal, worst": (87.3, -73),
             "dkg": (60.7, -100), "dkg, worst": (62, -100), "sia": (100, -100)}  # fmt: skip


def streams(alpha: float, runs: int) -> Iterator[tuple[int, np.ndarray[Any, Any], Window]]:
    """(run, hashes of the tuples learned, what is measured)."""
    for run in range(runs):
        random, hashes = np.random.default_rng(run), np.sort(hashed_keys(ITEMS, run))
        keys = random.permutation(ITEMS)[
            random.choice(ITEMS, LEARNED + MEASURED, p=zipf(ITEMS, alpha))
        ]
        present, stream, load = np.unique(keys[LEARNED:], return_inverse=True, return_counts=True)
        window = Window("", hashes[present], load.astype(float), MEASURED, stream, None)
        yield run, hashes[keys[:LEARNED]], window


def learned(hashes: np.ndarray[Any, Any], theta: float) -> Profile:
    """What the learning phase knows: slots exactly, heavy hitters from Space Saving."""
    seen = SpaceSaving(theta / 2)
    for part in np.array_split(hashes, 80):
        seen.update(part)
    slots = sums_by(slot_of(hashes, DEFAULT_SLOTS), np.ones(len(hashes)), DEFAULT_SLOTS)
    heavy = seen.keys[seen.estimates(seen.keys) >= theta * len(hashes)]
    none, names = np.zeros(len(heavy)), tuple(map(str, heavy.tolist()))
    load = seen.estimates(heavy)  # as Space Saving has it: never too little
    return Profile(KEY, slots, slots, slots, heavy, load, none, none, names, seen.missed)


def imbalances(
    name: str, alpha: float, k: int, runs: int, theta: float = 0.1, **options: Any
) -> np.ndarray[Any, Any]:
    """lambda in percent of each run."""
    found, channels = [], numbered_channels(k)
    for run, hashes, window in streams(alpha, runs):
        if name == "pkg":
            routed = ROUTERS[name](window.hashes, channels).route(window.stream.astype(np.int64))
            loads = sums_by(routed.channel, routed.load, k)
        else:
            if name == "oapx":  # it knows what it is measured on
                profile = profile_of_keys(KEY, window.hashes, window.load, DEFAULT_SLOTS)
            else:
                profile = learned(hashes, theta)
            if name.startswith("dkg"):
                options |= {"theta": theta, "seed": run}
            elif name == "universal":
                options = {"seed": run}
            loads, _ = placed(STRATEGIES[name](profile, None, channels, **options), window)
        found.append(rivetti_lambda(loads))
    return np.array(found)


def over_k(runs: int) -> None:
    ks = np.arange(2, 11)
    print("lambda = a k + b for k = 2 to 10, Zipf-2, Theta = .1, mu = 2 (Table 1)")
    print(f"  {'':18}{'a':>7}{'b':>8}{'paper: a':>12}{'b':>8}")
    for name in ("oapx", "universal", "dkg", "sia"):
        values = np.array([imbalances(name, 2.0, int(k), runs) for k in ks])
        lines = {name: values.mean(axis=1)}
        if name in ("universal", "dkg"):
            lines[f"{name}, worst"] = values.max(axis=1)
        for label, line in lines.items():
            a, b = np.polyfit(ks, line, 1)
            print(
                f"  {label:18}{a:>7.1f}{b:>8.1f}{PUBLISHED[label][0]:>12}{PUBLISHED[label][1]:>8}"
            )


def over_mu_and_theta(runs: int) -> None:
    settings = [("mu, Theta = 1 (Fig. 6): falls most from 1 to 2", "mu", (1, 2, 4, 8)),
                ("Theta, mu = 1 (Fig. 7): drops at the heaviest item's share, .1, .6, .8",
                 "theta", (1.0, 0.8, 0.6, 0.2, 0.1, 0.05))]  # fmt: skip
    for title, option, values in settings:
        print(f"\nlambda of dkg in percent, mean and worst, k = 2, over {title}")
        print(f"  {'':10}" + "".join(f"{v:>14}" for v in values))
        for alpha in (1.0, 2.0, 3.0):
            cells = ""
            for v in values:
                given = {"theta": 1.0, "mu": 1} | {option: v}
                found = imbalances("dkg", alpha, 2, runs, **given)
                cells += f"{found.mean():>8.1f}{found.max():>6.1f}"
            print(f"  Zipf-{alpha:<5g}{cells}")


def against_pkg(runs: int) -> None:
    print("\nlambda in percent, mean and worst, Zipf-2 (Fig. 14): dkg_pkg lowest; both worst cases")
    print("of dkg below pkg's, where its two choices may be one")
    ks = (2, 3, 4, 6, 8, 10)
    print(f"  {'':10}" + "".join(f"{f'k = {k}':>15}" for k in ks))
    for name in ("dkg", "pkg", "dkg_pkg"):
        each = [imbalances(name, 2.0, k, runs) for k in ks]
        print(f"  {name:10}" + "".join(f"{x.mean():>8.1f}{x.max():>7.1f}" for x in each))


def main(runs: int = 20) -> None:
    over_k(runs)
    over_mu_and_theta(runs)
    against_pkg(runs)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
