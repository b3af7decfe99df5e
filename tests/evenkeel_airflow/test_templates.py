"""What a run's own values become: its partition, and templates of specs and days."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock
from uuid import UUID

import pytest

from tests.support.airflow_env import airflow_db, dag_bag, runs_a_dag  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
import airflow.sdk
from airflow.sdk import DAG

import evenkeel_airflow
from evenkeel_airflow.airflow_versions import AirflowFailException
from evenkeel_airflow.operators import Approve, SparkJob, ValidatePlan
from tests.support.worlds.shop import Shop
# isort: on

if TYPE_CHECKING:
    from tests.conftest import World


pytestmark = pytest.mark.airflow


def test_a_run_of_a_partition_learns_the_window_that_ends_with_its_day(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    world.respec(schedule={"partitions": ["s3://lake/sales"]})
    if not hasattr(airflow.sdk, "PartitionedAssetTimetable"):
        (error,) = dag_bag().import_errors.values()
        assert "partitions need Airflow 3.2 or newer" in error
        return
    bag = dag_bag()
    assert bag.import_errors == {}
    dag = bag.dags["rebalance_trips"]
    assert isinstance(dag.timetable, airflow.sdk.PartitionedAssetTimetable)
    ran: list[dict[str, str]] = []
    monkeypatch.setattr(SparkJob, "execute", lambda self, _: ran.append(self._given()))

    def learns(key: str | None, asked: str | None) -> str | None:
        """The end of the window that a run learns."""
        task = dag_bag().dags["rebalance_trips"].get_task("learn")
        params = {**dag.params.dump(), "window_end": asked}
        given = {"params": params, "dag_run": Mock(partition_key=key), "run_id": "r"}
        task.render_template_fields({**given, "ti": Mock(id=7)})
        task.execute(given)
        assert "--partition" not in ran[-1]
        return ran[-1].get("--end")

    for key, asked, end in (
        ("2026-02-28", None, "2026-03-01"),
        ("2026-02-28T00:00:00", None, "2026-03-01"),
        ("2026-02-28", "2026-01-29", "2026-01-29"),
        ("eu-west", "2026-01-29", "2026-01-29"),
        (None, None, None),
    ):
        assert learns(key, asked) == end, key
    for key in ("eu-west", "2026-02-30", "9999-12-31"):
        said = f"^the run r: expected a partition key that begins with a day.* got '{key}'\\. Write"
        with pytest.raises(AirflowFailException, match=said):
            learns(key, None)
    assert len(ran) == 5


def test_airflows_scheduler_makes_a_run_for_a_partition(
    world: World,
    airflow_db: None,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not hasattr(airflow.sdk, "PartitionedAssetTimetable"):
        pytest.skip("Airflow 3.1 has no partitions")
    from airflow.assets.manager import AssetManager
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import sync_bag_to_db
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.asset import AssetModel
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    world.respec(schedule={"partitions": ["s3://lake/sales"]})
    DagBundlesManager().sync_bundles_to_db()
    with create_session() as session:
        sync_bag_to_db(dag_bag(), "dags-folder", None, session=session)
        session.query(DagModel).filter_by(dag_id="rebalance_trips").update({"is_paused": False})
        ours = session.query(DagRun).filter_by(dag_id="rebalance_trips")
        # Tests before this one may have left runs of a DAG of this name.
        before = {run.run_id for run in ours}
        asset = session.query(AssetModel).filter_by(uri="s3://lake/sales").one()
        AssetManager.register_asset_change(
            asset=asset, session=session, partition_key="2026-02-28", source_is_api=True
        )
        session.flush()
        SchedulerJobRunner(Job())._create_dagruns_for_partitioned_asset_dags(session)
        made = [run for run in ours if run.run_id not in before]
        assert [run.partition_key for run in made] == ["2026-02-28"]
        session.rollback()


def test_specs_and_days_may_be_templates() -> None:
    with DAG("daily", schedule=None) as dag:
        applied = evenkeel_airflow.ApplyWindow(
            task_id="apply", spec="{{ params.spec }}", start="{{ ds }}", end="{{ params.end }}"
        )
        validated = ValidatePlan(task_id="validate", spec="{{ params.spec }}")
        approved = Approve(task_id="approve", spec="{{ params.spec }}")
    given = {"params": {"spec": "/opt/t.yaml", "end": "2026-03-02"}, "ds": "2026-03-01"}
    for task in dag.tasks:
        task.render_template_fields({**given, "ti": Mock(id=7)})
    wanted = {"--spec": "/opt/t.yaml", "--start": "2026-03-01", "--end": "2026-03-02"}
    assert wanted.items() <= applied._given().items()
    assert validated._given() == {"--spec": "/opt/t.yaml"} and approved.spec == "/opt/t.yaml"


NATIVE = """# An Airflow DAG of the team's own.
from airflow.sdk import DAG, task
from evenkeel_airflow import SparkJob

with DAG("native", schedule=None, render_template_as_native_obj=True, params={{"none": None}}):

    @task
    def first() -> int:
        return 5

    arguments = {{
        "--spec": {spec!r},
        "--number": "{{{{ 7 }}}}",
        "--list": "{{{{ [1, 2] }}}}",
        "--digest": "12e5",
        "--end": "{{{{ ds }}}}",
        "--none": "{{{{ params.none }}}}",
        "--empty": "{{{{ '' }}}}",
        "--from": first(),
    }}
    SparkJob(task_id="job", job="maintain", arguments=arguments, retries=0,
             conf="{{{{ {{'spark.ui.enabled': 'false'}} }}}}")
"""
#: Stands for spark-submit: notes its arguments, one a line.
SUBMIT = """#!/bin/sh
printf '%s\\n' "$@" > {noted}
"""


def test_every_argument_is_rendered_as_text() -> None:
    with DAG("mine", schedule=None, render_template_as_native_obj=True):
        job = SparkJob(task_id="job", job="maintain", arguments={"--spec": "{{ params.spec }}"})
    job.render_template_fields({"params": {"spec": "12e5"}, "ti": Mock(id=UUID(int=7))})
    assert job._given() == {"--spec": "12e5", "--attempt": str(UUID(int=7))}


@runs_a_dag
def test_arguments_are_text_in_a_dag_that_renders_python_values(
    tmp_path: Path,
    airflow_db: None,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dags, submit = tmp_path / "dags", tmp_path / "bin" / "spark-submit"
    for folder in (dags, submit.parent):
        folder.mkdir()
    submit.write_text(SUBMIT.format(noted=tmp_path / "noted"))
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", str(submit.parent), prepend=":")
    bundle = {
        "name": "own",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(dags)},
    }
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    (dags / "mine.py").write_text(NATIVE.format(spec=Shop(tmp_path).spec))
    run = dag_bag(dags).dags["native"].test()
    states = {t.task_id: str(t.state) for t in run.get_task_instances()}
    assert states == {"first": "success", "job": "success"}
    noted = (tmp_path / "noted").read_text().splitlines()
    (job,) = (t for t in run.get_task_instances() if t.task_id == "job")
    assert noted[noted.index("--number") :] == [
        *("--number", "7", "--list", "[1, 2]", "--digest", "12e5"),
        *("--end", run.logical_date.date().isoformat(), "--none", "None", "--from", "5"),
        *("--attempt", str(job.id)),
    ]
    # Other fields become Python values, as the DAG says.
    assert "spark.ui.enabled=false" in noted
