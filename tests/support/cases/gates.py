"""A profile with a hot key, a good plan for it, and counts of its tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenkeel.quality.expectations import GateResult
from partitioning.function.channels import numbered_channels
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.planning.plan import make_plan
from partitioning.strategies.hashing import consistent
from partitioning.workload.profile import Profile, profile_of_keys

SLOTS = 128
CHANNELS = numbered_channels(4)


def profile_of(loads: list[float]) -> Profile:
    keys = [f"key {i}" for i in range(len(loads))]
    load = np.array(loads, dtype=np.float64)
    return profile_of_keys(
        (KeyColumn("word", "string"),),
        key_hash([keys], ["string"]),
        load,
        SLOTS,
        state=np.full(len(keys), 100.0),
        threshold=float(load.sum()) / 50,
        names=keys,
    )


PROFILE = profile_of([1000.0 / (1 + i) for i in range(400)])
PREVIOUS = consistent(PROFILE, None, CHANNELS)
PLAN = make_plan("words", PROFILE, PREVIOUS, CHANNELS, max_imbalance=1.05, tables={"words": 3})


def failing(gate: GateResult) -> set[str]:
    return {r.what for r in gate.results if not r.success}


HOT = profile_of([4000.0, *(1000.0 / (1 + i) for i in range(1, 400))])
COUNTS: list[dict[str, Any]] = [
    {"channel": c, "rows_predicted": 99.6, "rows": 100} for c in range(4)
]
