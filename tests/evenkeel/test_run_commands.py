"""The console's list of runs, and the cost of one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from evenkeel.cli import app
from evenkeel.registry.epochs import Registry, TableVersion
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel.registry.files.records import ReleaseRecord
from partitioning.planning.decide import Decision
from tests.support.cases.records import DECISION, MIGRATION
from tests.support.cases.reports import BEFORE, PLAN

STAYS, MOVES = "rebalance_words--a__2013-01-29T01-00-00", "rebalance_words--b__2013-01-30T01-00-00"


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A table at epoch 0, with no run."""
    spec = {
        "table": "words",
        "key": ["word"],
        "input": {"path": "in.parquet"},
        "state": {"words": {"path": "state", "columns": {"n": {"merge": "count"}}}},
        "registry": "registry",
        "channels": 4,
    }
    (tmp_path / "words.yaml").write_text(yaml.safe_dump(spec))
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    registry = Registry(str(tmp_path / "registry"))
    registry.publish(BEFORE, {"words": TableVersion("state", 1)})
    return registry


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_runs_tells_newest_first_what_became_of_each(words: Registry) -> None:
    empty = asked("runs", "words", "--format", "json")
    assert (empty.exit_code, empty.stdout) == (0, "[]\n")
    words.run(STAYS).decision.write(Decision(**DECISION | {"rebalance": False, "reason": "flat"}))
    words.run(MOVES).plan.write(PLAN)
    first, second = json.loads(asked("runs", "words", "--format", "json").stdout)
    assert (first["run"], first["result"]) == (MOVES, "words: a plan from epoch 0 to epoch 1")
    assert first["bytes"] == PLAN.bytes and first["published"] is None
    assert second["run"] == STAYS and second["bytes"] is None
    shown = asked("runs", "words").stdout
    # A narrow console does not cut a name, which is there to be copied.
    assert MOVES in shown and STAYS in shown
    assert json.loads(asked("runs", "words", "--last", "1", "--format", "json").stdout) == [first]
    words.publish(PLAN.function, {"words": TableVersion("state", 2)}, PLAN.digest)
    assert "words went from epoch 0 to epoch 1" in asked("runs", "words").stdout


def test_a_torn_file_of_a_run_hides_no_other_run(words: Registry, tmp_path: Path) -> None:
    words.run(MOVES).plan.write(PLAN)
    words.run(STAYS).plan.write(PLAN)
    (tmp_path / "registry/runs" / STAYS / "plan.json").write_text("{")
    told = asked("runs", "words", "--format", "json")
    assert [each["run"] for each in json.loads(told.stdout)] == [MOVES, STAYS]
    (note,) = told.stderr.splitlines()
    assert note.startswith("evenkeel: note: ") and STAYS in note


def test_a_torn_epoch_hides_no_other_epoch(words: Registry, tmp_path: Path) -> None:
    words.publish(PLAN.function, {"words": TableVersion("state", 2)}, PLAN.digest)
    whole = json.loads(asked("epochs", "words", "--format", "json").stdout)
    assert [each["epoch"] for each in whole] == [0, 1]
    (tmp_path / "registry/epochs/00000000/epoch.json").write_text("{")
    told = asked("epochs", "words", "--format", "json")
    torn, newest = json.loads(told.stdout)
    assert told.exit_code == 0 and newest == whole[1]
    assert torn == dict.fromkeys(whole[0]) | {"epoch": 0}
    (note,) = told.stderr.splitlines()
    assert note.startswith("evenkeel: note: ") and "00000000" in note
    assert asked("epochs", "words").stdout.count("cannot be read") == 1
    # The one that is left out is not read.
    last = asked("epochs", "words", "--last", "1", "--format", "json")
    assert (json.loads(last.stdout), last.stderr) == ([newest], "")


def test_cost_is_that_of_the_newest_plan_unless_a_run_is_named(words: Registry) -> None:
    refused = asked("cost", "words")
    assert refused.exit_code and "no run has made a plan yet" in str(refused.exception)
    words.run(MOVES).plan.write(PLAN)
    words.run(MOVES).migration.write(MigrationRecord(**MIGRATION))
    words.run("rebalance_words--c__2013-01-31T01-00-00").decision.write(Decision(**DECISION))
    assert asked("cost", "words").stdout.startswith(f"{MOVES}\n")
    newest, named = (asked("cost", "words", *run, "--format", "json") for run in ((), (MOVES,)))
    told = json.loads(newest.stdout)
    assert told["rows"]["measured"] == 77
    assert (told["run"], told["plan"]) == (MOVES, PLAN.digest)
    assert newest.stdout == named.stdout
    assert "`evenkeel runs words`" in str(asked("cost", "words", "nowhere").exception)


@pytest.mark.parametrize("command", ["epochs", "show"])
def test_a_released_table_is_noted_beside_its_epochs(words: Registry, command: str) -> None:
    assert asked(command, "words").stderr == ""
    words.files.released.write(ReleaseRecord(time=datetime(2013, 2, 1, tzinfo=UTC).isoformat()))
    told = asked(command, "words", "--format", "json")
    assert told.exit_code == 0 and json.loads(told.stdout)
    assert "released on 2013-02-01" in told.stderr
