"""How a Spark job is submitted, or run in a Spark that is up, and how it fails."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support import airflow_env  # noqa: F401  it sets the environment

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.exceptions import AirflowException
from airflow.sdk import DAG

from evenkeel.extras import CANNOT_START
from evenkeel_airflow.airflow_versions import AirflowFailException
from evenkeel_airflow.operators import SparkJob, spark_job
from evenkeel_airflow.operators.driver_python import driver_python
from partitioning.errors import SetupError
from tests.support.worlds.shop import Shop
# isort: on

pytestmark = pytest.mark.airflow


def test_a_driver_here_runs_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    driver, workers = "spark.pyspark.driver.python", "spark.pyspark.python"
    assert driver_python("local[2]", {}) == {driver: sys.executable, workers: sys.executable}
    assert driver_python("spark://m:7077", {}) == {driver: sys.executable}
    # Spark takes the workers' setting before the driver's variable.
    chosen = {"PYSPARK_DRIVER_PYTHON": "/opt/python"}
    assert driver_python("local[2]", chosen) == {driver: "/opt/python", workers: sys.executable}
    # A program of the name python3 that is first on PATH and has no Evenkeel.
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    shop, job = Shop(tmp_path), tmp_path / "learn.py"
    job.write_text(f"import sys\nopen({str(tmp_path / 'ran')!r}, 'w').write(sys.executable)\n")
    monkeypatch.setattr("evenkeel_airflow.operators.spark_job.job_file", lambda _: str(job))
    with DAG("rebalance_d"):
        task = SparkJob(task_id="learn", job="learn", arguments={"--spec": shop.spec})
    task.execute({})
    assert (tmp_path / "ran").read_text() == sys.executable


def test_a_connection_that_airflow_does_not_have_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's hook would take a YARN that nobody named."""
    submit = tmp_path / "spark-submit"
    submit.write_text(f"#!/bin/sh\ntouch {tmp_path}/submitted\n")
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    given = {"conn_id": "spark_prd", "arguments": {"--spec": Shop(tmp_path).spec}}
    with DAG("rebalance_d"):
        task = SparkJob(task_id="learn", job="learn", **given)
    # Airflow says the same while it cannot ask, so it is tried again.
    with pytest.raises(AirflowException, match="spark_prd: .*connections add spark_prd") as raised:
        task.execute({})
    assert not isinstance(raised.value, AirflowFailException)
    assert not (tmp_path / "submitted").exists()


def ended_with(code: int, folder: Path, patch: pytest.MonkeyPatch, **given: Any) -> SparkJob:
    """A task whose spark-submit ends with a code, on a worker that has no Java itself."""
    submit = folder / "spark-submit"
    submit.write_text(f"#!/bin/sh\nexit {code}\n")
    submit.chmod(0o755)
    patch.setenv("PATH", str(folder))
    for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR"):
        patch.delenv(name, raising=False)
    with DAG("maintain_d", default_args=given):
        return SparkJob(task_id="maintain", job="maintain", arguments={"--spec": Shop(folder).spec})


def test_a_worker_without_java_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ended_with(1, tmp_path, monkeypatch)
    with pytest.raises(AirflowFailException, match="expected a Java for Spark.*evenkeel doctor"):
        task.execute({})


def test_a_driver_that_lacks_a_package_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not read its options, so it leaves no error file."""

    def lacks() -> None:
        raise SetupError("delta is not installed", fix="Run: pip install delta-spark")

    other = {"PYSPARK_DRIVER_PYTHON": "/opt/python"}
    task = ended_with(CANNOT_START, tmp_path, monkeypatch, env_vars=other)
    with pytest.raises(AirflowFailException, match="job maintain did not start.*evenkeel: error:"):
        task.execute({})
    # The worker's own Python lacks it, so the task has the command.
    task = ended_with(CANNOT_START, tmp_path, monkeypatch)
    monkeypatch.setattr(spark_job, "check_spark_here", lacks)
    with pytest.raises(AirflowFailException, match="^delta is not installed. Run: pip install"):
        task.execute({})


@pytest.mark.parametrize(("code", "own_java"), [(1, True), (2, True), (137, False), (143, True)])
def test_a_driver_that_was_killed_is_tried_again_whatever_java_the_worker_has(
    code: int, own_java: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only `env_vars` of the task may know the Java, and a driver that ran has had one."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(0o755)
    given = {"env_vars": {"JAVA_HOME": str(tmp_path)}} if own_java else {}
    task = ended_with(code, tmp_path, monkeypatch, **given)
    with pytest.raises(AirflowException, match=f"Error code is: {code}") as raised:
        task.execute({})
    assert not isinstance(raised.value, AirflowFailException)


def test_a_python_that_env_vars_name_runs_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"PYSPARK_DRIVER_PYTHON": "/opt/python"}
    task = ended_with(0, tmp_path, monkeypatch, env_vars=chosen)
    assert task._get_hook()._conf["spark.pyspark.driver.python"] == "/opt/python"


def test_a_worker_without_spark_submit_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with DAG("maintain_d"):
        task = SparkJob(
            task_id="maintain", job="maintain", arguments={"--spec": Shop(tmp_path).spec}
        )
    said = "spark-submit is not on PATH. Start Airflow with .* on PATH"
    with pytest.raises(AirflowFailException, match=said):
        task.execute({})
    # Another file is missing.
    (tmp_path / "spark-submit").write_text("#!/gone\n")
    (tmp_path / "spark-submit").chmod(0o755)
    with pytest.raises(FileNotFoundError):
        task.execute({})


@pytest.mark.parametrize("shared", [False, True])
def test_a_job_that_was_killed_is_tried_again_where_spark_alone_knows_its_java(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = tmp_path / "spark-submit"
    submit.write_text("#!/bin/sh\nexit 137\n")
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if shared:
        # The Spark that stays up has a Java of its own.
        monkeypatch.setenv("EVENKEEL_SPARK", str(tmp_path / "spark"))
        monkeypatch.setattr(spark_job, "job_command", lambda *_: [str(submit)])
    else:
        (tmp_path / "spark-env.sh").touch()
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with DAG("maintain_d"):
        task = SparkJob(
            task_id="maintain", job="maintain", arguments={"--spec": Shop(tmp_path).spec}
        )
    with pytest.raises(AirflowException, match="137") as raised:
        task.execute({})
    assert not isinstance(raised.value, AirflowFailException)


def test_a_spark_that_is_not_up_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", str(tmp_path / "spark"))
    with DAG("rebalance_d"):
        task = SparkJob(
            task_id="learn", job="learn", arguments={"--spec": Shop(tmp_path).spec, "--run": "r"}
        )
    with pytest.raises(AirflowException, match="the job learn ended with 75") as raised:
        task.execute({})
    assert not isinstance(raised.value, AirflowFailException)
    assert "expected a Spark that stays up, found none" in capsys.readouterr().out


def test_a_job_in_a_spark_that_stays_up_ends_when_its_task_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", str(tmp_path / "spark"))
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(spark_job, "job_command", lambda *_: sleeps)
    with DAG("maintain_d"):
        task = SparkJob(task_id="maintain", job="maintain", arguments={"--spec": "s"})
    monkeypatch.setattr(task, "_error_left", lambda _: None)
    killer = threading.Timer(1, task.on_kill)
    killer.start()
    with pytest.raises(AirflowException, match="ended with -15"):
        task.execute({})
