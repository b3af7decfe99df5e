"""The floor in a question for approval: with split keys, without them, and for a rollback."""

from __future__ import annotations

import numpy as np
import pytest

from evenkeel.pipeline import approval, steps
from evenkeel.runs.report import plan_facts
from partitioning.function.hashing import key_hash
from partitioning.workload.profile import Profile, profile_of_keys
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.shop import KEY, Shop

WHOLE, LEAST = "the least possible without splitting keys", "the least possible"


def one_heavy(load_of_it: float) -> Profile:
    """Return a profile of 64 words with load 1; the first has another load."""
    words = [f"word {i}" for i in range(64)]
    load = np.ones(64)
    load[0] = load_of_it
    hashes = key_hash([words], ["string"])
    return profile_of_keys(KEY, hashes, load, 64, state=np.full(64, 9.0), threshold=0.5)


def told(shop: Shop, run: str, split: bool) -> tuple[float, str]:
    """The floor of the run's plan and its note, which approval and pages give alike."""
    plan, asked = steps.read_plan(shop.registry.run(run)), approval.request(shop.spec, run)
    note = {name: each for name, _, each in plan_facts(plan, split)}["floor"]
    assert asked is not None and f"{plan.floor:.3f}: {note} |" in asked.body
    return plan.floor, note


@pytest.mark.parametrize("heaviest", [1.0, 90.0])
def test_the_floor_of_a_plan_says_whether_keys_may_be_split_for_it(
    shop: Shop, heaviest: float
) -> None:
    shop.respec(approve_over=0)
    shop.learn("r", one_heavy(heaviest))
    shop.plan(force=True)
    assert told(shop, "r", False) == (pytest.approx(max(1.0, heaviest * 4 / 153)), WHOLE)
    # The plan may split keys, whether it does (one key is too heavy) or not.
    shop.respec(approve_over=0, split={"by": "id"})
    shop.learn("s", one_heavy(heaviest))
    learned = read_json(shop.registry.run("s"), "profile.json")
    row = {"row": {"name": "id", "type": "bigint"}}
    write_json(shop.registry.run("s"), "profile.json", {**learned, **row})
    shop.plan("s", force=True)
    splits = len(steps.read_plan(shop.registry.run("s")).function.split) > 0
    assert splits == (heaviest > 1)
    assert told(shop, "s", True) == (1.0, LEAST)
    # The way back leads to whole keys, so its floor is one of whole keys.
    shop.verified("s")
    steps.publish(shop.spec, "s")
    shop.learn("back", one_heavy(heaviest))
    steps.plan_rollback(shop.spec, "back", 0)
    floor, note = told(shop, "back", True)
    assert note == (WHOLE if floor > 1 else LEAST) and (floor > 1) == (heaviest > 1)
