"""`make up` itself, asked as programs ask it; the last test stops it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

import psutil
import pytest

from evenkeel.demo.airflow.client import Api, ApiError
from evenkeel.demo.airflow.load_tables import incomplete
from evenkeel.table import open_table
from tests.evenkeel_ui.browser.conftest import RUN, TEST, Site

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(TEST)]


def test_it_is_healthy_and_knows_the_tables(site: Site) -> None:
    told = site.told
    assert (site.folder / "up.json").stat().st_mode & 0o777 == 0o600
    health = Api(told["url"]).get("/api/v2/monitor/health")
    parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    assert {name: health[name]["status"] for name in parts} == dict.fromkeys(parts, "healthy")
    with pytest.raises(ApiError) as refused:
        Api(told["url"]).dags()
    assert refused.value.status == 401
    dags = Api(told["url"], told["user"], told["password"]).get("/api/v2/dags")["dags"]
    assert {d["dag_id"]: d["is_paused"] for d in dags} == {
        f"{what}_flights": False
        for what in ("rebalance", "roll_back", "repair", "maintain", "apply")
    }
    assert told["password"] in site.output


def test_two_workers_answer_this_machine_alone(site: Site) -> None:
    heard = [
        (process.pid, listening.laddr)
        for process in site.members()
        for listening in process.net_connections()
        if listening.status == psutil.CONN_LISTEN
    ]
    assert heard and {at.ip for _, at in heard} <= {"127.0.0.1", "::ffff:127.0.0.1"}
    # The server and its two workers share the socket.
    assert len({pid for pid, at in heard if at.port == urlsplit(site.url).port}) == 3


def test_a_second_one_says_that_it_is_running(site: Site) -> None:
    command = [sys.executable, "-m", "evenkeel.demo.airflow.up", "--folder", str(site.folder)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert f"make up is running here, at {site.url}" in second.stderr


def test_it_stops_and_leaves_nothing(site: Site) -> None:
    # Processes that a task has started must end, too: stop while a Spark job runs.
    api, dag = site.api("op"), "rebalance_flights"
    run = api.trigger(dag, dry_run=True, force=True, relearn=True)
    until = time.monotonic() + RUN
    while "java" not in (names := _names(site)):
        state, tasks = api.state(dag, run), api.tasks(dag, run)
        told = f"the run is {state}: {tasks}; no java of {names}\n{site.failures()}"
        assert state in ("queued", "running") and time.monotonic() < until, told
        time.sleep(0.5)
    started = [p for p in site.members() if p.is_running()]
    assert len(started) > 5
    # Of make: interrupted, as a shell expects of what Ctrl-C ends.
    assert site.stop() in (-signal.SIGINT, 2, 130)
    assert "stopped: no process is left" in site.output
    assert site.members() == []
    # What nobody is left to wait for is a zombie until init has seen to it.
    assert not [p for p in started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not (site.folder / "up.json").exists()
    # The next start takes the tables as they are.
    assert incomplete(open_table(str(site.spec))) is None


def _names(site: Site) -> list[str]:
    found = []
    for process in site.members():
        with suppress(psutil.Error):
            found.append(process.name())
    return found
