"""Whole runs through Airflow, Spark and Delta: failures, the way back, repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from tests.support.airflow_env import airflow_db, dag_bag, dag_of  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from evenkeel.pipeline import steps
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel.watch.mitigation import daily_run_under_way
from evenkeel_airflow import tasks
from evenkeel_airflow.airflow_versions import AirflowFailException
from tests.support.cases.dag_runs import END, PIPELINE, run_dag, task_states
from tests.support.docs.registry_page import unlisted
from tests.support.raw_json import write_json
from tests.support.worlds.shop import Shop
# isort: on

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.conftest import World


pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def _home(airflow_db: None) -> None:  # noqa: F811
    """Every test here needs the database."""


@pytest.mark.timeout(1500)
def test_a_failure_is_rolled_back_and_the_next_run_publishes(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    rows = _rows(ready, spark)
    with monkeypatch.context() as patch:
        # verify dies between measuring and sealing, as if its machine went away.
        patch.setenv("EVENKEEL_CRASH_AT", "measured")
        broken = run_dag(ready, 5, {})
    states = task_states(broken)
    assert (states["migrate"], states["verify"], states["roll_back"]) == (
        "success", "failed", "success",
    )  # fmt: skip
    assert states["publish"] == "upstream_failed"
    assert broken.state == "failed"
    assert ready.table.epoch().number == 0
    assert _rows(ready, spark) == rows

    gauges: dict[str, float] = {}
    monkeypatch.setattr("evenkeel_airflow.tasks.gauge", gauges.__setitem__)
    run = dag_of("rebalance_trips").test(run_conf={"window_end": END})
    assert run.state == "success"
    assert gauges["evenkeel.trips.imbalance_after"] < gauges["evenkeel.trips.imbalance_before"]
    assert gauges["evenkeel.trips.bytes_moved"] > 0
    assert gauges["evenkeel.trips.gate_failures"] == 0
    assert {"evenkeel.trips.seconds_learn", "evenkeel.trips.seconds_migrate_totals"} <= set(gauges)
    assert task_states(run) == dict.fromkeys(PIPELINE, "success") | {"roll_back": "skipped"}
    epoch = ready.table.epoch()
    assert epoch.number == 1
    assert set(epoch.tables) == set(ready.table.spec.state)
    assert _events("evenkeel://trips/") == [{"epoch": 1}]
    kept = ready.table.registry.store.names("epochs/00000001")
    assert {"epoch.json", "report.html", "plan.json", "gate_tables.json"} <= set(kept)
    assert _rows(ready, spark) != rows
    assert unlisted(ready.folder / "registry") == []


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_an_epoch_is_gone_back_from_and_maintained(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    rows = _rows(ready, spark)
    assert run_dag(ready, 6, {}).state == "success"
    assert _rows(ready, spark) != rows

    back = dag_of("roll_back_trips").test(run_conf={"epoch": 0})
    assert back.state == "success"
    assert ready.table.epoch().number == 2
    assert _rows(ready, spark) == rows

    assert dag_of("maintain_trips").test().state == "success"
    assert _rows(ready, spark) == rows


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_table_broken_by_hand_is_repaired(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_spark.tables.delta import constraints

    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    rows, path = _rows(ready, spark), ready.table.spec.state["totals"].path
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT evenkeel_epoch_0")
    spark.sql(f"UPDATE delta.`{path}` SET channel = (channel + 1) % 4 WHERE slot < 9")
    broken = _rows(ready, spark)
    assert broken != rows
    assert dag_of("repair_trips").test(run_conf={"dry_run": True}).state == "success"
    assert _rows(ready, spark) == broken
    assert constraints.our_constraints(spark, path) == set()
    assert dag_of("repair_trips").test().state == "success"
    assert _rows(ready, spark) == rows
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}


def test_a_run_whose_epoch_is_published_is_not_told_as_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task publish failed after verify had published; roll_back found nothing to undo."""
    shop = Shop(tmp_path)
    states = {"verify": "success", "publish": "failed", "roll_back": "success"}
    monkeypatch.setattr(tasks, "task_states", lambda *_: states)
    monkeypatch.setattr(tasks, "folder", lambda *_: "r")

    def told() -> str:
        with pytest.raises(AirflowFailException) as raised:
            tasks.report.function(shop.spec, ti=Mock())
        return str(raised.value).partition(" Read the log, or ")[0]

    shop.learn("r")
    digest = shop.plan("r", force=True)
    assert told() == "The run failed at publish."
    run = shop.registry.run("r")
    write_json(run, "rolled_back.json", {"digest": digest, "done": True})
    # migrate was refused before it had moved a row.
    assert told() == "The run failed at publish."
    run.migration.write(MigrationRecord(digest=digest, epoch=1, tables={}))
    assert told() == "The run failed at publish, and was rolled back."
    run.remove("rolled_back.json")
    shop.verified()
    steps.publish(shop.spec, "r")
    assert "but its epoch is published. Clear publish with the tasks after it" in told()
    # roll_back has published what verify had passed, and Airflow did not run publish.
    states.update(verify="failed", publish="upstream_failed")
    assert "failed at verify, but its epoch is published. Clear verify with" in told()


def test_a_dry_run_of_a_rollback_does_not_hold_up_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    shop.publish("r", force=True, max_imbalance=1.01)
    monkeypatch.setattr(tasks, "folder", lambda *_: "back")
    shop.learn_row("back")
    for dry_run, waits in ((True, None), (False, "run back has planned from epoch 1")):
        params = {"epoch": 0, "dry_run": dry_run}
        tasks.plan_rollback.function(shop.spec, ti=Mock(), params=params)
        assert daily_run_under_way("words", shop.registry, shop.registry.current()) == waits


def _rows(ready: World, spark: SparkSession) -> list[list[Any]]:
    paths = [part.path for part in ready.table.spec.state.values()]
    return [sorted(spark.read.format("delta").load(p).collect()) for p in paths]


def _events(uri: str) -> list[dict[str, Any]]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        return [e.extra for e in session.scalars(found.where(AssetModel.uri == uri))]
