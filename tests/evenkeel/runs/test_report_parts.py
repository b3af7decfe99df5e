"""The parts of a report are read from the run's files, torn ones too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evenkeel.registry.epochs import Registry
from evenkeel.registry.store import RESTORE
from evenkeel.runs.record import RunParts, headline, read_run
from evenkeel.runs.report import report_page
from partitioning.errors import DamagedError
from tests.support.cases.records import DECISION, MIGRATION
from tests.support.cases.reports import PLAN
from tests.support.raw_json import write_json
from tests.support.worlds.shop import Shop


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
    """An earlier version's file, in a run that the update comes into, has no `back` or `moves`."""
    registry = Registry(str(tmp_path))
    run = registry.run("r")
    write_json(run, "plan.json", PLAN.to_dict())
    told = {"digest": PLAN.digest, "rows": 3, "planned": 7.0, "bytes": 90, "left": 2.5}
    for way, back in (({}, False), ({"back": False}, False), ({"back": True}, True)):
        write_json(run, "progress.json", told | way)
        progress = read_run("words", registry, run).progress
        known = {**told, "back": back, "moves": None, "moves_planned": None}
        assert progress is not None and progress.model_dump() == known
        assert progress.text(back) == f"3 of 7 rows moved{' back' if back else ''}"
    write_json(run, "progress.json", told | {"moves": 1, "moves_planned": 2})
    progress = read_run("words", registry, run).progress
    assert progress is not None and progress.text(False) == "1 of 2 moves done (3 of 7 rows)"
    for wrong in ({"back": 1}, {"rows": "3"}, {"digest": None}):
        write_json(run, "progress.json", told | wrong)
        with pytest.raises(DamagedError, match=r"progress\.json: .*: expected .*, found"):
            read_run("words", registry, run)


def test_a_run_whose_epoch_is_torn_has_published_it_all_the_same(shop: Shop) -> None:
    registry, run = shop.registry, shop.registry.run("r")
    epoch = shop.publish("r", force=True)
    other = registry.run("other")
    write_json(other, "plan.json", PLAN.to_dict())
    assert PLAN.function.epoch == epoch.number
    registry.store.write(f"epochs/{epoch.number:08d}/epoch.json", b"{")
    problems: list[str] = []
    parts = read_run("words", registry, run, problems)
    assert parts.plan is not None and parts.published == epoch.number
    assert len(problems) == 1 and "epoch.json" in problems[0]
    assert "went from epoch 0 to epoch 1" in headline(parts, ended=True)[0]
    assert read_run("words", registry, other, problems).published is None
    with pytest.raises(DamagedError, match=r"epoch\.json"):
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
    report_page(parts)
    if name == "params" and isinstance(left, dict):
        assert not problems
        return
    with pytest.raises(DamagedError, match=f"{name}.json") as raised:
        read_run("words", registry, run)
    fix = "Plan again" if name == "plan" else RESTORE
    assert fix in str(raised.value) and problems == [str(raised.value)]
    assert (parts.plan is None) is (name == "plan")
