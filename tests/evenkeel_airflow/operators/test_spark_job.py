"""How a Spark job is submitted or run in a Spark that is up, and found again on YARN."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import airflow_env  # noqa: F401  it sets the environment

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk import DAG

from evenkeel.registry.job_error import leave_error
from evenkeel_airflow.airflow_versions import REMEMBERS_DRIVERS, AirflowFailException
from evenkeel_airflow.operators import SparkJob, spark_job
from evenkeel_airflow.operators.spark_job import driver_python
from partitioning.errors import InputError, UnreachableError
from tests.support.worlds.shop import Shop
# isort: on

pytestmark = pytest.mark.airflow

#: Stands for spark-submit on a machine without YARN: notes its arguments, and says what YARN says.
SUBMIT = """#!/bin/sh
echo "$@" >> {folder}/submitted
echo "Submitted application application_1_0001"
"""
RUNNING, FAILED = ("RUNNING", "UNDEFINED"), ("FINISHED", "FAILED")
SUCCEEDED, FORGOTTEN = ("FINISHED", "SUCCEEDED"), ("", "")


class TaskState(dict[str, Any]):
    """What Airflow 3.3 keeps for a task over its tries."""

    set = dict.__setitem__


@pytest.fixture
def manager() -> Iterator[ThreadingHTTPServer]:
    """A resource manager of YARN on loopback: it gives each of `said`, the last one for ever."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = self.server.said  # type: ignore[attr-defined]
            state, final = said.pop(0) if len(said) > 1 else said[0]
            body = json.dumps({"app": {"state": state, "finalStatus": final}}).encode()
            self.send_response(404 if (state, final) == FORGOTTEN else 200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


class Yarn:
    """A table, its connection to YARN in cluster mode, and tries of its task `learn`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, address: str | None) -> None:
        self.shop, self.folder, self.kept = Shop(folder), folder, TaskState()
        program = folder / "bin" / "spark-submit"
        program.parent.mkdir()
        program.write_text(SUBMIT.format(folder=folder))
        program.chmod(0o755)
        patch.setenv("PATH", str(program.parent), prepend=":")
        extra = {"deploy-mode": "cluster"}
        if address:
            extra["yarn_resourcemanager_webapp_address"] = address
        connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        patch.setattr(spark_submit.time, "sleep", lambda _: None)

    def attempt(self, name: str) -> None:
        with DAG("rebalance_d"):
            task = SparkJob(
                task_id="learn",
                job="learn",
                arguments={"--spec": self.shop.spec, "--run": "fails"},
            )
        task.application_args[-1] = name
        task.execute({"task_state_store": self.kept})

    def left(self, attempt: str, error: Exception) -> None:
        """Leave an error file, as a driver that fails does."""
        leave_error(self.shop.registry, "learn", "rebalance_d--fails", attempt, error)

    @property
    def submitted(self) -> list[str]:
        return (self.folder / "submitted").read_text().splitlines()


@pytest.mark.skipif(not REMEMBERS_DRIVERS, reason="Airflow 3.3 or newer keeps a driver's id")
def test_a_retry_finds_the_driver_on_yarn_and_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: ThreadingHTTPServer
) -> None:
    yarn = Yarn(tmp_path, monkeypatch, f"127.0.0.1:{manager.server_port}")
    manager.said = [SUCCEEDED]  # type: ignore[attr-defined]
    yarn.attempt("first")
    assert "--attempt first" in yarn.submitted[0]
    # The first try's worker went away while the driver ran on, and failed by wrong input.
    manager.said = [RUNNING, FAILED]  # type: ignore[attr-defined]
    yarn.left("first", InputError("no column day"))
    with pytest.raises(AirflowFailException, match="^no column day$"):
        yarn.attempt("second")
    assert len(yarn.submitted) == 1
    # An error that may pass is tried again, by a new driver that carries its own try's name.
    manager.said = [FAILED]  # type: ignore[attr-defined]
    yarn.left("third", UnreachableError("the store is down"))
    with pytest.raises(RuntimeError, match="final status: FAILED"):
        yarn.attempt("third")
    assert "--attempt third" in yarn.submitted[1]


@pytest.mark.parametrize("earlier", [SUCCEEDED, FORGOTTEN])
def test_a_cleared_task_runs_although_its_driver_has_ended(
    earlier: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    manager: ThreadingHTTPServer,
) -> None:
    """Rows may have moved since: roll_back of a second attempt must not be taken for done."""
    yarn = Yarn(tmp_path, monkeypatch, f"127.0.0.1:{manager.server_port}")
    manager.said = [SUCCEEDED]  # type: ignore[attr-defined]
    yarn.attempt("first")
    manager.said = [earlier, SUCCEEDED]  # type: ignore[attr-defined]
    yarn.attempt("cleared")
    assert ["--attempt cleared" in line for line in yarn.submitted] == [False, True]


def test_yarn_without_an_address_submits_and_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    yarn = Yarn(tmp_path, monkeypatch, None)
    yarn.attempt("first")
    assert len(yarn.submitted) == 1 and "waitAppCompletion=false" not in yarn.submitted[0]
    said = "A retry cannot find this driver again: the connection spark_default has no yarn_re"
    assert said in capsys.readouterr().out


def test_an_airflow_that_remembers_no_driver_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    manager: ThreadingHTTPServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(spark_job, "REMEMBERS_DRIVERS", False)
    manager.said = [SUCCEEDED]  # type: ignore[attr-defined]
    Yarn(tmp_path, monkeypatch, f"127.0.0.1:{manager.server_port}").attempt("first")
    said = "A retry cannot find this driver again: this Airflow is older than 3.3"
    assert said in capsys.readouterr().out


def test_a_driver_here_runs_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    driver, workers = "spark.pyspark.driver.python", "spark.pyspark.python"
    assert driver_python("local[2]") == {driver: sys.executable, workers: sys.executable}
    assert driver_python("spark://m:7077") == {driver: sys.executable}
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/opt/python")
    assert driver_python("spark://m:7077") == {}
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON")
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


def test_a_worker_without_java_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = tmp_path / "spark-submit"
    submit.write_text("#!/bin/sh\necho JAVA_HOME is not set\nexit 1\n")
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with DAG("maintain_d"):
        task = SparkJob(
            task_id="maintain", job="maintain", arguments={"--spec": Shop(tmp_path).spec}
        )
    with pytest.raises(AirflowFailException, match="expected a Java for Spark.*evenkeel doctor"):
        task.execute({})


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
