"""The page of a run: self-contained, escaped, whole with parts missing; and its pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel.registry.files.records import (
    Approval,
    ExpectationRecord,
    GateRecord,
    ParamsRecord,
)
from evenkeel.registry.store import RESTORE
from evenkeel.render.charts import NARROW, WIDE, loads_svg
from evenkeel.render.curve_chart import curve_svg
from evenkeel.render.formatting import (
    bytes_text,
    count_text,
    imbalance_text,
    observed_text,
    percent_text,
    seconds_text,
)
from evenkeel.runs.record import RunParts, headline, read_run
from evenkeel.runs.report import LISTED, page
from partitioning.errors import DamagedError
from partitioning.function.function import Channel, KeyColumn, numbered_channels
from partitioning.function.hashing import key_hash
from partitioning.moves.moves import Move
from partitioning.planning.decide import Decision
from partitioning.planning.plan import Plan, make_plan
from partitioning.strategies.hashing import consistent
from partitioning.workload.profile import profile_of_keys
from tests.support.raw_json import table_moved, write_json

SVG = "{http://www.w3.org/2000/svg}"
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
DECISION: dict[str, Any] = {
    "rebalance": True,
    "reason": "imbalance 1.620 is over the trigger, 1.1",
    "imbalance": 1.62,
    "reachable": 1.02,
    "floor": 1.0,
    "bytes": 12_345_678.0,
    "saved_seconds": 410.0,
    "cost_seconds": 8.0,
}
CHECK: dict[str, Any] = {
    "what": f"No {ATTACK} is lost",
    "expected": "0 rows",
    "detail": "",
    "severity": "critical",
    "observed": "1 of 3",
    "examples": [{"table": ATTACK}],
    "success": True,
}
DOCS = "data_docs/2013.run.before.passed.html"
GATE = GateRecord(success=True, results=[ExpectationRecord(**CHECK)], docs=DOCS)
FAILED = GateRecord(
    success=False, results=[ExpectationRecord(**CHECK | {"success": False})], docs=DOCS
)
TABLE = table_moved(after=5, rows=77, bytes=308_000, seconds=3.21)
MIGRATION = {"digest": PLAN.digest, "epoch": 1, "tables": {"words": TABLE}}
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
    html = page(WHOLE)
    text = text_of(html)
    assert "words went from epoch 0 to epoch 1" in text
    assert f"now carries {imbalance_text(PLAN.imbalance_after)}" in text
    assert "in 3.2 s" in text
    assert PLAN.digest in text
    assert "v3 v3 v5 77 308 kB 3.2 s" in text
    assert 'href="../../data_docs/2013.run.before.passed.html"' in html
    assert PLAN.moves[0].reason.split(",")[1] in text


def test_an_uncertain_forecast_is_told() -> None:
    why = "one window with load does not tell chance from drift"
    decision = Decision(**DECISION | {"uncertain": why})
    for parts in (
        replace(WHOLE, plan=replace(PLAN, uncertain=why)),
        RunParts("w", decision=decision),
    ):
        assert f"uncertain {why}" in text_of(page(parts))
    assert "uncertain" not in text_of(page(WHOLE))


def test_page_asks_no_other_host_and_runs_nothing() -> None:
    html = page(WHOLE)
    assert "<script" not in html
    assert "javascript:" not in html
    assert not re.search(r"<[^>]+\son\w+=", html)
    references = re.findall(r'(?:src|href|action|data)="([^"]*)"|url\(([^)]*)\)|@import', html)
    assert all(r[0].startswith("../../data_docs/") for r in references)
    # A namespace is a name, not a place.
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_everything_from_data_is_escaped() -> None:
    html = page(replace(WHOLE, gate_tables=FAILED, published=None, run=ATTACK))
    assert ATTACK not in html
    assert "alert(1)" in html


def test_page_is_the_same_each_time() -> None:
    assert page(WHOLE) == page(WHOLE)


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
            without(**NO_TABLES, rolled_back=True),
            "words: the move from epoch 0 to epoch 1 was rolled back",
            "The tables were not checked",
            "bad",
        ),
        (replace(WHOLE, rolled_back=False), "words went from epoch 0 to epoch 1", "3.2 s", "good"),
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
    assert title in text_of(page(parts))


def test_failed_expectation_stands_at_the_top_with_what_was_seen() -> None:
    text = text_of(page(without(gate_tables=FAILED)))
    assert text.index("is lost : expected 0 rows, observed 1 of 3") < text.index("Load per channel")


def test_only_the_largest_moves_are_listed() -> None:
    move = Move("slot", 1, "slot 1", 0, 1, 5.0, 4000.0, 1.0, "because")
    moves = tuple(replace(move, item=i, name=f"slot {i}") for i in range(10_000))
    text = text_of(page(without(plan=replace(PLAN, moves=moves))))
    assert text.count("because") == LISTED
    assert "9,800 more are in the plan" in text


def test_parts_are_read_from_the_run(tmp_path: Path) -> None:
    registry = Registry(str(tmp_path))
    run = registry.run("manual__2013-01-29T00:00:00+00:00")
    assert read_run("words", registry, run) == RunParts("words", run.name)
    write_json(run, "profile.json", {"epoch": 0, "seconds": 7.1, "tables": {"words": 3}})
    write_json(run, "decision.json", DECISION)
    write_json(run, "plan.json", PLAN.to_dict())
    write_json(run, "migration.json", MIGRATION)
    parts = read_run("words", registry, run)
    assert parts.epoch == 0
    assert parts.plan is not None
    assert parts.plan.digest == PLAN.digest
    assert parts.published is None
    assert parts.timings == {"learn": 7.1, "migrate words": 3.21}
    assert parts.rolled_back is None
    write_json(run, "rolled_back.json", {"digest": "another", "done": True})
    assert read_run("words", registry, run).rolled_back is None
    write_json(run, "rolled_back.json", {"digest": PLAN.digest, "done": True})
    assert read_run("words", registry, run).rolled_back is True


def test_how_far_a_migration_has_come_is_read_with_or_without_the_way(tmp_path: Path) -> None:
    """An earlier version's file, in a run that the update comes into, has no `back`."""
    registry = Registry(str(tmp_path))
    run = registry.run("r")
    write_json(run, "plan.json", PLAN.to_dict())
    told = {"digest": PLAN.digest, "rows": 3, "planned": 7.0, "bytes": 90, "left": 2.5}
    for way, back in (({}, False), ({"back": False}, False), ({"back": True}, True)):
        write_json(run, "progress.json", told | way)
        progress = read_run("words", registry, run).progress
        assert progress is not None and progress.model_dump() == {**told, "back": back}
    for wrong in ({"back": 1}, {"rows": "3"}, {"digest": None}):
        write_json(run, "progress.json", told | wrong)
        with pytest.raises(DamagedError, match=r"progress\.json: .*: expected .*, found"):
            read_run("words", registry, run)


