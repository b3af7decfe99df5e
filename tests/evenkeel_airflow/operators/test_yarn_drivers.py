"""How a retry finds a driver on YARN again, and when it cannot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
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
#: The resource manager is there, and has no answer.
SILENT = ("", "silent")


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
            self.send_response({FORGOTTEN: 404, SILENT: 503}.get((state, final), 200))
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

    def attempt(self, name: str, max_tries: int = 2) -> None:
        ti = SimpleNamespace(max_tries=max_tries, stats_tags={})
        with DAG("rebalance_d"):
            task = SparkJob(
                task_id="learn",
                job="learn",
                arguments={"--spec": self.shop.spec, "--run": "fails"},
            )
        task.application_args[-1] = name
        task.execute({"task_state_store": self.kept, "ti": ti})

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


@pytest.mark.skipif(not REMEMBERS_DRIVERS, reason="Airflow 3.3 or newer keeps a driver's id")
def test_while_yarn_is_silent_an_old_error_ends_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: ThreadingHTTPServer
) -> None:
    yarn = Yarn(tmp_path, monkeypatch, f"127.0.0.1:{manager.server_port}")
    manager.said = [FAILED]  # type: ignore[attr-defined]
    yarn.left("first", InputError("no column day"))
    with pytest.raises(AirflowFailException, match="^no column day$"):
        yarn.attempt("first")
    # Its cause is mended, and the task is cleared, while the resource manager is down.
    manager.said = [SILENT]  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="HTTP 503"):
        yarn.attempt("cleared")
    manager.said = [FAILED, SUCCEEDED]  # type: ignore[attr-defined]
    yarn.attempt("again")


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
    yarn.attempt("cleared", max_tries=3)
    assert ["--attempt cleared" in line for line in yarn.submitted] == [False, True]


@pytest.mark.skipif(not REMEMBERS_DRIVERS, reason="Airflow 3.3 or newer keeps a driver's id")
def test_a_retry_takes_the_result_of_a_driver_that_has_ended_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: ThreadingHTTPServer
) -> None:
    """Airflow needs minutes to see that a worker is dead."""
    yarn = Yarn(tmp_path, monkeypatch, f"127.0.0.1:{manager.server_port}")
    manager.said = [SUCCEEDED]  # type: ignore[attr-defined]
    yarn.attempt("first")
    yarn.attempt("second")
    assert len(yarn.submitted) == 1
    # Somebody clears it, and the new driver cannot be submitted. The old one does not count.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_submit.SparkSubmitHook, "submit", _fail)
        with pytest.raises(AirflowException, match="the queue is full"):
            yarn.attempt("cleared", max_tries=5)
    yarn.attempt("again", max_tries=5)
    assert "--attempt again" in yarn.submitted[1]


@pytest.mark.skipif(not REMEMBERS_DRIVERS, reason="Airflow 3.3 or newer keeps a driver's id")
def test_a_stop_of_a_retry_ends_the_driver_that_it_has_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: ThreadingHTTPServer
) -> None:
    """Airflow's hook learns the driver's id from spark-submit alone, which ran in another try."""
    yarn, killed = Yarn(tmp_path, monkeypatch, f"127.0.0.1:{manager.server_port}"), []
    manager.said = [SUCCEEDED]  # type: ignore[attr-defined]
    yarn.attempt("first")
    hooks = spark_submit.SparkSubmitHook
    monkeypatch.setattr(hooks, "_kill_yarn_application", lambda _, driver: killed.append(driver))

    def stopped(hook: Any, _: str) -> None:
        hook.on_kill()

    monkeypatch.setattr(hooks, "_start_yarn_application_status_tracking", stopped)
    manager.said = [RUNNING]  # type: ignore[attr-defined]
    yarn.attempt("second")
    assert killed == ["application_1_0001"] and len(yarn.submitted) == 1


def _fail(*_: Any) -> None:
    raise AirflowException("the queue is full")


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


@pytest.mark.parametrize("address", [None, "127.0.0.1:1"])
def test_a_provider_that_finds_no_driver_on_yarn_says_so(
    address: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hook of a provider before 6.2 asks no resource manager, whatever the connection has."""

    def older(hook: Any, *args: Any, **kwargs: Any) -> None:
        starts(hook, *args, **kwargs)
        del hook._is_yarn_cluster_mode, hook._yarn_track_via_rm_api

    yarn = Yarn(tmp_path, monkeypatch, address)
    with DAG("rebalance_d"):
        task = SparkJob(task_id="learn", job="learn", arguments={"--spec": yarn.shop.spec})
    starts = spark_submit.SparkSubmitHook.__init__
    monkeypatch.setattr(spark_submit.SparkSubmitHook, "__init__", older)
    task._get_hook()
    said = "A retry cannot find this driver again: Airflow's Spark provider is older than 6.2"
    assert said in capsys.readouterr().out
