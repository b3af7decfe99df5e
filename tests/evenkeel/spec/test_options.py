"""Values of a spec that would mean something else, or with which nothing would ever happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evenkeel.spec.loading import load_spec
from partitioning.errors import InputError
from partitioning.strategies import PRODUCTION, hashing
from tests.support.cases.specs import write


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        # YAML reads NO as false, 007 as 7, and 2024-01-05 as a date.
        (
            {"options": {"pinned": {False: "1"}}},
            "frontier.pinned: expected keys as text, found False",
        ),
        (
            {"options": {"excluded": ["JFK", 812]}},
            "frontier.excluded: expected keys as text, found 812. .*in quotes",
        ),
        ({"options": {"budget": 5}}, "options: budget: set it in the spec itself"),
        ({"options": {"max_imbalance": 1.2}}, "options: max_imbalance: set it in the spec itself"),
        ({"options": {"splitting": True}}, "options: splitting: set it .* in `split`, instead"),
        ({"options": {"seconds": -1}}, "options: seconds: expected more than 0 seconds, got -1"),
        ({"options": {"resources": "Lx"}}, "options: resources: expected letters of L"),
        ({"strategy": "scan", "options": {"alpha": 0.5}}, "options: alpha: 0.5 tolerates"),
        ({"strategy": "consistent", "options": {"points": 0}}, "options: points: 0 points"),
        ({"strategy": "consistent", "options": {"points": 10**20}}, "Give 1 to 2097152"),
        ({"strategy": "consistent"}, "strategy: consistent needs a max_imbalance, as the gate"),
        (
            {"strategy": "redist", "max_imbalance": 1.2, "budget": 9},
            "budget: redist takes none; take the strategy frontier",
        ),
        ({"registry": ""}, "registry: must not be empty"),
        ({"input": {"path": ""}}, "input.path: must not be empty"),
    ],
)
def test_what_would_mean_something_else_is_refused(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        load_spec(write(tmp_path, **changed))


def chosen(strategy: str) -> dict[str, Any]:
    """Return the fields by which a spec chooses a strategy: all but one need an aim."""
    return {"strategy": strategy, **({} if strategy == "frontier" else {"max_imbalance": 1.2})}


def test_keys_in_quotes_are_taken(tmp_path: Path) -> None:
    named = {"pinned": {"812": "1", "NO": 2}, "excluded": ["007"]}
    assert load_spec(write(tmp_path, options=named)).options == named


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("frontier", {"seconds": 5, "resources": "LCQB"}),
        ("scan", {"alpha": 1.1, "utility": "APM"}),
        ("consistent", {"points": 1}),
        *((name, {}) for name in PRODUCTION),
    ],
)
def test_options_in_their_range_are_taken(
    tmp_path: Path, strategy: str, options: dict[str, Any]
) -> None:
    assert load_spec(write(tmp_path, options=options, **chosen(strategy))).options == options


def test_looks_must_come_between_the_runs_of_a_cron_expression(tmp_path: Path) -> None:
    watched = {"watch": {"every": 60}, "input": {"path": "x", "time": "at"}}
    with pytest.raises(InputError, match="watch.every: expected less than 60 minutes"):
        load_spec(write(tmp_path, schedule="0 * * * *", **watched))
    for schedule in ("0 2,3 * * *", "0 0 30 2 *", "@weekly"):
        assert load_spec(write(tmp_path, schedule=schedule, **watched)).watch


def test_options_are_tried_without_the_work_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each parse of a DAG file tries them: a ring of two million points takes a minute."""
    made: list[int] = []
    real = hashing.ring_slots
    monkeypatch.setattr(hashing, "ring_slots", lambda *given: made.append(given[2]) or real(*given))
    load_spec(write(tmp_path, options={"points": hashing.MOST_POINTS}, **chosen("consistent")))
    assert made == [1]
