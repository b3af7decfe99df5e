"""A plan of many keys, one of which is markup."""

from __future__ import annotations

import numpy as np

from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.planning.plan import Plan, make_plan
from partitioning.strategies.hashing import consistent
from partitioning.workload.profile import Profile, profile_of_keys

ATTACK = "<script>alert(1)</script>"


CHANNELS = (Channel(ATTACK), *numbered_channels(3))


def profile_of(names: list[str], slots: int = 128) -> Profile:
    load = np.array([1000.0 / (1 + i) for i in range(len(names))])
    return profile_of_keys(
        (KeyColumn("word", "string"),),
        key_hash([names], ["string"]),
        load,
        slots,
        state=np.full(len(names), 4000.0),
        threshold=float(load.sum()) / 400,
        names=names,
    )


def plan_of(names: list[str], *, slots: int = 128) -> Plan:
    profile = profile_of(names, slots)
    previous = consistent(profile, None, CHANNELS)
    return make_plan("words", profile, previous, CHANNELS, max_imbalance=1.02, tables={"words": 3})


NAMES = [f"{ATTACK}{i}" for i in range(300)]
PLAN = plan_of(NAMES)
#: The function of epoch 0, from which that plan starts.
BEFORE = consistent(profile_of(NAMES), None, CHANNELS)
