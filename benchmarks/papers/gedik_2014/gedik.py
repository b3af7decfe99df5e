"""Measure balance, migration, size and time of partitioning functions (Gedik 2014, section 5).

B. Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal
2014. |D| = 1e6 keys, Zipf z = 1, alpha = 1.2, sigma = 0.1. N grows one by one from 1, and every key
is counted. b is the geometric mean over state, computation and communication of max/min over alpha
(Eq. 11); 1/alpha = 0.833 is perfect. m is state moved at the last step over total/N (Eq. 12). 4,096
slots stand for the untracked keys. "keys" counts the pinned ones.

Figures are means over the hashes of so many runs, and "se" is the standard error of the column
before it. Every strategy runs on the same hashes. `frontier` is shown at LLL, and at LCL on fewer
runs, because with several resources its plans take seconds. The paper's words on its curves stand
beside ours. Where they compare two strategies, ours are ratios of means with the standard error of
the paired difference.

    python -m benchmarks.papers.gedik_2014.gedik [--quick] [--json]
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.papers.gedik_2014.domain import domain
from benchmarks.papers.gedik_2014.gedik_words import PUBLISHED, Rows, error, told
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.strategies import STRATEGIES
from partitioning.strategies.published.gedik.resources import delta
from partitioning.strategies.published.gedik.task import UTILITIES
from partitioning.workload.profile import Floats

ALPHA, SLOTS = 1.2, 4096
NAMES = ("uniform", "consistent", "scan", "redist", "readj", "frontier")
TRACKING, THEIRS = ("scan", "redist", "readj"), NAMES[:-1]


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
    slots: int = SLOTS
    #: Options of scan, redist and readj that read the paper otherwise.
    reading: tuple[tuple[str, Any], ...] = ()


def grow(name: str, setting: Setting, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the measures of one strategy at N = 2, 3, ... channels."""
    known = domain(setting.keys, setting.z, seed, setting.slots)
    resources, state = setting.resources, setting.resources[0]
    options: dict[str, Any] = {"resources": resources} if name == "frontier" else {}
    if name in TRACKING:
        options = {"resources": resources, "sigma": setting.sigma, "alpha": setting.alpha}
        options |= {"utility": setting.utility} | dict(setting.reading)
    part = 1 - options.get("epsilon", 0.0)
    before: PartitioningFunction | None = None
    for count in range(1, setting.channels + 1):
        # One channel tolerates anything, and nothing is to be placed: list no key.
        least = 1.0
        if count > 1:
            least = delta(setting.alpha, setting.sigma, count, resources, setting.keys)
        listed = None if before is None else before.explicit_keys
        profile = known.profile(part * least, listed, state)
        began = time.process_time()
        after = STRATEGIES[name](profile, before, numbered_channels(count), **options)
        seconds = time.process_time() - began
        if before is not None:
            each, over = [], 1.0
            for resource in resources:
                sums = known.loads(after, resource)
                each.append(float(sums.max() / max(sums.min(), 1e-90)) / setting.alpha)
                over = max(over, float(sums.max() / sums.mean()))
            yield {
                "channels": count,
                "b": float(np.prod(each) ** (1 / 3)),
                "b_s": each[0],
                "b_c": each[1],
                "b_n": each[2],
                "over": over,
                "m": known.moved(before, after, state) * count,
                "explicit": len(after.explicit_keys),
                "seconds": seconds,
            }
        before = after


#: Runs, each with other hashes; those of `frontier` where a plan of it takes seconds.
RUNS, FEW = 16, 3
TITLES = {
    "resources": "Resource functions of state, computation, communication (Fig. 3)",
    "skew": "Skew z (Fig. 4, 10, 14)",
    "threshold": "Frequency threshold scaler sigma (Fig. 5, 9, 12)",
    "channels": "Number of channels N (Fig. 6, 11, 13); LCL",
    "utility": "Utility function, readj and redist (Fig. 7)",
    "domain": "Number of keys |D| (Fig. 8); LCL",
    "reading": "Other readings: LCL without C in rho (4.4), keys from delta - epsilon, c = 5",
    "slots": "Slots, at LCL: b_c is the number of keys",
}


#: (figure, x, setting, strategies, runs); the last of the steps is reported.
Experiment = tuple[str, str, Setting, tuple[str, ...], int]


def experiments(quick: bool) -> Iterator[Experiment]:
    """Yield every row's experiment, figure by figure."""
    if quick:
        yield "resources", "LLL", Setting(), NAMES, 1
        yield "resources", "LCL", Setting(resources="LCL"), THEIRS, 1
        return
    for resources, z in (("CCL", 1.0), ("LCL", 1.0), ("LLL", 1.0), ("LQL", 1.0), ("LQL", 0.5)):
        x = resources if z == 1 else f"{resources}, z = {z:g}"
        setting = Setting(resources=resources, z=z)
        yield "resources", x, setting, THEIRS, RUNS
        if few := {"LLL": RUNS, "LCL": FEW}.get(x):
            yield "resources", x, setting, ("frontier",), few
    yield from _sweeps()
    yield from _readings()


