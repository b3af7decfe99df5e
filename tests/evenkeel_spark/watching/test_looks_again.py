"""Looks of the watch that follow others, and what a stream says of an epoch that it published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.pipeline import steps
from evenkeel.pipeline.plan_file import remove_plan
from evenkeel.pipeline.publish import publish_checked
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel_spark.tables.delta import constraints
from partitioning.errors import DamagedError
from partitioning.watch.mitigation import Mitigation
from tests.support.worlds.live import HOT, Live, ended

pytestmark = [pytest.mark.spark, pytest.mark.slow]
#: Another key that turns hot.
WARM = "WARM"


def test_a_look_without_events_says_so_and_what_it_forgets_is_not_carried_out(
    spark: SparkSession, live: Live
) -> None:
    live.batch(2, 4.0)
    assert live.look(spark, 2)
    assert not live.look(spark, 3)
    assert live.known.outcome == "no new micro-batch"
    # The first run is cleared from its first task. If it has moved rows, it must still end.
    run = live.table.registry.run("w2")
    run.migration.write(MigrationRecord(digest="d2", epoch=1, tables={}))
    assert not live.look(spark, 2)
    assert run.watch_decision.exists() and run.profile.exists()
    run.migration.remove()
    assert not live.look(spark, 2)
    assert steps.plan_watch(live.spec_path, "w2") is None


def test_a_run_that_is_cleared_does_not_step_back_from_its_own_plan(
    spark: SparkSession, live: Live
) -> None:
    live.batch(2, 4.0)
    assert live.look(spark, 2) and steps.plan_watch(live.spec_path, "w2")
    # A later look forgets that decision.
    assert not live.look(spark, 3)
    live.batch(4, 4.0)
    assert live.look(spark, 2, until=ended(4)), live.known.outcome
    assert steps.plan_watch(live.spec_path, "w2")
    # A plan that has begun stays with its run.
    run = live.table.registry.run("w2")
    run.migration.write(MigrationRecord(digest=run.plan.read().digest, epoch=1, tables={}))
    remove_plan(run)
    assert run.plan.exists()


def test_keys_that_cool_down_together_go_home_one_by_one_if_the_budget_asks_for_it(
    spark: SparkSession, live: Live
) -> None:
    for number in range(2, 6):
        both(live, number, 4.0)
        live.apply(spark, number)
        live.turn(spark, number)
    assert len(spread(live)) == 2
    for number in range(30, 34):
        both(live, number, 0.0)
    live.respec(budget=0)
    assert not live.look(spark, 31)
    found = re.search(r"([\d,]+) bytes would move, the budget is 0", live.known.outcome)
    assert found is not None, live.known.outcome
    # Neither has an event in the newest micro-batch: the epoch's profile knows their names.
    assert all(f"{key} goes back to channel" in live.known.outcome for key in (HOT, WARM))
    live.respec(budget=int(0.9 * int(found[1].replace(",", ""))))
    before = live.table.epoch().number
    assert live.turn(spark, 32) == before + 1 and len(spread(live)) == 1
    assert live.turn(spark, 33) == before + 2 and len(spread(live)) == 0


def test_an_epoch_is_published_whose_report_fails(
    spark: SparkSession, live: Live, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*given: Any) -> None:
        raise DamagedError("torn or edited", "profile.npz", "Start a new run")

    live.batch(2, 4.0)
    monkeypatch.setattr(steps, "report", damaged)
    assert live.turn(spark, 2) == 1 == live.table.epoch().number
    said = capsys.readouterr().out
    assert "epoch 1 is published. A step after that has failed: profile.npz: torn" in said
    assert "not carried out" not in said


def test_an_epoch_is_published_whose_table_was_changed_right_after(
    spark: SparkSession, live: Live, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is rolled back by then, and no line says that nothing was done."""
    path = live.table.spec.state["totals"].path

    def changed_after(*given: Any) -> Epoch:
        epoch = publish_checked(*given)
        name = constraints.epoch_name(epoch.number)
        spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT {name}")
        return epoch

    live.batch(2, 4.0)
    monkeypatch.setattr("evenkeel_spark.migration.publish.publish_checked", changed_after)
    assert live.turn(spark, 2) == 1 == live.table.epoch().number
    said = capsys.readouterr().out
    assert "A step after that has failed" in said and "does not admit it any more" in said
    assert "not carried out" not in said


def spread(live: Live) -> Mapping[int, Mitigation]:
    return live.known.settled(live.table.epoch(), "next", live.watching).watch.spread


def both(live: Live, number: int, hot: float) -> None:
    """Events of a micro-batch in which both keys are as hot."""
    live.batch(number, hot, key=WARM)
    file = live.folder / "events" / f"{number:04}.parquet"
    file.rename(file.with_stem(f"{number:04}-warm"))
    live.batch(number, hot)
