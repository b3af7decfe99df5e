"""The page of a run: self-contained, escaped, whole with parts missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel.registry.files.outcome_records import ExpectationRecord, GateRecord
from evenkeel.registry.files.records import Approval, ParamsRecord
from evenkeel.render.formatting import (
    imbalance_text,
)
from evenkeel.runs.record import RunParts, headline
from evenkeel.runs.report import MOVES_LISTED, report_page
from partitioning.moves.moves import Move
from partitioning.planning.decide import Decision
from tests.support.cases.records import DECISION, MIGRATION
from tests.support.cases.reports import ATTACK, PLAN
from tests.support.wheel import ROOT

CHECK: dict[str, Any] = {
    "what": f"No {ATTACK} is lost",
    "expected": "0 rows",
    "detail": "",
    "severity": "critical",
    "observed": "1 of 3",
    "examples": [{"table": ATTACK}],
    "success": True,
}
MOMENT = "2013-01-29T08:00:04+01:00"
DOCS = "data_docs/2013.run.before.passed.html"
GATE = GateRecord(success=True, results=[ExpectationRecord(**CHECK)], docs=DOCS)
FAILED = GateRecord(
    success=False, results=[ExpectationRecord(**CHECK | {"success": False})], docs=DOCS
)
WHOLE = RunParts(
    table="words",
    run="manual__2013-01-29",
    epoch=0,
    decision=Decision(**DECISION),
    plan=PLAN,
    gate_plan=GATE,
    approval=Approval(approved=True, by=ATTACK, when="2013-01-29T07:00:00"),
    migration=MigrationRecord(**MIGRATION),
    gate_tables=GATE,
    published=1,
    timings={"learn": 7.1},
)


def text_of(html: str) -> str:
    """What a reader sees, spaces evened."""
    return " ".join(re.sub(r"<[^>]*>", " ", html.split("</style>")[1]).split())


def test_whole_page_says_what_happened() -> None:
    html = report_page(WHOLE)
    text = text_of(html)
    assert "words went from epoch 0 to epoch 1" in text
    assert f"now carries {imbalance_text(PLAN.imbalance_after)}" in text
    assert "in 3.2 s" in text
    assert PLAN.digest in text
    assert "v3 v3 v5 77 308 kB 3.2 s" in text
    assert 'href="../../data_docs/2013.run.before.passed.html"' in html
    assert PLAN.moves[0].reason.split(",")[1] in text


def test_times_are_written_as_on_every_page() -> None:
    html = report_page(replace(WHOLE, approval=Approval(approved=True, by="vic", when=MOMENT)))
    told = '<time datetime="2013-01-29T07:00:04Z">2013-01-29 07:00 UTC</time>.'
    assert f"Approved by vic, {told}" in " ".join(html.split())
    assert not re.search(r"\d{4}-\d\d-\d\dT", text_of(html).replace(WHOLE.run, ""))


def test_an_uncertain_forecast_is_told() -> None:
    why = "one window with load does not tell chance from drift"
    decision = Decision(**DECISION | {"uncertain": why})
    for parts in (
        replace(WHOLE, plan=replace(PLAN, uncertain=why)),
        RunParts("w", decision=decision),
    ):
        assert f"uncertain {why}" in text_of(report_page(parts))
    assert "uncertain" not in text_of(report_page(WHOLE))


def test_page_asks_no_other_host_and_runs_nothing() -> None:
    html = report_page(WHOLE)
    assert "<script" not in html
    assert "javascript:" not in html
    assert not re.search(r"<[^>]+\son\w+=", html)
    references = re.findall(r'(?:src|href|action|data)="([^"]*)"|url\(([^)]*)\)|@import', html)
    assert all(r[0].startswith("../../data_docs/") for r in references)
    # A namespace is a name, not a place.
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_everything_from_data_is_escaped() -> None:
    html = report_page(replace(WHOLE, gate_tables=FAILED, published=None, run=ATTACK))
    assert ATTACK not in html
    assert "alert(1)" in html


def test_page_is_the_same_each_time() -> None:
    """In another process, too, where sets and dicts hash otherwise."""
    code = (
        "import hashlib; from tests.evenkeel.runs.test_report import WHOLE, report_page\n"
        "print(hashlib.sha256(report_page(WHOLE).encode()).hexdigest())"
    )
    digests = {
        subprocess.check_output(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def without(**changes: Any) -> RunParts:
    return replace(WHOLE, published=None, **changes)


NO_TABLES: dict[str, Any] = {"migration": None, "gate_tables": None}
SKIPPED = RunParts(
    "words", epoch=4, decision=Decision(**DECISION | {"rebalance": False, "saved_seconds": None})
)


@pytest.mark.parametrize(
    ("parts", "title", "sentence", "tone"),
    [
        (RunParts("words"), "words: nothing decided yet", "not come to a decision", ""),
        (SKIPPED, "words stays at epoch 4", "Nothing moves: imbalance 1.620", ""),
        (
            RunParts("words", decision=Decision(**DECISION)),
            "words: nothing planned yet",
            "To rebalance",
            "",
        ),
        (
            RunParts("words", plan=PLAN),
            "words: a plan from epoch 0 to epoch 1",
            "Nothing has moved. The fullest channel carries",
            "",
        ),
        (
            without(**NO_TABLES, approval=None, params=ParamsRecord(dry_run=True)),
            "words: a dry run from epoch 0 to epoch 1",
            "Nothing has moved",
            "",
        ),
        (
            without(**NO_TABLES, approval=None, gate_plan=FAILED),
            "words: the plan from epoch 0 to epoch 1 did not pass",
            "Nothing moved",
            "bad",
        ),
        (
            without(**NO_TABLES, approval=Approval(approved=False, by="vic", when="today")),
            "words: the plan from epoch 0 to epoch 1 was refused",
            "Refused by vic: nothing moved",
            "bad",
        ),
        (
            without(gate_tables=FAILED),
            "words: the move from epoch 0 to epoch 1 did not pass",
            "Epoch 0 stays the current one",
            "bad",
        ),
        (
            without(gate_tables=FAILED, rolled_back=True),
            "words: the move from epoch 0 to epoch 1 was rolled back",
            f"did not pass: No {ATTACK} is lost. Epoch 0 stays the current one",
            "bad",
        ),
        (
            without(rolled_back=False),
            "words: the move from epoch 0 to epoch 1 is being rolled back",
            "passed their checks, but a later step failed. Epoch 0",
            "bad",
        ),
        (
            without(gate_tables=None, rolled_back=True),
            "words: the move from epoch 0 to epoch 1 was rolled back",
            "The tables were not checked",
            "bad",
        ),
        (
            without(**NO_TABLES, rolled_back=True),
            "words: the plan from epoch 0 to epoch 1 was not carried out",
            "Nothing moved: the job that moves rows was refused",
            "bad",
        ),
        (replace(WHOLE, rolled_back=False), "words went from epoch 0 to epoch 1", "3.2 s", "good"),
        (replace(WHOLE, gate_plan=FAILED), "words went from epoch 0 to epoch 1", "3.2 s", "good"),
        (without(), "words is moving from epoch 0 to epoch 1", "Not published yet", ""),
        (WHOLE, "words went from epoch 0 to epoch 1", "3.2 s", "good"),
    ],
)
def test_page_stands_with_parts_missing(
    parts: RunParts, title: str, sentence: str, tone: str
) -> None:
    found = headline(parts)
    assert found[0] == title
    assert sentence in found[1].replace("\u00a0", " ")
    assert found[2] == tone
    ended = headline(parts, ended=True)
    assert ended[0] in text_of(report_page(parts))
    # The end of a run changes nothing, unless rows had begun to move.
    begun = parts.migration is not None and parts.published is None and not parts.rolled_back
    assert (ended != found) == begun


@pytest.mark.parametrize(
    ("parts", "title", "sentence"),
    [
        (
            without(gate_tables=None),
            "words was left half moved on the way from epoch 0 to epoch 1",
            "The run ended, and neither published the epoch nor moved the rows back. "
            "The tables were not checked",
        ),
        (
            without(gate_tables=FAILED),
            "words was left half moved on the way from epoch 0 to epoch 1",
            f"The tables did not pass: No {ATTACK} is lost.",
        ),
        (
            without(rolled_back=False),
            "words: the move from epoch 0 to epoch 1 was not rolled back to the end",
            "passed their checks, but a later step failed. Epoch 0",
        ),
    ],
)
def test_a_run_that_has_ended_half_way_says_so_in_red(
    parts: RunParts, title: str, sentence: str
) -> None:
    """The report is written whatever failed before: also if roll_back died before its mark."""
    found = headline(parts, ended=True)
    assert (found[0], found[2]) == (title, "bad") and sentence in found[1].replace("\u00a0", " ")
    text = text_of(report_page(parts))
    assert title in text and "is moving" not in text and "is being rolled back" not in text


def test_failed_expectation_stands_at_the_top_with_what_was_seen() -> None:
    text = text_of(report_page(without(gate_tables=FAILED)))
    assert text.index("is lost : expected 0 rows, observed 1 of 3") < text.index("Load per channel")


def test_only_the_largest_moves_are_listed() -> None:
    move = Move("slot", 1, "slot 1", 0, 1, 5.0, 4000.0, 1.0, "because")
    moves = tuple(replace(move, item=i, name=f"slot {i}") for i in range(10_000))
    text = text_of(report_page(without(plan=replace(PLAN, moves=moves))))
    assert text.count("because") == MOVES_LISTED
    assert "9,800 more are in the plan" in text
