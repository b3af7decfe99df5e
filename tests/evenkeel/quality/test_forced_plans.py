"""The gate on plans that a person's own placement, or fewer copies, forces to be less even."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenkeel.quality.gates import plan_gate
from partitioning.function.hashing import KeyColumn
from partitioning.planning.plan import make_plan
from tests.support.cases.gates import CHANNELS, PREVIOUS, PROFILE, failing, profile_of


@pytest.mark.parametrize(("count", "within"), [(2, True), (8, False)])
def test_keys_that_a_person_has_placed_may_be_less_even(count: int, within: bool) -> None:
    even = make_plan("words", PROFILE, PREVIOUS, CHANNELS, max_imbalance=1.0).function
    asked = {"options": {"pinned": {f"key {i}": "3" for i in range(count)}}, "max_imbalance": 1.3}
    plan = make_plan("words", PROFILE, even, CHANNELS, **asked)
    assert plan.imbalance_before < plan.imbalance_after
    assert (plan.imbalance_after <= 1.3) == within
    assert failing(plan_gate(plan, even, profile=PROFILE)) == set()
    # It has to be as even as it can be with them.
    fullest = int(np.argmax(plan.loads_after))
    loads = [x * (1.4 if i == fullest else 0.8) for i, x in enumerate(plan.loads_after)]
    worse = plan_gate(replace(plan, loads_after=tuple(loads)), even)
    assert "The channels are as even as asked, or as they can be" in failing(worse)


def test_keys_that_fewer_channels_may_share_may_be_less_even() -> None:
    hot = profile_of([9000.0, *(1000.0 / (1 + i) for i in range(1, 400))])
    asked = {"max_imbalance": 1.05, "row": KeyColumn("id", "bigint")}
    shared = make_plan("words", hot, PREVIOUS, CHANNELS, **asked, copies=4).function
    assert np.diff(shared.split.starts).max() > 2
    fewer = make_plan("words", hot, shared, CHANNELS, **asked, copies=2)
    assert fewer.imbalance_after > fewer.imbalance_before
    assert failing(plan_gate(fewer, shared, profile=hot)) == set()


@pytest.mark.parametrize("unit", [1.0, 1e-9])
def test_loads_of_any_unit_are_compared_with_the_profile(unit: float) -> None:
    profile = profile_of([unit * 1000.0, *[unit * 10.0] * 90])
    plan = make_plan("words", profile, PREVIOUS, CHANNELS, max_imbalance=1.05)
    what = "The loads that the plan predicts are those of the profile"
    assert what not in failing(plan_gate(plan, PREVIOUS, profile=profile))
    turned = replace(plan, loads_after=(*plan.loads_after[1:], plan.loads_after[0]))
    assert what in failing(plan_gate(turned, PREVIOUS, profile=profile))
