"""A rebalance as a task group: its shape in a user's DAG, and a whole run through Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.airflow_env import airflow_db, dag_bag  # noqa: F401  a fixture

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from pyspark.sql import SparkSession

    from tests.conftest import World

pytestmark = pytest.mark.airflow

FILE = """# An Airflow DAG of the team's own.
from airflow.sdk import DAG, Param
from airflow.providers.standard.operators.empty import EmptyOperator
from evenkeel_airflow import RebalanceTaskGroup

with DAG("mine", schedule=None, max_active_runs=1, params={{"country": "fr", **{params}}}) as dag:
    before, after = EmptyOperator(task_id="before"), EmptyOperator(task_id="after")
    before >> RebalanceTaskGroup({spec!r}) >> after
"""
GROUP = "rebalance_trips"


def own_dag(world: World, folder: Path, params: dict[str, object]) -> DAG:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(FILE.format(spec=world.spec_path, params=params))
    bag = dag_bag(folder)
    assert bag.import_errors == {}
    dag = bag.dags["mine"]
    for task in dag.tasks:
        task.retries = 0
    return dag


def test_the_group_stands_between_the_users_tasks(
    world: World,
    tmp_path: Path,
    airflow_db: None,  # noqa: F811
) -> None:
    dag = own_dag(world, tmp_path / "dags", {})
    assert dag.get_task("before").downstream_task_ids == {f"{GROUP}.learn"}
    assert dag.get_task("after").upstream_task_ids == {f"{GROUP}.report"}
    arguments = dag.get_task(f"{GROUP}.migrate").application_args
    assert f"{{{{ ti.xcom_pull(task_ids='{GROUP}.plan') }}}}" in arguments


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_group_rebalances_and_rolls_back_what_fails(
    ready: World,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    airflow_db: None,  # noqa: F811
) -> None:
    # A DAG runs only if a bundle of Airflow's holds its file.
    bundle = {
        "name": "own",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(tmp_path / "dags")},
    }
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    dag = own_dag(ready, tmp_path / "dags", {"window_end": "2013-01-08", "force": True})
    with monkeypatch.context() as patch:
        # verify dies between measuring and sealing, as if its machine went away.
        patch.setenv("EVENKEEL_CRASH_AT", "measured")
        broken = dag.test()
    states = {t.task_id: str(t.state) for t in broken.get_task_instances()}
    assert states[f"{GROUP}.verify"] == "failed"
    assert states[f"{GROUP}.roll_back"] == "success"
    assert (states[f"{GROUP}.report"], states["after"]) == ("failed", "upstream_failed")
    assert ready.table.epoch().number == 0

    run = own_dag(ready, tmp_path / "dags", {"window_end": "2013-01-08", "force": True}).test()
    states = {t.task_id: str(t.state) for t in run.get_task_instances()}
    assert run.state == "success", states
    assert states[f"{GROUP}.roll_back"] == "skipped"
    assert states[f"{GROUP}.publish"] == states["after"] == "success"
    assert ready.table.epoch().number == 1
