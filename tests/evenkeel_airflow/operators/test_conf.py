"""The conf of a run: a part that its DAG would ignore is refused before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from tests.support.airflow_env import airflow_db, dag_of  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from evenkeel_airflow import tasks
from evenkeel_airflow.airflow_versions import AirflowFailException
# isort: on

if TYPE_CHECKING:
    from tests.conftest import World

pytestmark = pytest.mark.airflow
GIVEN = {"dry_run": False}


@pytest.fixture
def submitted(
    airflow_db: None,  # noqa: F811
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """Tasks of the DAGs of `trips` that have come to spark-submit, which does not run."""
    names: list[str] = []
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, _: names.append(self.task_id))
    return names


def context(conf: dict[str, Any]) -> dict[str, Any]:
    ti = Mock(**{"get_dr_count.return_value": 0})
    return {"dag_run": Mock(conf=conf, run_id="r"), "params": GIVEN, "ti": ti}


@pytest.mark.parametrize("kind", ["repair", "roll_back"])
@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"dry-run": True}, "unknown name 'dry-run'. Known: "),
        ({"dry_run": True}, "Airflow ignores dry_run = True and takes False"),
    ],
)
def test_a_dry_run_becomes_no_real_one(
    submitted: list[str], kind: str, conf: dict[str, Any], said: str
) -> None:
    (first,) = dag_of(f"{kind}_trips").roots
    # As Airflow renders them.
    for option in {"--end", "--partition"} & {*first.application_args}:
        first.application_args[first.application_args.index(option) + 1] = ""
    with pytest.raises(AirflowFailException) as refused:
        first.execute(context(conf))
    assert said in str(refused.value) and not submitted
    # A team's own DAG may have conf of its own, by whatever name and tags.
    first.dag.dag_id = "load_trips"
    first.execute(context(conf))
    assert submitted == [first.task_id]


def test_what_airflow_adds_to_the_conf_of_a_run_that_it_triggers_is_let_in(
    submitted: list[str],
) -> None:
    (first,) = dag_of("repair_trips").roots
    parent = {"openlineage": {"parentRunId": "r"}}
    first.execute(context({"dry_run": False, **parent}))
    assert submitted == [first.task_id]
    asked = tasks.run_params(Mock(task_id="decide"), {"dry_run": True, **parent})
    assert asked.dry_run


def test_rows_that_have_moved_go_on_whatever_the_conf_of_their_run(submitted: list[str]) -> None:
    """The run may have begun before the conf was looked at."""
    task = dag_of("roll_back_trips").get_task("verify")
    task.application_args = ["--spec", "trips.yaml", "--digest", "d"]
    task.execute(context({"dry-run": True}))
    assert submitted == ["verify"]
