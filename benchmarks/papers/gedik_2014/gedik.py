"""Measure balance, migration, size and time of partitioning functions (Gedik 2014, section 5).

B. Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal
2014. |D| = 1e6 keys, Zipf z = 1, alpha = 1.2, sigma = 0.1. N grows one by one from 1, and every key
is counted. b is the geometric mean over state, computation and communication of max/min over alpha
(Eq. 11); 1/alpha = 0.833 is perfect. m is state moved at the last step over total/N (Eq. 12). 4,096
slots stand for the untracked keys. "keys" counts those placed by name. The paper's words on its
curves stand beside ours.

    python -m benchmarks.papers.gedik_2014.gedik [--quick] [--json]
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.papers.gedik_2014.gedik_words import PUBLISHED, Rows, told
from partitioning.function.function import PartitioningFunction, numbered_channels
from partitioning.function.hashing import Hashes
from partitioning.strategies import STRATEGIES
from partitioning.strategies.published.gedik_resources import RESOURCES, delta
from partitioning.strategies.published.gedik_task import UTILITIES
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import Floats, profile_of_keys

ALPHA, SLOTS = 1.2, 4096
NAMES = ("uniform", "consistent", "scan", "redist", "readj", "frontier")
TRACKING = ("scan", "redist", "readj")


@dataclass(frozen=True)
class Setting:
    """One point of an experiment; defaults as in Table 1."""

    keys: int = 10**6
    z: float = 1.0
    channels: int = 10
    resources: str = "LLL"
    sigma: float = 0.1
    utility: str = "APM"
    alpha: float = ALPHA


@lru_cache(maxsize=2)
def _stream(keys: int, z: float, seed: int) -> tuple[Floats, Hashes]:
    return zipf(keys, z), hashed_keys(keys, seed)


def grow(name: str, setting: Setting, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the measures of one strategy at N = 2, 3, ... channels."""
    load, hashes = _stream(setting.keys, setting.z, seed)
    state = RESOURCES[setting.resources[0]](load)
    costs = [RESOURCES[r](load) for r in setting.resources]
    options: dict[str, Any] = {}
    if name in TRACKING:
        options = {"resources": setting.resources, "sigma": setting.sigma, "alpha": setting.alpha}
        options["utility"] = setting.utility
    elif name == "frontier":
        options = {"resources": setting.resources}
    before: PartitioningFunction | None = None
    for count in range(1, setting.channels + 1):
        least = delta(setting.alpha, setting.sigma, count, setting.resources, setting.keys) or 1.0
        known = None if before is None else before.explicit_keys
        profile = profile_of_keys(
            KEY, hashes, load, SLOTS, state=state, threshold=least, listed=known
        )
        began = time.process_time()
        after = STRATEGIES[name](profile, before, numbered_channels(count), **options)
        seconds = time.process_time() - began
        if before is not None:
            owners = after.lookup_hashes(hashes)
            each, over = [], 1.0
            for cost in costs:
                sums = np.bincount(owners, cost, minlength=count)
                each.append(float(sums.max() / max(sums.min(), 1e-90)) / setting.alpha)
                over = max(over, float(sums.max() / sums.mean()))
            moved = state[before.lookup_hashes(hashes) != owners].sum() / state.sum() * count
            yield {
                "channels": count,
                "b": float(np.prod(each) ** (1 / 3)),
                "b_s": each[0],
                "b_c": each[1],
                "b_n": each[2],
                "over": over,
                "m": float(moved),
                "explicit": len(after.explicit_keys),
                "seconds": seconds,
            }
        before = after


#: Runs of the default settings and of the utilities; sweeps are run once.
RUNS = 3
TITLES = {
    "resources": "Resource functions of state, computation, communication (Fig. 3)",
    "skew": "Skew z (Fig. 4, 10, 14)",
    "threshold": "Frequency threshold scaler sigma (Fig. 5, 9, 12)",
    "channels": "Number of channels N (Fig. 6, 11, 13); LCL",
    "utility": "Utility function, readj and redist (Fig. 7)",
    "domain": "Number of keys |D| (Fig. 8); LCL",
}


def experiments(quick: bool) -> Iterator[tuple[str, str, Setting, tuple[str, ...], int]]:
    """Yield (figure, x, setting, strategies, runs); the last of the steps is reported."""
    for resources in ("LLL", "LCL") if quick else ("CCL", "LCL", "LLL"):
        yield "resources", resources, Setting(resources=resources), NAMES, 1 if quick else RUNS
    if quick:
        return
    yield "resources", "LQL", Setting(resources="LQL"), NAMES[:-1], RUNS
    # Its ten steps take a minute and a half.
    yield "resources", "LQL", Setting(resources="LQL"), ("frontier",), 1
    yield "resources", "LQL, z = 0.5", Setting(resources="LQL", z=0.5), NAMES, RUNS
    for resources, skews in (("LCL", (0.4, 0.8)), ("LLL", (0.4, 0.8)), ("LQL", (0.25, 0.4))):
        for z in skews:
            yield "skew", f"{resources} {z:g}", Setting(resources=resources, z=z), NAMES, 1
    for sigma in (0.008, 0.03, 0.3, 1.0):
        setting = Setting(resources="LCL", sigma=sigma)
        yield "threshold", f"{sigma:g}", setting, (*TRACKING, "frontier"), 1
    for count in (5, 20, 32):
        yield "channels", str(count), Setting(resources="LCL", channels=count), NAMES, 1
    for resources, utility in itertools.product(("LCL", "LLL", "LQL"), UTILITIES):
        setting = Setting(resources=resources, utility=utility)
        yield "utility", f"{resources} {utility}", setting, ("redist", "readj"), RUNS
    for keys in (10**4, 10**5):
        yield "domain", f"{keys:,}", Setting(keys=keys, resources="LCL"), NAMES, 1


def main(arguments: list[str]) -> None:
    """Print a table, or with --json a line for each row."""
    as_json, quick, shown, rows = "--json" in arguments, "--quick" in arguments, "", Rows()
    for figure, x, setting, names, runs in experiments(quick):
        if figure != shown and not as_json:
            print(f"\n{TITLES[figure]}\n{'':14}{'':12}{'b':>7}{'b_s':>8}{'b_c':>8}{'b_n':>8}"
                  f"{'m':>7}{'keys':>7}{'CPU s':>8}   paper")  # fmt: skip
        shown = figure
        for name in names:
            ends = [list(grow(name, setting, seed))[-1] for seed in range(runs)]
            mean = {key: float(np.mean([end[key] for end in ends])) for key in ends[0]}
            rows[figure, x, name], said = mean, PUBLISHED.get((figure, x, name), "")
            if as_json:
                row = {"figure": figure, "x": x, "strategy": name, **mean, "paper": said}
                print(json.dumps(row), flush=True)
                continue
            each = "".join(f"{mean[k]:>8.3f}" for k in ("b", "b_s", "b_c", "b_n"))
            print(f"{x:14}{name:11}{each}{mean['m']:>7.2f}{mean['explicit']:>7.0f}"
                  f"{mean['seconds']:>8.3f}   {said}", flush=True)  # fmt: skip
    if not (as_json or quick):
        print(f"\n{'Fig.  the paper on these tables':60}ours")
        for number, words, found in told(rows):
            print(f"{number:6}{words:54}{found}")


if __name__ == "__main__":
    main(sys.argv[1:])
