"""The watch of an Iceberg table beside windows, rebalances and runs of its own."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.pipeline import steps
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.watching.micro_batch import measure_batch
from evenkeel_spark.watching.streaming import carry_out
from partitioning.errors import FenceError
from tests.support.iceberg.stages import Crash, Stages, at_each, crash_at, meanwhile
from tests.support.iceberg.tables import planned, rebalanced
from tests.support.iceberg.watched import (
    FIRST_ENDS,
    ONE,
    SECOND_ENDS,
    THREE,
    TWO,
    Watched,
)
from tests.support.worlds.live import FIRST

pytestmark = pytest.mark.spark
RUN = f"w{ONE}"


def begin(stages: Stages) -> tuple[SparkSession, Watched]:
    return stages.back("hot").spark, Watched(stages.now)


def second_day(lake: SparkSession, live: Watched) -> None:
    apply_window(lake, live.table, FIRST_ENDS, SECOND_ENDS)


def rebalance(lake: SparkSession, live: Watched) -> None:
    """A whole run of another DAG."""
    rebalanced(lake, live, "r1", capacities=[1, 1, 1, 0.3])


@pytest.mark.parametrize("point", ["branched", "written"])
def test_a_window_lands_while_rows_move(watched: Stages, point: str) -> None:
    lake, live = begin(watched)
    other = watched.anew().spark
    assert live.look(lake, ONE)
    with meanwhile(point, lambda: second_day(other, live)):
        assert live.turn(lake, ONE) == 1
    live.check(lake, SECOND_ENDS)


def test_the_watch_publishes_while_a_window_is_on_its_branch(watched: Stages) -> None:
    lake, live = begin(watched)
    other = watched.anew().spark
    with (
        meanwhile("merged", lambda: live.turn(other, ONE)),
        pytest.raises(FenceError, match="slot_1"),
    ):
        second_day(lake, live)
    assert live.table.epoch().number == 1
    live.check(watched.anew().spark)
    second_day(lake, live)
    live.check(lake, SECOND_ENDS)


def test_it_steps_back_while_a_rebalance_moves_rows(watched: Stages) -> None:
    lake, live = begin(watched)
    migration = planned(lake, live, "r1", capacities=[1, 1, 1, 0.3])
    assert not live.look(lake, ONE)
    assert live.known.outcome.endswith("stepping back: run r1 has planned from epoch 0")
    migrate(lake, migration)
    live.hot_pair(TWO)
    assert not live.look(lake, TWO)
    assert live.known.outcome.endswith(": run r1 is moving rows")
    with pytest.raises(Crash), at_each(crash_at("verified")):
        verify(lake, migration)
    # Only the table tells of a run whose files are gone.
    live.table.registry.files.moving("r1").remove()
    live.hot_pair(THREE)
    assert not live.look(lake, THREE)
    assert "has the column slot_1, expected slot_0" in live.known.outcome
    assert live.table.epoch().number == 0


def test_a_rebalance_publishes_after_the_look(
    watched: Stages, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, live = begin(watched)
    assert live.look(lake, ONE)
    rebalance(lake, live)
    assert carry_out(lake, live.table, live.spec_path, RUN) is None
    assert "not carried out: " in (said := capsys.readouterr().out)
    assert "epoch 1 was published since this profile was learned at epoch 0" in said
    live.hot_pair(TWO)
    live.look(lake, TWO)
    assert live.known.epoch == 1 and live.known.watch.spread == {}
    live.check(lake)


@pytest.mark.parametrize("point", ["begun", "written", "closed", "verified"])
def test_a_rebalance_publishes_while_the_watch_moves_rows(watched: Stages, point: str) -> None:
    lake, live = begin(watched)
    other = watched.anew().spark
    assert live.look(lake, ONE)
    with meanwhile(point, lambda: rebalance(other, live)):
        assert carry_out(lake, live.table, live.spec_path, RUN) is None
    assert live.table.registry.published(1, steps.read_plan(live.table.registry.run("r1")).digest)
    live.check(watched.anew().spark)


def test_events_that_an_older_epoch_has_routed_tell_nothing(
    watched: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, live = begin(watched)

    def overtaken(*given: Any) -> Any:
        found = measure_batch(*given)
        rebalance(lake, live)
        return found

    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.watching.evaluate.measure_batch", overtaken)
        assert not live.look(lake, ONE)
    assert "routed by epoch 0: they tell nothing of 1" in live.known.outcome
    assert live.known.watch.last == FIRST + ONE and not live.known.backlog.any()
    live.check(lake)


def test_a_run_that_has_begun_keeps_its_decision(watched: Stages) -> None:
    """Its rows are on a branch, of which the table tells nothing."""
    lake, live = begin(watched)
    assert live.look(lake, ONE)
    with pytest.raises(Crash), at_each(crash_at("moved")):
        carry_out(lake, live.table, live.spec_path, RUN)
    digest = steps.read_plan(live.table.registry.run(RUN)).digest
    live.hot_pair(TWO)
    # A later look, then one of the run itself, cleared from its first task.
    for number, until in ((TWO, None), (ONE, None)):
        assert not live.look(lake, number, until)
        if number == TWO:
            assert live.known.outcome.endswith(f": run {RUN} is moving rows")
    assert steps.plan_watch(live.spec_path, RUN) == digest
    assert carry_out(watched.anew().spark, live.table, live.spec_path, RUN) == 1
    live.check(lake)


def test_a_look_that_was_killed_and_is_held_back_leaves_nothing(watched: Stages) -> None:
    lake, live = begin(watched)
    with pytest.raises(Crash), at_each(crash_at("decided")):
        live.look(lake, ONE)
    run = live.table.registry.run(RUN)
    assert run.watch_decision.exists() and run.profile.exists()
    assert not live.look(lake, ONE, busy="rebalance_trips is running")
    assert live.known.outcome.endswith("stepping back: rebalance_trips is running")
    assert not run.watch_decision.exists() and not run.profile.exists()
    assert steps.plan_watch(live.spec_path, RUN) is None
    live.check(lake)
