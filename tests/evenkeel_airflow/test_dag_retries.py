"""What is tried again: a store or a cluster that is down, not what is wrong."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.airflow_env import airflow_db, dag_bag, dag_of, runs_a_dag  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from evenkeel_airflow.airflow_versions import AirflowFailException
from evenkeel_airflow.operators import SparkJob, one_line
from evenkeel.registry.job_error import leave_error
from evenkeel.registry.run_folder import folder_name
from evenkeel.registry.store_errors import DeniedError, StoreError
from partitioning.errors import InputError
from tests.support.worlds.shop import Shop
from tests.support.raw_json import read_json
from tests.support.cases.dag_runs import END, task_states
# isort: on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import World


pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def _home(airflow_db: None) -> None:  # noqa: F811
    """Every test here needs the database."""


@runs_a_dag
@pytest.mark.slow
def test_an_input_that_cannot_be_read_is_tried_once(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    (ready.folder / "events.parquet").write_bytes(b"PAR1 this was a table once PAR1")
    dag = dag_bag().dags["rebalance_trips"]
    assert dag.get_task("learn").retries == 2
    dag.get_task("learn").retry_delay = timedelta(0)
    run = dag.test(run_conf={"window_end": END})
    assert run.state == "failed"
    (learn,) = (t for t in run.get_task_instances() if t.task_id == "learn")
    assert (learn.state, learn.try_number) == ("failed", 1)
    registry = ready.table.registry
    left = read_json(registry.run(folder_name(run.dag_id, run.run_id)), "error.json")
    # By the id of the try the UI finds the error that belongs to it.
    assert (left["class"], left["retry"], left["attempt"]) == ("InputError", False, str(learn.id))
    assert task_states(run)["migrate"] == "upstream_failed"


def test_a_cluster_that_cannot_be_reached_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real spark-submit, with jobs that only fail."""
    shop = Shop(tmp_path)
    job = tmp_path / "learn.py"
    monkeypatch.setattr("evenkeel_airflow.operators.spark_job.job_file", lambda _: str(job))
    given = {"--spec": shop.spec, "--run": "fails"}
    for raises, raised in (
        ("UnreachableError('down')", AirflowException),
        ("UnderWayError('state moves')", AirflowException),
        ("InputError('no')", AirflowFailException),
        ("ValueError('nobody foresaw it')", AirflowException),
        ("SystemExit('killed')", AirflowException),
    ):
        job.write_text(FAILS.format(raises=raises))
        with DAG("rebalance_d"):
            task = SparkJob(task_id="learn", job="learn", arguments=given)
        # As Airflow renders it: each try has an id of its own.
        task.application_args[-1] = raises
        with pytest.raises(AirflowException) as error:
            task.execute({})
        assert type(error.value) is raised, raises
        if raised is AirflowFailException:
            assert str(error.value) == "no"
    left = read_json(shop.registry.run("rebalance_d--fails"), "error.json")
    assert (left["class"], left["exit_code"], left["retry"], left["job"]) == (
        "ValueError", 1, True, "learn",
    )  # fmt: skip
    # A spec that is wrong by now is final, too.
    shop.respec(channels=0)
    with pytest.raises(AirflowFailException, match="channels: "):
        task.execute({})


#: A job that ends as it is told to, before Spark starts.
FAILS = """
import sys
from evenkeel_spark.runtime import command
from partitioning.errors import InputError, UnderWayError, UnreachableError

def _body(spark, table, options):
    raise {raises}

command.session = command.check_log_store = lambda *_: None
sys.exit(command.run_job(command.parser("job", run=True), _body))
"""


@pytest.mark.parametrize("job", ["migrate", "maintain"])
def test_the_error_of_another_try_or_job_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """What an earlier try, or another job of the run, left says nothing of one that was killed."""
    shop = Shop(tmp_path)
    run = "r" if job == "migrate" else None
    arguments = {"--spec": shop.spec} | ({"--run": run} if run else {})

    def execute(self: Any, context: Any) -> None:
        raise AirflowException("Cannot execute: spark-submit. Error code is: 137.")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)

    def ends(left_by: str, attempt: str) -> bool:
        """Whether the task ends for good."""
        leave_error(shop.registry, left_by, run, attempt, InputError("is wrong", "registry"))
        task = SparkJob(task_id=job, job=job, arguments=arguments)
        task.application_args[-1] = "this"
        with pytest.raises(AirflowException) as caught:
            task.execute({})
        final = isinstance(caught.value, AirflowFailException)
        assert str(caught.value) == "registry: is wrong" or not final
        return final

    assert ends(job, "this")
    assert not ends(job, "another")
    if run:
        assert not ends("verify", "this")
        shop.registry.run("r").write("error.json", b"{torn")
    else:
        shop.registry.store.write("errors/maintain.json", b"{torn")
    task = SparkJob(task_id=job, job=job, arguments=arguments)
    with pytest.raises(AirflowException) as caught:
        task.execute({})
    assert not isinstance(caught.value, AirflowFailException)


def test_a_store_that_is_down_is_tried_again_and_what_is_wrong_is_not() -> None:
    down, wrong = StoreError("cannot be read", "registry"), InputError("is wrong", "registry")
    denied = DeniedError("read", "no rights", "registry")
    for error, final in ((down, False), (wrong, True), (denied, True)):
        with pytest.raises(AirflowException) as caught, one_line():
            raise error
        assert isinstance(caught.value, AirflowFailException) == final
