"""The gate on a plan: each expectation fails when what it is about is doctored, and is named."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

from evenkeel.quality.data_docs import leave_docs
from evenkeel.quality.expectations import expect, validate
from evenkeel.quality.gates import plan_gate
from evenkeel.quality.plan_suite import balance_limit
from evenkeel.registry.store import Store
from partitioning.errors import GateError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.hashing import KeyColumn
from partitioning.planning.aims import aim_by_chance
from partitioning.planning.plan import CurvePoint, Plan, make_plan, plan_for
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import consistent
from partitioning.streams.zipf_stream import KEY, hashed_keys
from partitioning.workload.forecast import forecast
from partitioning.workload.profile import Profile, Sketch, profile_of_keys
from tests.support.cases.gates import (
    CHANNELS,
    HOT,
    PLAN,
    PREVIOUS,
    PROFILE,
    SLOTS,
    failing,
    profile_of,
)


def test_good_plan_passes_quietly_and_calls_nobody(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    gate = plan_gate(PLAN, PREVIOUS, profile=PROFILE)
    assert failing(gate) == set()
    assert gate.success
    assert gate.docs is None
    gate.check()
    told = capfd.readouterr()
    assert "Calculating" not in told.out + told.err


SHARED = make_plan(
    "words",
    HOT,
    PREVIOUS,
    CHANNELS,
    max_imbalance=1.05,
    tables={"words": 3},
    row=KeyColumn("id", "bigint"),
)


def test_a_plan_that_splits_a_key_passes() -> None:
    assert len(SHARED.function.split) == 1 and SHARED.imbalance_after <= 1.05
    gate = plan_gate(SHARED, PREVIOUS, profile=HOT)
    assert failing(gate) == set()
    # Whole again since the spec allows it no longer: less even, and as even as it can be.
    whole = make_plan("words", HOT, SHARED.function, CHANNELS, max_imbalance=1.05)
    assert whole.imbalance_after >= whole.floor > 1.5
    assert failing(plan_gate(whole, SHARED.function, profile=HOT)) == set()
    back = plan_for("words", HOT, SHARED.function, PREVIOUS, reason="back")
    assert failing(plan_gate(back, SHARED.function, profile=HOT, going_back=True)) == set()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"share": 0.001}, "The moves are exactly what differs between the two functions"),
        ({"source": 9}, "The moves are exactly what differs between the two functions"),
        ({"reason": " "}, "Nothing moves without a reason"),
        ({"target": -1}, "Every move goes to another channel"),
    ],
)
def test_a_doctored_share_fails(change: dict[str, Any], what: str) -> None:
    at = next(i for i, m in enumerate(SHARED.moves) if m.kind == "share")
    share = SHARED.moves[at]
    if change.get("target") == -1:
        change = {"target": share.source}
    moves = [*SHARED.moves[:at], replace(share, **change), *SHARED.moves[at + 1 :]]
    assert what in failing(plan_gate(replace(SHARED, moves=tuple(moves)), PREVIOUS))


def test_a_share_that_starts_where_nothing_is_or_moves_twice_fails() -> None:
    at = next(i for i, m in enumerate(SHARED.moves) if m.kind == "share")
    share = SHARED.moves[at]
    twice = replace(SHARED, moves=(*SHARED.moves, share))
    assert "No slot or key moves twice" in failing(plan_gate(twice, PREVIOUS))
    turned = replace(share, source=share.target, target=share.source)
    moves = (*SHARED.moves[:at], turned, *SHARED.moves[at + 1 :])
    found = failing(plan_gate(replace(SHARED, moves=moves), PREVIOUS))
    assert "Every move starts at the channel that owns the slot or key now" in found


@pytest.mark.parametrize(
    "key", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b"]
)
def test_a_key_of_data_is_no_markup_in_data_docs(tmp_path: Path, key: str) -> None:
    frame = pd.DataFrame({"word": [key, "teapot", key], "table": [key] * 3})
    checks = [
        expect(
            "words", "ExpectColumnValuesToBeInSet", key, key, column="word", value_set=["teapot"]
        ),
        expect(
            "words", "ExpectColumnDistinctValuesToBeInSet", key, key, column="word", value_set=["x"]
        ),
        expect("words", "ExpectColumnValuesToNotMatchRegex", key, key, column="table", regex=".*"),
    ]
    store = Store(str(tmp_path))
    gate = leave_docs(validate("before", {"words": frame}, checks), store, "r", PLAN)
    page = store.read(str(gate.docs)).decode()
    assert key not in page
    # Ours tells it as what is asked, and theirs as what was found.
    assert page.count(str(escape(key))) > 6
    # What is kept of the gate is the data as it is.
    assert key in json.dumps(gate.to_dict()["great_expectations"])


def test_result_is_plain_json_and_the_same_each_time() -> None:
    first, second = (
        json.dumps(plan_gate(PLAN, PREVIOUS).to_dict(), allow_nan=False) for _ in range(2)
    )
    assert first == second
    result = json.loads(first)
    assert result["success"] is True
    assert set(result["great_expectations"]) == {"channels", "placement", "moves", "plan"}
    assert all(r["what"] and r["expected"] and r["kwargs"] for r in result["results"])
    even = result["results"][0]
    assert even["observed"] == pytest.approx(PLAN.imbalance_after)


def test_plan_without_moves_passes() -> None:
    plan = plan_for("words", PROFILE, PREVIOUS, PREVIOUS, max_imbalance=3.0)
    assert plan.moves == ()
    assert failing(plan_gate(plan, PREVIOUS, profile=PROFILE)) == set()


def with_move(**changes: Any) -> Plan:
    """The plan with its first move doctored."""
    return replace(PLAN, moves=(replace(PLAN.moves[0], **changes), *PLAN.moves[1:]))


def lopsided(**options: Any) -> Plan:
    """A plan that puts everything on one channel."""
    function = replace(
        PREVIOUS, slots=np.zeros(SLOTS), explicit_keys=np.empty(0), explicit_channels=np.empty(0)
    )
    return plan_for("words", PROFILE, PREVIOUS, function, max_imbalance=1.05, **options)


def closed_but_loaded() -> Plan:
    channels = (Channel("0", 0.0), *CHANNELS[1:])
    return replace(PLAN, function=replace(PLAN.function, channels=channels))


def swapped(loads: tuple[float, ...]) -> tuple[float, ...]:
    order = np.argsort(loads)
    mixed = list(loads)
    mixed[order[0]], mixed[order[1]] = mixed[order[1]], mixed[order[0]]
    return tuple(mixed)


LAZY = plan_for("words", PROFILE, PREVIOUS, PREVIOUS, max_imbalance=1.05)
DOCTORED: dict[str, Callable[[], Plan]] = {
    "The channels are as even as asked, or as they can be": lambda: LAZY,
    "The channels are not less even than before": lopsided,
    "No function beats the floor": lambda: replace(PLAN, floor=2.0),
    "No load is lost and none appears": lambda: replace(
        PLAN, loads_before=tuple(2 * x for x in PLAN.loads_before)
    ),
    "Closed and dropped channels carry no load": closed_but_loaded,
    "Every slot and heavy key is owned by an open channel": closed_but_loaded,
    "The moves are exactly what differs between the two functions": lambda: replace(
        PLAN, moves=PLAN.moves[:-1]
    ),
    "Every move starts at the channel that owns the slot or key now": lambda: with_move(
        source=next(c for c in range(4) if c not in (PLAN.moves[0].source, PLAN.moves[0].target))
    ),
    "No slot or key moves twice": lambda: replace(PLAN, moves=(*PLAN.moves, PLAN.moves[0])),
    "Every move goes to another channel": lambda: with_move(target=PLAN.moves[0].source),
    "Nothing moves without a reason": lambda: with_move(reason="  "),
    "No move has negative load, bytes or rows": lambda: with_move(rows=-1.0),
    "The bytes of the moves add up to the plan's": lambda: replace(PLAN, bytes=PLAN.bytes + 50),
    "The plan starts from the epoch that it names": lambda: replace(PLAN, parent_digest="0" * 64),
    "The imbalance that the plan states is that of its loads": lambda: replace(
        PLAN, imbalance_after=1.0
    ),
    "The plan moves no more than the budget": lambda: replace(PLAN, budget=PLAN.bytes / 2),
    "The loads that the plan predicts are those of the profile": lambda: replace(
        PLAN, loads_after=swapped(PLAN.loads_after)
    ),
}


@pytest.mark.parametrize("what", DOCTORED)
def test_each_expectation_on_the_plan_can_fail_and_is_named(what: str) -> None:
    gate = plan_gate(DOCTORED[what](), PREVIOUS, profile=PROFILE)
    assert what in failing(gate)
    assert not gate.success
    with pytest.raises(GateError, match="^Plan checks: .*" + re.escape(what)):
        gate.check()


def test_every_expectation_on_the_plan_is_doctored_above() -> None:
    gate = plan_gate(replace(PLAN, budget=PLAN.bytes), PREVIOUS, profile=PROFILE)
    assert {r.what for r in gate.results} == set(DOCTORED)
    assert failing(gate) == set()


def test_going_back_may_be_less_even() -> None:
    assert failing(plan_gate(lopsided(), PREVIOUS, profile=PROFILE, going_back=True)) == set()


def test_changed_channels_may_be_less_even_than_before() -> None:
    heavy = profile_of([1000.0] + [10.0] * 90)
    previous = make_plan("w", heavy, consistent(heavy, None, CHANNELS[:2]), CHANNELS[:2]).function
    plan = make_plan("w", heavy, previous, CHANNELS, max_imbalance=1.05)
    assert plan.imbalance_after > plan.imbalance_before
    gate = plan_gate(plan, previous, profile=heavy)
    assert failing(gate) == set()
    assert "out of reach" in gate.results[0].detail


@pytest.mark.parametrize(
    ("aim", "budget", "limit", "why"),
    [
        (1.2, None, 1.2, "within reach"),
        (1.05, None, 1.105, "out of reach: the curve ends at 1.1000, the floor is 1.0900"),
        (1.2, 50.0, 1.505, "costs more than the budget"),
        (None, None, 1.105, "no aim"),
        (1.2, -1.0, 2.005, "costs more than the budget"),
    ],
)
def test_limit_is_the_aim_or_what_can_be_had(
    aim: float | None, budget: float | None, limit: float, why: str
) -> None:
    curve = (CurvePoint(0, 2.0), CurvePoint(40, 1.5), CurvePoint(90, 1.1))
    plan = replace(PLAN, max_imbalance=aim, budget=budget, curve=curve, floor=1.09)
    found, told = balance_limit(plan)
    assert found == pytest.approx(limit)
    assert why in told


def forecast_for(seed: int) -> Profile:
    """A forecast of 300 keys, from 14 days that are each off by some."""
    rng, hashes = np.random.default_rng(seed), hashed_keys(300)
    mean = rng.permutation(1e4 / np.arange(1, 301) ** 0.8)

    def day() -> Sketch:
        load = mean * np.exp(rng.normal(0, 0.3, len(mean)))
        return profile_of_keys(KEY, hashes, load, 128, threshold=10.0).sketch()

    ahead = forecast([day() for _ in range(14)])
    state = rng.integers(1, 100, len(mean)).astype(float)
    found = profile_of_keys(
        KEY, hashes, mean, 128, threshold=1e9, state=state, listed=ahead.sketch.heavy
    )
    return replace(ahead.onto(found), chance=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_for_a_forecast_passes_whatever_it_is_for(seed: int) -> None:
    profile, channels = forecast_for(seed), numbered_channels(8)
    weak = (*channels[:-1], Channel(channels[-1].name, 0.5))
    drained = (*channels[:-1], Channel(channels[-1].name, 0.0))
    previous = frontier(profile, None, channels)
    for aim in (None, 1.05, aim_by_chance(profile)):
        for wanted in (channels, numbered_channels(10), numbered_channels(7), weak, drained):
            plan = make_plan("words", profile, previous, wanted, max_imbalance=aim)
            gate = plan_gate(plan, previous, profile=profile)
            assert failing(gate) == set(), (plan.imbalance_before, plan.imbalance_after)


def test_a_plan_that_does_nothing_is_blocked_where_more_can_be_had() -> None:
    profile, channels = forecast_for(0), numbered_channels(8)
    uneven = consistent(profile, None, channels)
    idle = plan_for("words", profile, uneven, uneven)
    assert "The channels are as even as asked, or as they can be" in failing(
        plan_gate(idle, uneven, profile=profile)
    )