def _sweeps() -> Iterator[Experiment]:
    for resources, skews in (("LCL", (0.4, 0.8)), ("LLL", (0.4, 0.8)), ("LQL", (0.25, 0.4))):
        for z in skews:
            names = NAMES if resources == "LLL" else THEIRS
            yield "skew", f"{resources} {z:g}", Setting(resources=resources, z=z), names, RUNS
    for sigma in (0.008, 0.03, 0.3, 1.0):
        setting = Setting(resources="LCL", sigma=sigma)
        yield "threshold", f"{sigma:g}", setting, ("scan", "redist"), RUNS
        # At 0.008 its last step alone takes 5 s.
        yield "threshold", f"{sigma:g}", setting, ("readj",), FEW if sigma < 0.01 else RUNS
    for count in (5, 20, 32):
        setting = Setting(resources="LCL", channels=count)
        yield "channels", str(count), setting, THEIRS, RUNS
    for resources, utility in itertools.product(("LCL", "LLL", "LQL"), UTILITIES):
        setting = Setting(resources=resources, utility=utility)
        yield "utility", f"{resources} {utility}", setting, ("redist", "readj"), RUNS
    for keys in (10**4, 10**5):
        yield "domain", f"{keys:,}", Setting(keys=keys, resources="LCL"), THEIRS, RUNS


def _readings() -> Iterator[Experiment]:
    readings = {
        "LCL 4.4": ("LCL", (("constant", False),)),
        "LLL epsilon": ("LLL", (("epsilon", 0.1),)),
        "LCL epsilon": ("LCL", (("epsilon", 0.1),)),
    }
    for x, (resources, reading) in readings.items():
        yield "reading", x, Setting(resources=resources, reading=reading), TRACKING, RUNS
    for resources in ("LCL", "LLL", "LQL"):
        setting = Setting(resources=resources, reading=(("moves", 5),))
        yield "reading", f"{resources} c = 5", setting, ("readj",), RUNS
    for slots in (4096, 65536):
        setting = Setting(resources="LCL", slots=slots)
        yield "slots", f"{slots:,}", setting, ("consistent", *TRACKING), RUNS


def measured(name: str, setting: Setting, runs: int) -> dict[str, Floats]:
    """Return each measure at the last step, float64 (runs,)."""
    ends = [list(grow(name, setting, seed))[-1] for seed in range(runs)]
    return {key: np.array([end[key] for end in ends], dtype=np.float64) for key in ends[0]}


def line_of(x: str, name: str, found: dict[str, Floats], said: str) -> str:
    """Format a row of a table."""
    mean = {key: float(values.mean()) for key, values in found.items()}
    errors = {key: error(found[key]) for key in ("b", "m")}
    each = "".join(f"{mean[k]:>8.3f}" for k in ("b_s", "b_c", "b_n"))
    return (
        f"{x:14}{name:11}{len(found['b']):>5}{mean['b']:>8.3f}{errors['b']:>7.3f}{each}"
        f"{mean['m']:>7.2f}{errors['m']:>6.2f}{mean['explicit']:>7.0f}{mean['seconds']:>8.3f}"
        f"   {said}"
    ).rstrip()


def main(arguments: list[str]) -> None:
    """Print a table, or with --json a line for each row."""
    as_json, quick, shown, rows = "--json" in arguments, "--quick" in arguments, "", Rows()
    for figure, x, setting, names, runs in experiments(quick):
        if figure != shown and not as_json:
            print(f"\n{TITLES[figure]}\n{'':25}{'runs':>5}{'b':>8}{'se':>7}{'b_s':>8}{'b_c':>8}"
                  f"{'b_n':>8}{'m':>7}{'se':>6}{'keys':>7}{'CPU s':>8}   paper")  # fmt: skip
        shown = figure
        for name in names:
            rows[figure, x, name] = found = measured(name, setting, runs)
            said = PUBLISHED.get((figure, x, name), "")
            if as_json:
                mean = {key: float(values.mean()) for key, values in found.items()}
                row = {"figure": figure, "x": x, "strategy": name, **mean, "paper": said}
                print(json.dumps(row), flush=True)
                continue
            print(line_of(x, name, found, said), flush=True)
    if not (as_json or quick):
        print(f"\n{'Fig.  the paper on these tables':60}ours")
        for number, words, ours in told(rows):
            print(f"{number:6}{words:54}{ours}")


if __name__ == "__main__":
    main(sys.argv[1:])
