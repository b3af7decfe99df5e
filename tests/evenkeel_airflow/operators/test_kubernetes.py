"""Jobs on Kubernetes: a retry never submits a second driver beside the first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import airflow_env  # noqa: F401  it sets the environment

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk import DAG

from evenkeel_airflow.airflow_versions import AirflowFailException
from evenkeel_airflow.operators import SparkJob
from tests.support.worlds.shop import Shop
# isort: on

pytestmark = pytest.mark.airflow


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a stand-in for spark-submit notes its arguments."""
    program, noted = tmp_path / "bin" / "spark-submit", tmp_path / "submitted"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {noted}\necho Exit code: 0\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    # No cluster is asked, so any object is as good as Airflow's Kubernetes provider.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    return noted


def job(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, retries: int = 2) -> SparkJob:
    """A task of a job, with its connection to Kubernetes."""
    extra = {"deploy-mode": mode, "namespace": "lake"}
    host = {"conn_type": "spark", "host": "k8s://https://127.0.0.1", "port": 9}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({**host, "extra": extra}))
    arguments = {"--spec": Shop(folder).spec}
    with DAG("maintain_d"):
        return SparkJob(task_id="maintain", job="maintain", arguments=arguments, retries=retries)


def test_a_driver_that_no_retry_finds_again_is_not_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: Path
) -> None:
    said = (
        "^connection spark_default: expected deploy mode client on Kubernetes, found cluster: "
        r".* second one beside it\. Set deploy-mode to client in its extra, or give the task retr"
    )
    with pytest.raises(AirflowFailException, match=said):
        job(tmp_path, monkeypatch, "cluster").execute({})
    assert not submitted.exists()


@pytest.mark.parametrize(("mode", "retries"), [("client", 2), ("cluster", 0)])
def test_a_driver_that_ends_with_its_task_or_is_alone_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: Path, mode: str, retries: int
) -> None:
    job(tmp_path, monkeypatch, mode, retries).execute({})
    (line,) = submitted.read_text().splitlines()
    assert f"--deploy-mode {mode}" in line and "spark.kubernetes.namespace=lake" in line


def test_without_airflows_provider_one_line_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: Path
) -> None:
    """Its Spark hook ends in a NameError there, in client mode, too."""
    monkeypatch.delattr(spark_submit, "kube_client")
    said = "^connection spark_default: expected Airflow's provider.* Install apache-airflow-prov"
    with pytest.raises(AirflowFailException, match=said):
        job(tmp_path, monkeypatch, "client").execute({})
    assert not submitted.exists()
