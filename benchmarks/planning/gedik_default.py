"""Measure every strategy on Gedik's default stream: b, m and planning time.

N grows one by one from 1 to 10. |D| = 1e6 keys, Zipf z = 1, alpha = 1.2, sigma = 0.1, S = 4,096
slots, and the three resources are linear (LLL). b is the fullest channel over the emptiest, over
alpha; 0.833 is perfect. m is bytes moved over total/N. Loads and bytes are counted key by key, not
from the profile.

    python -m benchmarks.planning.gedik_default [runs]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.planning.plan import make_plan
from partitioning.strategies import STRATEGIES
from partitioning.strategies.published.gedik.resources import delta
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import profile_of_keys

KEYS, ALPHA, SIGMA, SLOTS, CHANNELS = 10**6, 1.2, 0.1, 4096, 10
#: Strategies that keep keys whole: a key's load and state are on one channel.
WHOLE = (
    "uniform", "consistent", "scan", "redist", "readj", "dkg", "elb", "clb", "uhlb", "frontier"
)  # fmt: skip
#: (b, m) at N = 10, LLL: Gedik 2014, section 5.3 and Fig. 3.
PUBLISHED = {
    "uniform": ("1.55", "> 8"),
    "consistent": ("1.75", "< 1"),
    "scan": ("1.32", "1.23"),
    "redist": ("1.32", "1.23"),
    "readj": ("1.2", "1.34"),
}


def run(seed: int) -> dict[str, list[tuple[float, float, float]]]:
    """Return (b, m, seconds) of each strategy for N = 2 to 10; another seed gives other keys."""
    load, hashes = zipf(KEYS, 1.0), hashed_keys(KEYS, seed)
    functions: dict[str, PartitioningFunction | None] = dict.fromkeys(WHOLE)
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WHOLE}
    for count in range(1, CHANNELS + 1):
        tracked = delta(ALPHA, SIGMA, count, "LLL", KEYS) or 1.0
        profile = profile_of_keys(KEY, hashes, load, SLOTS, threshold=tracked)
        for name in WHOLE:
            before, began = functions[name], time.process_time()
            if name == "frontier" and before is not None:
                # What the task `plan` does: curve, bound and moves beside the function.
                after = make_plan("stream", profile, before, numbered_channels(count)).function
            else:
                after = STRATEGIES[name](profile, before, numbered_channels(count))
            seconds = time.process_time() - began
            functions[name] = after
            if before is None:
                continue
            owners = after.lookup_hashes(hashes)
            loads = np.bincount(owners, load, minlength=count)
            moved = float(load[before.lookup_hashes(hashes) != owners].sum())
            results[name].append((float(loads.max() / loads.min()) / ALPHA, moved * count, seconds))
    return results


def main(runs: int = 5) -> None:
    """Print the table: means over `runs` seeds, and the worst step of all."""
    every = [run(seed) for seed in range(runs)]
    print(f"Gedik's default stream, LLL, mean of {runs} runs; CPU s: the slowest step's median")
    print("(frontier: of the whole plan, with its curve, bound and moves)\n")
    print(f"{'':12}{'N = 2':>15}{'N = 5':>15}{'N = 10':>15}{'worst step':>15}"
          f"{'CPU s':>9}   paper, N = 10")  # fmt: skip
    print(f"{'':12}" + f"{'b':>8}{'m':>7}" * 4)
    for name in WHOLE:
        steps = np.array([results[name] for results in every])
        worst = steps.max(axis=(0, 1))
        slowest = np.median(steps[:, :, 2], axis=0).max()
        cells = [*(steps[:, n - 2, :2].mean(axis=0) for n in (2, 5, 10)), worst[:2]]
        row = "".join(f"{b:>8.3f}{m:>7.2f}" for b, m in cells)
        b, m = PUBLISHED.get(name, ("-", "-"))
        print(f"{name:12}{row}{slowest:>9.3f}   b {b}, m {m}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