@pytest.mark.parametrize("left", [{}, [], [1], None, 7, {"tables": {"words": 3}}])
@pytest.mark.parametrize(
    "name",
    [
        "plan",
        "profile",
        "decision",
        "gate_plan",
        "approval",
        "migration",
        "gate_tables",
        "rolled_back",
        "params",
    ],
)
def test_what_is_no_record_is_told_by_its_file(tmp_path: Path, name: str, left: Any) -> None:
    registry = Registry(str(tmp_path))
    run = registry.run("r")
    write_json(run, "plan.json", PLAN.to_dict())
    write_json(run, "decision.json", DECISION)
    write_json(run, f"{name}.json", left)
    problems: list[str] = []
    parts = read_run("words", registry, run, problems)
    page(parts)
    if name == "params" and isinstance(left, dict):
        assert not problems
        return
    with pytest.raises(DamagedError, match=f"{name}.json") as raised:
        read_run("words", registry, run)
    fix = "Plan again" if name == "plan" else RESTORE
    assert fix in str(raised.value) and problems == [str(raised.value)]
    assert (parts.plan is None) is (name == "plan")


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("count", [1, 10, 1000])
def test_pictures_are_svg_in_the_colours_and_font_of_the_page(count: int, width: int) -> None:
    names = [f'"{ATTACK} {i}' for i in range(count)]
    before, after = [float(i) for i in range(count)], [float(count) / 2] * count
    capacities = [1.0] * (count - 1) + [2.0]
    drawn = loads_svg(names, capacities, before, after, width=width)
    root = ElementTree.fromstring(drawn)
    assert root.get("viewBox", "").startswith(f"0 0 {width} ")
    assert "var(--after" in drawn
    assert "font-family" not in drawn
    assert "#0ba0" not in drawn
    assert ATTACK not in drawn
    assert len(drawn) < 40_000


def test_closed_channels_and_no_load_at_all_can_be_drawn() -> None:
    for loads in ([0.0, 0.0], [5.0, 0.0]):
        root = ElementTree.fromstring(loads_svg(["a", "b"], [1.0, 0.0], [1.0, 3.0], loads))
        titles = {t.text or "" for t in root.iter(f"{SVG}title")}
        for text in (f"channel a: 1 before, {loads[0]:g} after", "channel b: 3 before, 0 after"):
            assert any(title.startswith(text) for title in titles)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_curve_shows_every_level_even_where_they_meet(width: int) -> None:
    curve = [(i * 1e4, 1 + 1 / (1 + i)) for i in range(5000)]
    levels = [("floor", 1.0), ("target", 1.0), ("hashing", 1.9)]
    drawn = curve_svg(curve, curve[::100], curve[-1], levels, width=width)
    root = ElementTree.fromstring(drawn)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"floor 1.000", "target 1.000", "hashing 1.900", "state to move, MB"} <= set(texts)
    assert "1.000 for 50.0\u00a0MB" in texts
    assert len(drawn) < 60_000


def test_curve_without_points_can_be_drawn() -> None:
    root = ElementTree.fromstring(curve_svg([], [], (0.0, 1.0), [("floor", 1.0)]))
    texts = [t.text for t in root.iter(f"{SVG}text")]
    chosen = f"1.000 for {bytes_text(0)}"
    assert {"floor 1.000", chosen} <= set(texts)
    assert root.get("aria-label") == f"Imbalance against bytes moved; chosen: {chosen}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bytes_text(0), "0 bytes"),
        (bytes_text(1), "1 byte"),
        (bytes_text(999.6), "1.00 kB"),
        (bytes_text(12_345_678), "12.3 MB"),
        (bytes_text(308_000), "308 kB"),
        (seconds_text(3.21), "3.2 s"),
        (seconds_text(125), "2 min 5 s"),
        (seconds_text(3840), "1 h 4 min"),
        (imbalance_text(1.0184), "1.018"),
        (imbalance_text(float("inf")), "∞"),
        (count_text(336776.0), "336,776"),
        (count_text(0.2512), "0.251"),
        (percent_text(0.0321), "3.2 %"),
        (percent_text(0.104), "10 %"),
        (percent_text(0.0), "0 %"),
        (percent_text(1.0), "100 %"),
        (observed_text(None), "nothing"),
        (observed_text(1.09963), "1.0996"),
        (observed_text(9_099_517.0), "9,099,517"),
        (observed_text("0 of 4"), "0 of 4"),
    ],
)
def test_numbers_are_written_for_people(text: str, expected: str) -> None:
    assert text.replace("\u00a0", " ") == expected
