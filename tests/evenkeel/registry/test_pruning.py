"""Pruning: what is old goes, whatever a later run, repair or page asks for stays."""

import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from evenkeel.inspect.half_moved import find_half_moved, mark_moving
from evenkeel.inspect.status import table_status
from evenkeel.pipeline import steps
from evenkeel.registry import pruning
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel.registry.files.outcome_records import GateRecord
from evenkeel.registry.files.records import Approval, ChannelRecord, ParamsRecord, Question
from evenkeel.registry.forgetting import check_at_rest, forget_names
from evenkeel.registry.profiles import epoch_plan, newest_profile
from evenkeel.registry.pruning import prune
from evenkeel.registry.store import Store
from evenkeel.registry.verdict import ROLL_BACK, mark, settle
from evenkeel.table import Table
from partitioning.errors import FenceError

DAYS = 86400
SINCE = datetime.now(UTC) - timedelta(days=30)


@pytest.fixture
def aged(old: Table, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A registry of two epochs and four runs, of which the last two plan from the newest epoch;
    all of it 60 days old, and no run stays only because it is new."""
    monkeypatch.setattr(pruning, "NEWEST_RUNS", 0)
    age(Path(old.registry.url))
    return old


def age(folder: Path, days: float = 60) -> None:
    then = time.time() - days * DAYS
    for file in folder.rglob("*"):
        os.utime(file, (then, then))


def files(table: Table) -> set[str]:
    root = Path(table.registry.url)
    return {str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()}


def test_runs_before_the_epoch_go_and_those_that_may_still_move_state_stay(aged: Table) -> None:
    # The third is rolled back.
    assert prune(aged.registry, SINCE, 0)["runs"] == 3
    assert aged.registry.store.names("runs") == ["fourth"]
    assert steps.read_plan(aged.registry.run("fourth")).parent_epoch == 2


def test_a_year_of_refused_plans_stays_below_a_stated_size(
    aged: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan a day from one epoch, each refused: what stays is the newest runs, not the year's."""
    monkeypatch.setattr(pruning, "NEWEST_RUNS", 20)
    root, before = Path(aged.registry.url), len(aged.registry.numbers())
    (root / "runs/fourth/migration.json").unlink(missing_ok=True)
    digest = steps.read_plan(aged.registry.run("fourth")).digest
    for day in range(365):
        shutil.copytree(root / "runs/fourth", root / f"runs/day-{day:03}")
        answer = Approval(approved=False, by="op", when="2013-01-01T00:00:00Z", digest=digest)
        aged.registry.run(f"day-{day:03}").approval.write(answer)
        age(root / f"runs/day-{day:03}", 400 - day)
    one = sum(f.stat().st_size for f in (root / "runs/fourth").rglob("*"))
    prune(aged.registry, SINCE, 0)
    left = sum(f.stat().st_size for f in (root / "runs").rglob("*") if f.is_file())
    # `keep` is 30 days; a run of 60 days ago may still move state.
    assert left < 40 * (one + 1_000), f"{left:,} bytes of runs"
    assert "fourth" in aged.registry.store.names("runs")
    assert len(aged.registry.numbers()) == before


@pytest.mark.parametrize("why", ["gate", "dry run"])
def test_a_plan_that_nobody_is_to_carry_out_goes_and_its_list_of_channels_too(
    aged: Table, why: str
) -> None:
    run = aged.registry.run("fourth")
    digest = steps.read_plan(run).digest
    run.migration.remove()
    listed = aged.registry.files.spec_channels(digest)
    listed.write([ChannelRecord(name="0", capacity=1.0)])
    age(Path(aged.registry.url))
    prune(aged.registry, SINCE, 0)
    # A person may approve it yet, and its epoch goes by that list.
    assert listed.exists() and "fourth" in aged.registry.store.names("runs")
    # The question was asked again lately: the folder is new, and the list is not.
    run.question.write(Question(digest=digest))
    prune(aged.registry, SINCE, 0)
    assert listed.exists()
    if why == "gate":
        run.gate_plan.write(GateRecord(success=False, results=[]))
    else:
        run.params.write(ParamsRecord(dry_run=True))
    age(Path(aged.registry.url))
    prune(aged.registry, SINCE, 0)
    assert not listed.exists() and "fourth" not in aged.registry.store.names("runs")


@pytest.mark.parametrize("touched", [True, False])
def test_a_refused_run_that_has_touched_a_table_stays(aged: Table, touched: bool) -> None:
    run = aged.registry.run("fourth")
    digest = steps.read_plan(run).digest
    run.migration.remove()
    if touched:
        run.migration.write(MigrationRecord(digest=digest, epoch=3, tables={}))
    run.approval.write(
        Approval(approved=False, by="op", when="2013-01-01T00:00:00Z", digest=digest)
    )
    age(Path(aged.registry.url, "runs/fourth"))
    prune(aged.registry, SINCE, 0)
    assert ("fourth" in aged.registry.store.names("runs")) is touched


def test_a_run_that_moved_nothing_has_ended_if_its_plan_cannot_be_read(aged: Table) -> None:
    aged.registry.run("fourth").migration.remove()
    plan = Path(aged.registry.url, "runs/fourth/plan.json")
    prune(aged.registry, SINCE, 0)
    assert "fourth" in aged.registry.store.names("runs")
    plan.write_text("{")
    age(plan.parent)
    prune(aged.registry, SINCE, 0)
    assert "fourth" not in aged.registry.store.names("runs")


@pytest.mark.parametrize("file", ["plan.json", "migration.json"])
def test_a_run_that_has_left_rows_half_moved_stays_with_a_torn_file(aged: Table, file: str) -> None:
    run = aged.registry.run("fourth")
    digest = steps.read_plan(run).digest
    run.migration.write(MigrationRecord(digest=digest, epoch=3, tables={}))
    run.write("plan.json", b"{")
    run.write(file, b"{")
    age(Path(aged.registry.url, "runs/fourth"))
    prune(aged.registry, SINCE, 0)
    assert "fourth" in aged.registry.store.names("runs")


def test_a_torn_plan_that_has_left_rows_half_moved_stays_until_they_are_back(
    old: Table,
) -> None:
    run = old.registry.run("fourth")
    plan = run.plan.read()
    digest, move = plan.digest, next(m for m in plan.moves if m.kind == "key")
    name, key = str(move.name), np.array([move.item])
    run.migration.write(MigrationRecord(digest=digest, epoch=3, tables={}))
    run.write("plan.json", run.read("plan.json")[:-40])
    with pytest.raises(FenceError, match="begun to move state.*run repair"):
        check_at_rest(old.registry, key)
    with pytest.raises(FenceError, match="begun to move state"):
        forget_names(old.registry, key, [name])
    assert run.name in old.registry.store.names("runs")
    settle(run, digest, 1, ROLL_BACK)
    mark(run, digest, 1, done=True)
    check_at_rest(old.registry, key)
    forget_names(old.registry, key, [name])
    assert run.name not in old.registry.store.names("runs")


def test_the_newest_runs_stay(aged: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "NEWEST_RUNS", 4)
    assert "runs" not in prune(aged.registry, SINCE, 0)


def test_a_run_with_one_new_file_stays(aged: Table) -> None:
    aged.registry.run("first").write("report.html", b"")
    prune(aged.registry, SINCE, 0)
    assert "first" in aged.registry.store.names("runs")


def test_epochs_and_their_plans_stay_without_their_profiles(aged: Table) -> None:
    before = files(aged)
    prune(aged.registry, SINCE, 0)
    gone = {f for f in before - files(aged) if f.startswith("epochs/")}
    assert gone == {f"epochs/00000001/{name}" for name in ("profile.npz", "profile.json")}
    assert [aged.registry.epoch(n).number for n in aged.registry.numbers()] == [0, 1, 2]
    assert epoch_plan(aged.registry, 1) is not None


def test_a_prune_that_was_killed_goes_on_with_what_is_left_of_an_epoch(aged: Table) -> None:
    epoch = Path(aged.registry.url, "epochs/00000001")
    for name in ("profile.npz", "profile.json"):
        (epoch / name).unlink()
    report = epoch / "report.html"
    report.write_text("<html></html>")
    age(epoch)
    assert prune(aged.registry, SINCE, 0)["files of epochs"] == 1
    assert not report.exists()


def test_days_before_the_window_go(aged: Table) -> None:
    windows = aged.registry.store.names("windows")
    last = Path(aged.registry.url, "windows", windows[-1])
    for day in ("2001-01-01", "2001-01-02"):
        early = last.with_name(f"{day}.json")
        early.write_bytes(last.read_bytes())
    age(last.parent)
    sketches = [f for f in files(aged) if f.startswith("sketches/")]
    assert len(windows) >= 1 and len(sketches) > 5
    prune(aged.registry, SINCE, 3)
    kept = sorted(f for f in files(aged) if f.startswith("sketches/"))
    assert kept == sorted(sketches)[-4:]
    left = aged.registry.store.names("windows")
    # The first one stays: a table that is empty again begins there.
    assert left[-1] == windows[-1]
    assert [name for name in left if name.startswith("2001")] == ["2001-01-01.json"]


def test_sketches_of_a_spec_of_before_go_by_the_newest_day_of_all(aged: Table) -> None:
    """They have names of heavy keys. No day comes to their folder any more."""
    root = Path(aged.registry.url)
    made = sorted(f for f in files(aged) if f.startswith("sketches/"))
    before = root / "sketches" / "other" / "2001-01-01.npz"
    before.parent.mkdir()
    before.write_bytes((root / made[-1]).read_bytes())
    age(before.parent)
    prune(aged.registry, SINCE, 3)
    assert sorted(f for f in files(aged) if f.startswith("sketches/")) == made[-4:]


def test_what_is_new_stays_whatever_its_day(old: Table) -> None:
    before = files(old)
    age(Path(old.registry.url), 1)
    assert prune(old.registry, SINCE, 0) == {}
    assert files(old) == before


def test_pruned_it_still_opens_and_pruning_again_does_nothing(aged: Table) -> None:
    prune(aged.registry, SINCE, 7)
    assert prune(aged.registry, SINCE, 7) == {}
    assert newest_profile(aged.registry).profile.events == 1510
    found = table_status(aged)
    assert found.problems == ()
    assert found.imbalance == pytest.approx(1.0781456953642383)


def test_a_folder_that_was_removed_half_way_is_removed_next_time(aged: Table) -> None:
    Path(aged.registry.url, "runs/first/plan.json").unlink()
    age(Path(aged.registry.url, "runs/first"))
    assert prune(aged.registry, SINCE, 0)["runs"] == 3


@pytest.mark.parametrize("removed", range(5))
def test_a_rolled_back_run_that_is_removed_half_way_seems_never_half_moved(
    aged: Table, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    run, folder = aged.registry.run("fourth"), Path(aged.registry.url, "runs/fourth")
    digest = steps.read_plan(run).digest
    run.approval.write(Approval(approved=True, by="op", when="2013-01-01T00:00:00Z", digest=digest))
    run.migration.write(MigrationRecord(digest=digest, epoch=3, tables={}))
    mark_moving(aged.registry, run)
    settle(run, digest, 1, ROLL_BACK)
    mark(run, digest, 1, done=True)
    age(folder)
    left = removed

    def killed(path: Path) -> None:
        nonlocal left
        if not left:
            raise RuntimeError("killed")
        left -= 1
        path.unlink(missing_ok=True)

    def killed_inside(_: Store, name: str) -> None:
        """Remove in the worst order: first what says that the run has ended."""
        files = Path(aged.registry.url, name).glob("*.json")
        for file in sorted(files, key=lambda f: f.name != "rolled_back.json"):
            killed(file)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "remove", lambda _, name: killed(Path(aged.registry.url, name)))
        patch.setattr(Store, "remove_folder", killed_inside)
        patch.setattr(pruning, "run_names", lambda _: ["first", "second", "third"])
        patch.setattr(pruning, "NEWEST_RUNS", 3)
        with pytest.raises(RuntimeError, match="killed"):
            prune(aged.registry, SINCE, 0)
    assert find_half_moved(aged.registry, run) is None
    assert prune(aged.registry, SINCE, 0)["runs"] > 0
    assert "fourth" not in aged.registry.store.names("runs")


def test_a_registry_without_an_epoch_is_left_alone(aged: Table) -> None:
    shutil.rmtree(Path(aged.registry.url, "epochs"))
    before = files(aged)
    assert prune(aged.registry, SINCE, 0) == {}
    assert files(aged) == before
