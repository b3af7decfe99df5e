"""Measure the CPU time from sketches of days to a whole plan: forecast, decision and plan.

The stream has 1,000 heavy keys whose shares drift, and light keys in 4,096 slots, over 28 days.

    python -m benchmarks.planning.plan_speed
"""

from __future__ import annotations

import time

import numpy as np

from partitioning.function.channels import numbered_channels
from partitioning.planning.aims import aim_for
from partitioning.planning.decide import Policy, decide
from partitioning.planning.plan import Plan, make_plan
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.forecast import forecast
from partitioning.workload.profile import Profile, Sketch, profile_of_keys

HEAVY, SLOTS, DAYS = 1_000, 4_096, 28
CHANNELS = (10, 20, 100)
#: Light keys, and rows a day.
LIGHT, ROWS = 20_000, 2_000_000
#: CPU seconds that a plan may take.
TARGET = 1.0


def days(z: float = 0.8, drift: float = 0.2, seed: int = 1) -> list[Sketch]:
    """Return a sketch a day, which list the 1,000 keys that are heaviest at first."""
    random, hashes = np.random.default_rng(seed), hashed_keys(HEAVY + LIGHT)
    shares, found = zipf(HEAVY + LIGHT, z), []
    for _ in range(DAYS):
        shares = shares * random.lognormal(0, drift, len(shares))
        load = random.poisson(ROWS * shares / shares.sum()).astype(np.float64)
        profile = profile_of_keys(KEY, hashes, load, SLOTS, threshold=np.inf, listed=hashes[:HEAVY])
        found.append(profile.sketch())
    return found


def timed(sketches: list[Sketch], channels: int) -> tuple[float, Plan]:
    """Return the CPU seconds of forecast, decision and plan, and the plan."""
    last, load, heavy = sketches[-1], sketches[-1].load, sketches[-1].heavy_load
    merged = Profile(KEY, load, load, load, last.heavy, heavy, heavy, heavy, last.heavy_names)
    before = uniform(merged, None, numbered_channels(channels))
    began = time.process_time()
    profile = forecast(sketches).onto(merged, before)
    aim = aim_for(profile, before, before.channels)
    decide(profile, before, before.channels, Policy(1.1, aim, 28))
    plan = make_plan("speed", profile, before, before.channels, max_imbalance=aim)
    return time.process_time() - began, plan


def main() -> None:
    """Print a line for each number of channels and each stream."""
    print(f"{'channels':>8}{'drift':>7}{'z':>5}{'imbalance':>20}{'moved':>8}{'CPU seconds':>13}")
    for z, drift in ((0.8, 0.2), (0.8, 0.0), (1.1, 0.5)):
        sketches = days(z, drift)
        for channels in CHANNELS:
            seconds, plan = timed(sketches, channels)
            even = f"{plan.imbalance_before:.3f} to {plan.imbalance_after:.3f}"
            moved = plan.bytes / plan.state_bytes
            print(f"{channels:>8}{drift:>7g}{z:>5g}{even:>20}{moved:>8.2%}{seconds:>13.2f}")


if __name__ == "__main__":
    main()
