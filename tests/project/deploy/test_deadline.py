"""Airflow's own scheduler and triggerer report a run that is late, by the page's code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.alerts.promql import file_text
from tests.support.alerts.receivers import json_receiver
from tests.support.docs.reader import HOW_TO

pytestmark = pytest.mark.airflow

#: Its tasks wait for ever: no pool has that name.
DAG_FILE = """from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

for name in ("rebalance_t", "maintain_t"):
    with DAG(name, schedule=None, tags=["evenkeel"]):
        EmptyOperator(task_id="wait", pool="nobody")
"""
#: Seconds within which the alert comes on a busy machine; alone it takes 15.
SOON = 180


def test_a_late_run_is_told_of(tmp_path: Path) -> None:
    code = file_text(HOW_TO / "operate/alerts.md", "airflow/config/airflow_local_settings.py")
    assert code.count("timedelta(hours=2)") == 1
    config, dags = tmp_path / "home" / "config", tmp_path / "dags"
    config.mkdir(parents=True)
    dags.mkdir()
    (config / "airflow_local_settings.py").write_text(code.replace("hours=2", "seconds=5"))
    (dags / "t.py").write_text(DAG_FILE)
    with json_receiver() as (url, heard), ExitStack() as started:
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")},
            "AIRFLOW_HOME": str(tmp_path / "home"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "ALERT_URL": url,
        }
        for words in (
            ("db", "migrate"),
            ("dags", "reserialize"),
            ("dags", "unpause", "rebalance_t"),
            ("dags", "unpause", "maintain_t"),
            ("dags", "trigger", "rebalance_t", "--run-id", "r1"),
            ("dags", "trigger", "maintain_t", "--run-id", "r2"),
        ):
            done = subprocess.run(_airflow(*words), env=env, capture_output=True, text=True)
            assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        logs = [_start(started, part, env, tmp_path) for part in ("scheduler", "triggerer")]
        until = time.monotonic() + SOON
        while not heard and time.monotonic() < until:
            time.sleep(0.5)
        assert heard, [log.read_text()[-2000:] for log in logs]
        # The other run is as late.
        time.sleep(6)
        assert heard == [{"dag": "rebalance_t", "run": "r1", "error": "late"}]


def _airflow(*words: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *words]


def _start(started: ExitStack, part: str, env: dict[str, str], folder: Path) -> Path:
    """Start a part of Airflow until the test ends; return its log."""
    log = folder / f"{part}.log"
    process = subprocess.Popen(
        _airflow(part),
        env=env,
        cwd=folder,
        stdout=started.enter_context(log.open("w")),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    started.callback(process.wait)
    started.callback(os.killpg, process.pid, signal.SIGKILL)
    return log
