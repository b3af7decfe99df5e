"""When the daily run comes, and which runs may move state meanwhile."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.pipeline import steps
from evenkeel.runs.learning import mark_learning
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.watch import mitigation
from partitioning.errors import DamagedError
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Limits, Mitigation
from tests.support.cases.watch_state import decided, heaviest
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.shop import Shop


def test_what_a_decision_relieves_is_told_of_shared_and_of_whole_keys(shop: Shop) -> None:
    known, (key, home) = decided(shop), heaviest(shop)
    assert known.decided is not None
    function, limits = shop.registry.current().function, Limits(eta=1.5)

    def loads(after: Controller) -> tuple[list[float], list[float]]:
        found = mitigation.relieved(function, known.watch, after, limits)
        return found[0].tolist(), found[1].tolist()

    now = [500.0 if c == home else 100.0 for c in range(4)]
    assert loads(known.decided.after) == (now, pytest.approx([200.0] * 4))
    whole = replace(known.watch, spread={key: Mitigation(home, (), {(home + 1) % 4: 1.0}, 0)})
    then = [500.0 if c == (home + 1) % 4 else 100.0 for c in range(4)]
    assert loads(whole) == (now, then)
    # It has one owner, and is told as one that went.
    assert mitigation.owners({key: {(home + 1) % 4: 1.0}}, whole) == {key: {(home + 1) % 4: 1.0}}
    names = {"channel": str, "key": lambda h: "K"}
    told = mitigation.reason(7, whole, {key: {(home + 1) % 4: 1.0}}, **names)
    assert told.endswith(f"K goes to channel {(home + 1) % 4}: its channel has too much")
    back = mitigation.reason(8, known.watch, {key: {home: 1.0}}, **names)
    assert back.endswith(f"K goes back to channel {home}: its skew is gone")


def test_how_long_it_is_until_the_daily_run(shop: Shop) -> None:
    spec = load_spec(shop.spec)
    evening = datetime(2026, 1, 1, 22, 30, tzinfo=UTC)

    def due(schedule: str | list[str] | None) -> float:
        return mitigation.batches_left(spec.model_copy(update={"schedule": schedule}), evening, 5)

    assert due("@daily") == 18 and due("45 22 * * *") == 3
    assert due(None) == due("@once") == due("@continuous") == math.inf
    assert due(["s3://lake/events"]) == due([""]) == math.inf


def test_a_run_that_has_planned_and_may_move_state(shop: Shop) -> None:
    def planned() -> str | None:
        told = mitigation.daily_run_under_way("words", shop.registry, shop.registry.current())
        assert told in (None, "run r has planned from epoch 0")
        return told and "r"

    shop.respec()
    assert planned() is None
    shop.plan("r", force=True)
    assert planned() == "r"
    run = shop.registry.run("r")
    for file, said in (
        ("approval.json", {"approved": False, "by": "vic", "when": "now"}),
        ("gate_plan.json", {"success": False, "suite": "before", "results": [], "docs": None}),
        ("params.json", Params(dry_run=True).model_dump(mode="json")),
    ):
        kept = run.read(file) if run.exists(file) else None
        write_json(run, file, said)
        assert planned() is None, file
        run.remove(file)
        if kept is not None:
            run.write(file, kept)
        assert planned() == "r"
    digest = steps.read_plan(run).digest
    for done, name in ((False, "r"), (True, None)):
        write_json(run, "rolled_back.json", {"digest": digest, "done": done})
        assert planned() == name
    run.remove("rolled_back.json")
    shop.verified()
    steps.publish(shop.spec, "r")
    assert planned() is None


def test_a_run_that_learns_and_may_plan(shop: Shop) -> None:
    def learns() -> bool:
        told = mitigation.daily_run_under_way("words", shop.registry, shop.registry.current())
        return told == "run r learns at epoch 0"

    shop.respec()
    run, now = shop.registry.run("r"), datetime.now(UTC)
    # It learns again: what an earlier attempt has left says nothing of it.
    shop.plan("r", force=True)
    profile = run.read("profile.json")
    decision = read_json(run, "decision.json")
    write_json(run, "decision.json", decision | {"rebalance": False})
    write_json(run, "approval.json", {"approved": False, "by": "vic", "when": "now"})
    mark_learning(run, shop.registry.current())
    assert learns()
    run.write("profile.json", profile)
    assert not learns(), "its plan is what counts from here on"
    run.remove("plan.json")
    for said in (True, False):
        write_json(run, "decision.json", decision | {"rebalance": said})
        assert learns() is said
    run.remove("decision.json")
    # Another epoch's; killed long ago.
    for epoch, hours, expected in ((1, 0, False), (0, 5, True), (0, 7, False)):
        at = (now - timedelta(hours=hours)).isoformat()
        write_json(run, "learning.json", {"epoch": epoch, "at": at})
        assert learns() is expected
    for torn in ("noon", "2026-01-01"):
        write_json(run, "learning.json", {"epoch": 0, "at": torn})
        with pytest.raises(DamagedError, match=r"learning\.json: at: expected a valid datetime"):
            learns()
