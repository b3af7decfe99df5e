"""The floor in a question for approval, and a plan that is made again while one is weighed."""

from __future__ import annotations

import numpy as np
import pytest

from evenkeel.pipeline import approval, steps
from evenkeel.runs.report import plan_facts
from partitioning.errors import FenceError
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


def test_a_plan_that_is_made_again_meanwhile_is_neither_asked_about_nor_passed(shop: Shop) -> None:
    shop.respec(approve_over=0)
    first = shop.plan()
    run = shop.registry.run("r")
    moment = "2026-01-01T00:00:00+00:00"
    # Somebody clears `plan` while `approve` runs.
    shop.learn("r", one_heavy(9.0))
    assert shop.plan() != first
    with pytest.raises(FenceError, match="another one since.*clear approve"):
        approval.ask(shop.spec, "r", first)
    with pytest.raises(FenceError, match="another one since.*clear approve"):
        approval.record(shop.spec, "r", True, "the spec's limit", moment)
    assert run.question.find() is None and run.approval.find() is None
    approval.record(shop.spec, "r", False, "op", moment)
    shop.respec(approve_over=10**9)
    approval.record(shop.spec, "r", True, "the spec's limit", moment)
    assert run.approval.read().approved
