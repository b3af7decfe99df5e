"""Which run has left a table half moved, by its files alone: also if some came late or are torn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.inspect.half_moved import HalfMoved, end_damaged_runs, half_moved, mark_moving
from evenkeel.inspect.status import table_status
from evenkeel.pipeline import approval, steps
from evenkeel.pipeline.metrics import run_metrics
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.profiles import run_names
from evenkeel.registry.verdict import (
    PUBLISH,
    begin_attempt,
    forbid,
    newest_attempt,
    settle,
    withdraw,
)
from evenkeel.runs.record import headline, read_run
from evenkeel.spec.run_params import Params
from evenkeel.table import open_table
from partitioning.errors import DamagedError, FenceError
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.shop import Shop


@pytest.fixture
def begun(shop: Shop) -> RunFiles:
    """A run that has begun to move rows."""
    return begin(shop, "r")


def begin(shop: Shop, name: str) -> RunFiles:
    shop.learn(name)
    shop.plan(name, force=True)
    run = shop.registry.run(name)
    plan = steps.read_plan(run)
    write_json(run, "migration.json", {"digest": plan.digest, "epoch": 1, "tables": {}})
    mark_moving(shop.registry, run)
    return run


def found(shop: Shop) -> HalfMoved | None:
    return half_moved(shop.registry, run_names(shop.registry))


def rolled_back(run: RunFiles, **said: object) -> None:
    write_json(run, "rolled_back.json", {"digest": steps.read_plan(run).digest, **said})


def test_a_late_mark_of_an_earlier_attempt_hides_nothing(shop: Shop, begun: RunFiles) -> None:
    rolled_back(begun, attempt=1, done=True)
    assert found(shop) is None
    assert run_metrics(shop.spec, "r")[1]["half_moved"] == 0
    digest = steps.read_plan(begun).digest
    assert begin_attempt(begun, digest, 2)
    half = found(shop)
    assert half is not None and half.run == "r" and not half.undoing
    # A job that died has counted no rows, so no other metric tells; another run may report it.
    assert run_metrics(shop.spec, "r")[1]["half_moved"] == 1
    shop.learn("r2")
    assert run_metrics(shop.spec, "r2")[1]["half_moved"] == 1
    rolled_back(begun, attempt=2, done=False)
    assert (half := found(shop)) is not None and half.undoing
    rolled_back(begun, attempt=2, done=True)
    assert found(shop) is None


def progress(run: RunFiles, **said: object) -> None:
    told = {"digest": steps.read_plan(run).digest, "rows": 2, "planned": 11, "bytes": 1, "left": 1}
    write_json(run, "progress.json", {**told, **said})


def test_rows_are_counted_on_the_way_that_they_go(shop: Shop, begun: RunFiles) -> None:
    def done() -> str:
        half = found(shop)
        assert half is not None
        return half.done

    assert done() == "no row was reported as moved yet"
    progress(begun)
    assert done() == "2 of 11 rows moved"
    # It has moved none back before its first commit.
    rolled_back(begun, attempt=1, done=False)
    assert done() == "rolling back has begun; before that, 2 of 11 rows moved"
    progress(begun, rows=1, planned=2, back=True)
    assert done() == "1 of 2 rows moved back"
    begun.write("rolled_back.json", b"{")
    assert done() == "1 of 2 rows moved back"
    # The next attempt has moved none, whatever file the one before it has left.
    rolled_back(begun, attempt=1, done=True)
    assert begin_attempt(begun, steps.read_plan(begun).digest, 2)
    assert done() == "no row was reported as moved yet"
    begun.progress.remove()
    rolled_back(begun, attempt=2, done=False)
    assert done() == "rolling back has begun; no row was reported as moved"


def test_a_torn_mark_leaves_the_table_half_moved_and_says_so(shop: Shop, begun: RunFiles) -> None:
    begun.write("rolled_back.json", b"{")
    half = found(shop)
    assert half is not None and half.run == "r"
    assert half.damaged is not None and "rolled_back.json" in half.damaged
    # Another run that begins does not take its mark away.
    begin(shop, "r2")
    assert (half := found(shop)) is not None and half.damaged


def test_a_torn_record_of_one_run_hides_no_other(shop: Shop, begun: RunFiles) -> None:
    other = begin(shop, "r2")
    begun.write("migration.json", b"{")
    assert (half := found(shop)) is not None and half.run == "r2"
    rolled_back(other, done=True)
    with pytest.raises(DamagedError, match=r"migration\.json"):
        found(shop)
    now = table_status(open_table(shop.spec))
    assert now.half is None and now.unreadable
    assert any("migration.json" in problem for problem in now.problems)


def test_a_torn_record_of_one_run_stops_no_other(shop: Shop, begun: RunFiles) -> None:
    """The advice for it is a new run. Its mark stays: nobody knows whether it has ended."""
    begun.write("migration.json", b"{")
    begin(shop, "r2")
    assert set(shop.registry.files.moving_runs()) == {"r", "r2"}


def test_a_plan_that_was_replaced_is_not_half_moved_by_the_mark_of_the_next_one(
    shop: Shop, begun: RunFiles
) -> None:
    rolled_back(begun, attempt=1, done=True)
    before = steps.read_plan(begun).digest
    learned = read_json(begun, "profile.json")
    write_json(begun, "profile.json", {**learned, "tables": shop.versions(5)})
    shop.plan("r", force=True)
    after = steps.read_plan(begun).digest
    assert after != before and withdraw(begun, after)
    assert begun.rolled_back.read().digest == after
    assert begun.migration.read().digest == before
    assert found(shop) is None


def test_a_run_that_is_decided_to_publish_and_has_lost_its_plan_is_ended(
    shop: Shop, begun: RunFiles
) -> None:
    assert settle(begun, steps.read_plan(begun).digest, 1, PUBLISH) == PUBLISH
    begun.write("plan.json", b"{")
    assert found(shop) is not None
    assert end_damaged_runs(shop.registry) == ["r"]
    assert found(shop) is None and end_damaged_runs(shop.registry) == []


def test_a_cleared_run_whose_rows_are_half_moved_does_not_end_well(
    shop: Shop, begun: RunFiles
) -> None:
    """A task that is skipped would skip roll_back, too, and the run would be a success."""
    shop.respec(approve_over=0, trigger=1000.0)
    kept = begun.read("decision.json")
    for end in (
        lambda: steps.decide(shop.spec, "r", Params()),
        lambda: steps.plan_watch(shop.spec, "r"),
        lambda: approval.ask(shop.spec, "r", "d"),
    ):
        with pytest.raises(FenceError, match="half moved.*Leave it to roll_back"):
            end()
    assert begun.read("decision.json") == kept
    approval.record(shop.spec, "r", False, "op", "2026-01-01T00:00:00+00:00")
    title, text, _ = headline(read_run("words", shop.registry, begun), ended=True)
    assert "was left half moved" in title and "nothing moved" not in text
    rolled_back(begun, attempt=1, done=True)
    assert not steps.decide(shop.spec, "r", Params()).rebalance
    title, *_ = headline(read_run("words", shop.registry, begun), ended=True)
    assert "was rolled back" in title


def test_a_run_that_is_decided_to_publish_and_has_lost_its_record_is_never_published(
    shop: Shop, begun: RunFiles
) -> None:
    digest = steps.read_plan(begun).digest
    assert settle(begun, digest, 1, PUBLISH) == PUBLISH
    begun.write("migration.json", b"{")
    assert end_damaged_runs(shop.registry) == ["r"] and found(shop) is None
    # Its job may be cleared: the verdict is to publish, and the plan is there.
    assert newest_attempt(begun, digest).withdrawn


def test_a_run_that_a_killed_repair_has_given_up_is_ended_by_the_next(
    shop: Shop, begun: RunFiles
) -> None:
    digest = steps.read_plan(begun).digest
    assert settle(begun, digest, 1, PUBLISH) == PUBLISH
    assert end_damaged_runs(shop.registry) == [] and not newest_attempt(begun, digest).over
    forbid(begun, digest)
    assert newest_attempt(begun, digest).over and found(shop) is not None
    assert end_damaged_runs(shop.registry, dry_run=True) == ["r"] and found(shop) is not None
    assert end_damaged_runs(shop.registry) == ["r"] and found(shop) is None


def test_a_plan_that_was_killed_while_it_took_the_place_of_another_ends_that_one(
    shop: Shop, begun: RunFiles
) -> None:
    first = steps.read_plan(begun)
    rolled_back(begun, attempt=1, done=True)
    # Killed: the plan is there, and the one before is not withdrawn yet.
    begun.plan.write(replace(first, floor=first.floor + 0.01))
    assert not begun.withdrawn(first.digest).exists()
    again = steps.plan(shop.spec, "r", Params(force=True, max_imbalance=1.5))
    assert again != first.digest and begun.withdrawn(first.digest).exists()
    # Not while rows move by it, whatever plan is there.
    begun.rolled_back.remove()
    begun.withdrawn(first.digest).remove()
    assert found(shop) is not None
    with pytest.raises(FenceError, match=f"by plan {first.digest[:12]}, another one"):
        steps.plan(shop.spec, "r", Params(force=True, max_imbalance=1.6))
    # And repair ends a run whose plan is not the one by which its rows have moved.
    assert end_damaged_runs(shop.registry) == ["r"] and found(shop) is None
