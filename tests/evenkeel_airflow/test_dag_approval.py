"""Who is asked before a plan is carried out, and what an answer counts for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from tests.support import airflow_env
from tests.support.airflow_env import airflow_db, dag_bag, dag_of  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.providers.standard.operators import hitl
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from evenkeel_airflow.airflow_versions import AirflowFailException, AirflowSkipException
from evenkeel_airflow.operators import Approve
from evenkeel.pipeline import steps
from evenkeel.registry.run_folder import find_folder
from tests.support.worlds.shop import Shop
from tests.support.raw_json import read_json
from tests.support.cases.dag_runs import PIPELINE, run_dag, task_states
# isort: on

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from pyspark.sql import SparkSession

    from tests.conftest import World


pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def _home(airflow_db: None) -> None:  # noqa: F811
    """Every test here needs the database."""


@pytest.mark.parametrize(("choice", "approved"), [("Approve", True), ("Reject", False)])
def test_a_person_is_asked_over_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, approved: bool
) -> None:
    shop = Shop(tmp_path)
    shop.plan()
    shop.respec(approve_over=0)
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **told: asked.update(told))
    with DAG("rebalance_d"):
        task = Approve(task_id="approve", spec=shop.spec)
        task >> EmptyOperator(task_id="migrate")
    ti = Mock(map_index=-1)
    context = {"run_id": "r", "params": {}, "task_instance": ti, "ti": ti, "task": task}
    with pytest.raises(airflow_env.question()):
        task.execute(context)
    plan = steps.read_plan(shop.registry.run("r"))
    assert f"{plan.bytes:,.0f} bytes" in asked["subject"]
    assert plan.digest in asked["body"]
    assert asked["options"] == ["Approve", "Reject"]
    answer = {
        "chosen_options": [choice],
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": "1", "name": "vic"},
    }
    if approved:
        task.execute_complete(context, answer)
    else:
        with pytest.raises(airflow_env.exception("DownstreamTasksSkipped")):
            task.execute_complete(context, answer)
    kept = read_json(shop.registry.run("r"), "approval.json")
    assert (kept["approved"], kept["by"], kept["digest"]) == (approved, "vic", plan.digest)


def test_an_answer_counts_for_the_plan_that_was_shown_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleared with what comes before it, the task asks again; Airflow keeps the first question."""
    shop = Shop(tmp_path)
    shop.plan()
    shop.respec(approve_over=0)
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: None)
    with DAG("rebalance_d"):
        task = Approve(task_id="approve", spec=shop.spec)
    ti = Mock(map_index=-1)
    context = {"run_id": "r", "params": {}, "task_instance": ti, "ti": ti, "task": task}
    for _ in range(2):
        with pytest.raises(airflow_env.question()):
            task.execute(context)
    shop.plan(force=True, max_imbalance=1.3)
    with pytest.raises(AirflowFailException, match="start a new run"):
        task.execute(context)
    answer = {
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": "1", "name": "vic"},
    }
    with pytest.raises(AirflowFailException, match="start a new run"):
        task.execute_complete(context, answer)
    assert not shop.registry.run("r").exists("approval.json")
    # Under the limit, or without one, nobody need be asked.
    for changes, by in (
        ({"approve_over": 1 << 40}, "the spec's limit"),
        ({}, "the spec, which sets no limit"),
    ):
        shop.respec(**changes)
        task.execute(context)
        assert read_json(shop.registry.run("r"), "approval.json")["by"] == by


def test_nobody_is_asked_under_the_limit(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.plan()
    with DAG("rebalance_d"):
        task = Approve(task_id="approve", spec=shop.spec)
    task.execute({"run_id": "r", "params": {}})
    assert read_json(shop.registry.run("r"), "approval.json")["approved"]
    with pytest.raises(AirflowSkipException, match="dry run"):
        task.execute({"run_id": "r", "params": {"dry_run": True}})


@pytest.mark.slow
@airflow_env.runs_a_dag
def test_a_dry_run_and_a_refusal_change_nothing(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    before = _files(ready)

    dry = run_dag(ready, 1, {"dry_run": True})
    assert dry.state == "success"
    assert task_states(dry) == dict.fromkeys(PIPELINE, "success") | dict.fromkeys(
        ["approve", "migrate", "verify", "publish", "roll_back"], "skipped"
    )
    assert _left(ready, dry) >= {"plan.json", "gate_plan.json", "report.html"}

    # Hashing anew moves far more than a budget of one byte.
    refused = run_dag(ready, 2, {"strategy": "uniform", "budget": 1, "force": True})
    assert refused.state == "failed"
    states = task_states(refused)
    assert states["validate_plan"] == "failed"
    assert states["migrate"] == "upstream_failed"
    assert states["roll_back"] == "skipped"
    assert "report.html" in _left(ready, refused)

    # Nothing to do: even enough.
    ready.respec(trigger=100)
    idle = run_dag(ready, 3, {})
    assert idle.state == "success"
    assert task_states(idle)["plan"] == "skipped"
    assert "report.html" in _left(ready, idle)

    assert _files(ready) == before
    assert ready.table.epoch().number == 0


def _left(ready: World, run: DagRun) -> set[str]:
    registry = ready.table.registry
    return set(registry.store.names(f"runs/{find_folder(registry.store, run.dag_id, run.run_id)}"))


def _files(ready: World) -> dict[str, bytes]:
    """All of state, and the epochs."""
    found = [*(ready.folder / "state").rglob("*"), *(ready.folder / "registry/epochs").rglob("*")]
    return {str(f): f.read_bytes() for f in found if f.is_file()}
