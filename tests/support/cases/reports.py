"""A plan of many keys, one of which is markup."""

from __future__ import annotations

import numpy as np

from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.planning.plan import Plan, make_plan
from partitioning.strategies.hashing import consistent
from partitioning.workload.profile import profile_of_keys

ATTACK = "<script>alert(1)</script>"


def plan_of(names: list[str], *, slots: int = 128) -> Plan:
    load = np.array([1000.0 / (1 + i) for i in range(len(names))])
    profile = profile_of_keys(
        (KeyColumn("word", "string"),),
        key_hash([names], ["string"]),
        load,
        slots,
        state=np.full(len(names), 4000.0),
        threshold=float(load.sum()) / 400,
        names=names,
    )
    channels = (Channel(ATTACK), *numbered_channels(3))
    previous = consistent(profile, None, channels)
    return make_plan("words", profile, previous, channels, max_imbalance=1.02, tables={"words": 3})


PLAN = plan_of([f"{ATTACK}{i}" for i in range(300)])
