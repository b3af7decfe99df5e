"""Publishing: what stops it, verdicts on attempts, and a crash right after it."""

from __future__ import annotations

from typing import Any

import pytest

from evenkeel.pipeline import plan_file, steps
from evenkeel.pipeline.publish import publish_checked
from evenkeel.registry import verdict
from evenkeel.spec.loading import load_spec
from partitioning.errors import FenceError, GateError
from tests.support.raw_json import write_json
from tests.support.worlds.shop import Shop


def test_the_second_of_two_runs_publishes_nothing(shop: Shop) -> None:
    shop.plan("r")
    shop.checked("r")
    shop.publish("other", strategy="uniform")
    with pytest.raises(FenceError, match="already published by another run"):
        shop.look_and_publish("r")
    with pytest.raises(FenceError, match="already published by another run"):
        steps.publish(shop.spec, "r")
    assert shop.registry.numbers() == [0, 1]


def test_tables_that_did_not_pass_are_not_published(shop: Shop) -> None:
    shop.plan()
    shop.checked(success=False)
    for publish in (shop.look_and_publish, lambda: steps.publish(shop.spec, "r")):
        with pytest.raises(GateError, match="did not pass"):
            publish()
    assert shop.registry.numbers() == [0]


def rolled_back(shop: Shop, done: bool) -> str:
    """What roll_back leaves; returns the plan's digest."""
    run = shop.registry.run("r")
    digest = steps.read_plan(run).digest
    write_json(run, "rolled_back.json", {"digest": digest, "done": done})
    return digest


@pytest.mark.parametrize("done", [False, True])
def test_a_run_that_was_rolled_back_is_not_published(shop: Shop, done: bool) -> None:
    shop.plan()
    shop.checked()
    rolled_back(shop, done)
    for publish in (shop.look_and_publish, lambda: steps.publish(shop.spec, "r")):
        with pytest.raises(FenceError, match="rolled back. Start a new run"):
            publish()
    assert shop.registry.numbers() == [0]


def test_the_step_publish_creates_no_epoch(shop: Shop) -> None:
    """Who does has looked at the tables just before."""
    shop.plan()
    shop.checked()
    with pytest.raises(FenceError, match="Clear the task verify of this run"):
        steps.publish(shop.spec, "r")
    assert shop.registry.numbers() == [0]
    shop.look_and_publish()
    assert steps.publish(shop.spec, "r") == 1


def test_of_publish_and_roll_back_the_first_verdict_holds(shop: Shop) -> None:
    digest, run = shop.plan(), shop.registry.run("r")
    shop.checked()
    looks: list[int] = []

    def look() -> dict[str, int]:
        """A publish that sleeps after its first look, while roll_back comes and goes."""
        looks.append(1)
        assert verdict.settle(run, digest, 1, verdict.ROLL_BACK) == verdict.ROLL_BACK
        return {"counts": 9}

    made, spec = steps.read_plan(run), load_spec(shop.spec)
    with pytest.raises(FenceError, match="rolled back"):
        publish_checked(spec, shop.registry, run, made, 1, look)
    assert len(looks) == 1 and shop.registry.numbers() == [0]
    verdict.mark(run, digest, 1, done=True)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(1, verdict.ROLL_BACK, True)
    assert verdict.begin_attempt(run, digest, 2)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(2, None, False)
    # What is left of the first attempt still finds its own verdict, and its mark says nothing.
    write_json(run, "migration.json", {"digest": digest, "epoch": 1, "tables": {}})
    verdict.mark(run, digest, 1, done=True)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(2, None, False)
    with pytest.raises(FenceError, match="has begun to move rows"):
        shop.plan(strategy="uniform")
    with pytest.raises(FenceError, match="of attempt 1, expected 2"):
        shop.look_and_publish(number=2)
    shop.checked(attempt=2)
    with pytest.raises(FenceError, match="rolled back"):
        shop.look_and_publish(number=1)
    assert shop.look_and_publish(number=2).number == 1
    assert verdict.settle(run, digest, 2, verdict.ROLL_BACK) == verdict.PUBLISH


def test_a_plan_that_took_long_replaces_none_by_which_rows_move(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt of the task plans, and rows begin to move, while this one prices its plan."""
    real, run = plan_file.keep_prediction, shop.registry.run("r")

    def late(*args: Any) -> None:
        real(*args)
        monkeypatch.undo()
        write_json(run, "migration.json", {"digest": shop.plan(), "epoch": 1, "tables": {}})

    monkeypatch.setattr(plan_file, "keep_prediction", late)
    with pytest.raises(FenceError, match="has begun to move rows"):
        shop.plan(strategy="uniform")
    assert steps.read_plan(run).digest == run.migration.read().digest


def test_attempts_never_go_back(shop: Shop) -> None:
    """A job that read an old number, and wakes long after, begins no attempt again."""
    digest, run = shop.plan(), shop.registry.run("r")
    for number in (1, 2):
        verdict.settle(run, digest, number, verdict.ROLL_BACK)
        verdict.mark(run, digest, number, done=True)
        assert verdict.begin_attempt(run, digest, number + 1)
    assert not verdict.begin_attempt(run, digest, 2)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(3, None, False)
    verdict.settle(run, digest, 3, verdict.ROLL_BACK)
    verdict.mark(run, digest, 3, done=True)
    assert not verdict.begin_attempt(run, digest, 2)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(3, verdict.ROLL_BACK, True)


def test_what_is_decided_to_be_published_asks_for_no_results(shop: Shop) -> None:
    digest, run = shop.plan(), shop.registry.run("r")
    shop.checked()
    verdict.settle(run, digest, 1, verdict.PUBLISH)
    shop.checked(success=False)
    run.verify.remove()
    assert shop.look_and_publish().number == 1


def test_a_mark_on_another_plan_or_a_published_one_stops_nothing(shop: Shop) -> None:
    shop.plan()
    shop.checked()
    write_json(shop.registry.run("r"), "rolled_back.json", {"digest": "another", "done": True})
    shop.look_and_publish()
    assert steps.publish(shop.spec, "r") == 1
    rolled_back(shop, done=False)
    assert steps.publish(shop.spec, "r") == 1


def test_a_plan_that_rows_move_by_is_not_overwritten(shop: Shop) -> None:
    digest = shop.plan()
    run = shop.registry.run("r")
    planned = run.read("plan.json")
    write_json(run, "migration.json", {"digest": digest, "epoch": 1, "tables": {}})
    for done in (None, False):
        if done is not None:
            rolled_back(shop, done)
        with pytest.raises(FenceError, match=f"Run roll_back of run r with digest {digest} first"):
            shop.plan(strategy="uniform")
        assert run.read("plan.json") == planned
    assert shop.plan() == digest
    rolled_back(shop, done=True)
    assert shop.plan(strategy="uniform") != digest
