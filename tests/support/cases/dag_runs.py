"""Runs of a table's DAG in this process, and the states of their tasks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.support.airflow_env import dag_of

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from tests.conftest import World

PIPELINE = [
    "learn", "decide", "plan", "validate_plan", "approve", "migrate", "verify", "publish", "report",
]  # fmt: skip
END = "2013-01-08"


def run_dag(ready: World, number: int, asked: dict[str, Any]) -> DagRun:
    """A run of rebalance_trips whose profile is learned here, in the session that there is."""
    from evenkeel_spark.jobs import learn

    when = datetime(2026, 1, 1, number, tzinfo=UTC)
    run_id = f"manual__{when.isoformat()}"
    assert learn.main(["--spec", ready.spec_path, "--run", run_id, "--end", END]) == 0
    run = dag_of("rebalance_trips").test(
        run_after=when, logical_date=when, run_conf=asked, mark_success_pattern="learn"
    )
    assert run.run_id == run_id
    return run


def task_states(run: DagRun) -> dict[str, str]:
    return {t.task_id: str(t.state) for t in run.get_task_instances()}
