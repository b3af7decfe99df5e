"""Golden plans: small clusters in, whole plans out, each with what it is there to show.

A plan that changes shows up here as a difference to read, and to accept or not.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.planning.plan import make_plan
from partitioning.workload.profile import Profile

CASES = sorted((Path(__file__).parent / "golden").glob("*.json"))


def planned(case):
    """The plan for a case; its heavy keys are given as hash -> [load, bytes]."""
    heavy = {int(h): values for h, values in sorted(case["heavy"].items(), key=lambda i: int(i[0]))}
    key = (KeyColumn("k", "bigint"),)
    load, size = np.array(case["slot_load"], float), np.array(case["slot_bytes"], float)
    profile = Profile(
        key=key,
        load=load,
        bytes=size,
        rows=size / 10,
        heavy=np.array(list(heavy), dtype=np.int64),
        heavy_load=np.array([v[0] for v in heavy.values()], float),
        heavy_bytes=np.array([v[1] for v in heavy.values()], float),
        heavy_rows=np.array([v[1] / 10 for v in heavy.values()], float),
        heavy_names=tuple(f"key {h}" for h in heavy),
    )
    previous = PartitioningFunction(
        key, numbered_channels(max(case["owners"]) + 1), np.array(case["owners"])
    )
    channels = [Channel(str(i), float(c)) for i, c in enumerate(case["channels"])]
    budget = case["options"].get("budget")
    aim = case["options"].get("max_imbalance")
    return make_plan("golden", profile, previous, channels, budget=budget, max_imbalance=aim)


def said(plan):
    """What of a plan is golden."""
    whole = plan.to_dict()
    names = ("imbalance_before", "imbalance_after", "floor", "bytes", "loads_after", "moves")
    return json.loads(json.dumps({name: whole[name] for name in names}))


@pytest.mark.parametrize("file", CASES, ids=lambda f: f.stem)
def test_plan_is_as_it_was(file):
    case = json.loads(file.read_text())
    found = said(planned(case))
    assert [m["name"] for m in found["moves"]] == [m["name"] for m in case["plan"]["moves"]]
    for name, value in found.items():
        expected = case["plan"][name]
        assert value == (expected if name == "moves" else pytest.approx(expected)), name


def test_there_are_golden_plans():
    assert len(CASES) >= 8
