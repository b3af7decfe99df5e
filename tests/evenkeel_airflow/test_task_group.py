"""A rebalance as a task group: its shape in a user's DAG, and a whole run through Spark."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from tests.support.airflow_env import airflow_db, dag_bag, runs_a_dag  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.sdk import DAG

from evenkeel_airflow import RebalanceTaskGroup, tasks
from evenkeel_airflow.airflow_versions import AirflowFailException, AirflowSkipException
from partitioning.errors import InputError
from tests.support.worlds.shop import Shop
# isort: on

if TYPE_CHECKING:
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


def test_the_tasks_take_the_default_args_of_the_users_dag(world: World) -> None:
    """All but those by which they follow each other; the group's own come first."""
    theirs = {"retries": 4, "pool": "small", "trigger_rule": "all_done", "do_xcom_push": False}
    with DAG("mine", schedule=None, default_args=theirs) as dag:
        RebalanceTaskGroup(world.spec_path, default_args={"pool": "own", "queue": "spark"})
    with DAG("second", schedule=None, default_args=theirs) as second:
        RebalanceTaskGroup(world.spec_path, "again")
    with DAG("plain", schedule=None) as plain:
        RebalanceTaskGroup(world.spec_path)
    assert len(plain.tasks) == len(dag.tasks) == len(second.tasks) == 10
    for task in plain.tasks:
        assert (task.retries, task.retry_delay) == (2, timedelta(seconds=30)), task.task_id
        own, again = dag.get_task(task.task_id), second.get_task(f"again.{task.label}")
        assert (own.retries, own.pool, own.queue) == (4, "own", "spark"), task.task_id
        assert (again.retries, again.pool) == (4, "small"), task.task_id
        for other in (own, again):
            assert other.retry_delay == task.retry_delay, task.task_id
            assert other.trigger_rule == task.trigger_rule, task.task_id
            assert other.do_xcom_push, task.task_id


def test_default_args_of_a_group_that_no_task_takes_are_refused(world: World) -> None:
    said = r"^default_args of RebalanceTaskGroup: .* got trigger_rule \(set by each task\)"
    with DAG("mine", schedule=None), pytest.raises(InputError, match=said):
        RebalanceTaskGroup(world.spec_path, default_args={"trigger_rule": "all_done"})


def test_a_dag_has_one_group_of_a_table(world: World, tmp_path: Path) -> None:
    """Two of them would write the same files, and ask a person about the plan of either."""
    with DAG("twice"):
        RebalanceTaskGroup(world.spec_path)
        with pytest.raises(InputError, match="expected one group of table trips, found rebalance_"):
            RebalanceTaskGroup(world.spec_path, group_id="again")
        other = shutil.copy(world.spec_path, tmp_path / "other.yaml")
        text = Path(other).read_text().replace("registry: registry", "registry: elsewhere")
        Path(other).write_text(text)
        RebalanceTaskGroup(other, group_id="other")


def test_a_group_whose_tasks_do_not_have_its_name_is_refused(world: World) -> None:
    """Its tasks find each other by that name."""
    with (
        DAG("mine", schedule=None),
        pytest.raises(InputError, match=r"expected prefix_group_id=True, got False"),
    ):
        RebalanceTaskGroup(world.spec_path, prefix_group_id=False)


@runs_a_dag
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


GROUPED = ["learn", "decide", "plan", "validate_plan", "approve", "migrate", "verify", "publish"]


@pytest.mark.parametrize(
    ("states", "ends"),
    [
        (dict.fromkeys(GROUPED, "upstream_failed") | {"roll_back": "skipped"}, "fails"),
        (dict.fromkeys([*GROUPED, "roll_back"], "skipped"), "is skipped"),
        # decide said no.
        (
            dict.fromkeys([*GROUPED, "roll_back"], "skipped")
            | {"learn": "success", "decide": "success"},
            "reports",
        ),
        (dict.fromkeys(GROUPED, "success") | {"roll_back": "skipped"}, "reports"),
    ],
)
def test_a_group_that_did_not_run_lets_nothing_after_it_run(
    states: dict[str, str], ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "task_states", lambda *_: {**states, "report": "running"})
    monkeypatch.setattr(tasks, "folder", lambda *_: "r")
    report = partial(tasks.report.function, Shop(tmp_path).spec, ti=Mock(task_id="g.report"))
    if ends == "reports":
        assert report() is not None
    elif ends == "fails":
        with pytest.raises(AirflowFailException, match="learn, decide, .*task before them failed"):
            report()
    else:
        with pytest.raises(AirflowSkipException, match="every task before report was skipped"):
            report()
