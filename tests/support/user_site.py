"""An Airflow project of a user's own, in a virtual environment that sees nothing of this one."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.wheel import Venv

#: Seconds that Airflow's API server may take to start on a busy machine.
STARTS = 180


class Stopwatch:
    """Measures seconds, and how much of the machine other programs took meanwhile."""

    def __init__(self) -> None:
        self._began = time.monotonic(), _cpu_of_all(), _cpu_of_ours()

    def read(self) -> tuple[float, float]:
        """Return the seconds since it began, and the part of all cores that others took, 0 to 1."""
        began, all_, ours = self._began
        seconds = time.monotonic() - began
        others = (_cpu_of_all() - all_) - (_cpu_of_ours() - ours)
        return seconds, max(others, 0) / (seconds * (os.cpu_count() or 1))


def _cpu_of_all() -> float:
    """Seconds of CPU that all programs of this machine have taken since it started."""
    spent = psutil.cpu_times()
    return spent.user + spent.nice + spent.system


def _cpu_of_ours() -> float:
    """Seconds of CPU of this process and of all below it, also of those that have ended.

    A process that was killed before its parent waited for it is missing.
    """
    here = psutil.Process()
    spent = [here.cpu_times()]
    for process in here.children(recursive=True):
        with suppress(psutil.Error):
            spent.append(process.cpu_times())
    return sum(s.user + s.system + s.children_user + s.children_system for s in spent)


@dataclass(frozen=True)
class Site:
    """An Airflow project in a virtual environment that has the wheel."""

    venv: Venv
    project: Path

    @property
    def settings(self) -> dict[str, str]:
        """The user's own settings; none of them names a folder of specs."""
        return {
            "AIRFLOW_HOME": str(self.project / "home"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.project}/airflow.db",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.project / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "SPARK_CONF_DIR": str(self.project / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": str(self.project),
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the project's settings."""
        return self.venv.run(*command, **self.settings)

    def right(self, *command: str) -> str:
        """Run a command that must succeed; return what it prints."""
        done = self.run(*command)
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def rows(self, *command: str) -> list[dict[str, str]]:
        """Run an Airflow command and return the rows that it prints as JSON."""
        done = self.run("airflow", *command, "--output", "json")
        # Log lines stand before the rows; without rows there may be a sentence instead.
        found = re.search(r"^\[(?=\s*\{).*\]", done.stdout, re.M | re.S)
        # Airflow lists import errors and ends with 1.
        assert found or done.returncode == 0, (
            f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
        return json.loads(found[0]) if found else []

    @contextmanager
    def airflow(self) -> Iterator[str]:
        """Start Airflow: API server on loopback, scheduler and parser. Give the address."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = str(found.getsockname()[1])
        address = f"http://127.0.0.1:{port}"
        own = {
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        }
        parts = (
            ("api-server", "--host", "127.0.0.1", "--port", port),
            ("scheduler",),
            ("dag-processor",),
        )
        with ExitStack() as started:
            for part in parts:
                started.enter_context(self._started(part, own))
            yield address

    @contextmanager
    def _started(self, part: Sequence[str], own: Mapping[str, str]) -> Iterator[None]:
        with self._log(part[0]).open("w") as log:
            process = subprocess.Popen(
                [str(self.venv.bin / "airflow"), *part],
                cwd=self.project,
                env={**self.venv.environment(), **self.settings, **own},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _log(self, part: str) -> Path:
        return self.project / f"{part}.log"

    def state(self, dag: str, within: float) -> str:
        """Wait for the end of a DAG's only run; return its state, or what it is in after a time."""
        until = time.monotonic() + within
        while True:
            (run,) = self.rows("dags", "list-runs", dag)
            if run["state"] in ("success", "failed") or time.monotonic() > until:
                return run["state"]

    def page(self, url: str) -> str:
        """Log in as Airflow's administrator and get a page; wait for the server to start."""
        until = time.monotonic() + STARTS
        while (token := self._token(url)) is None:
            if time.monotonic() > until:
                raise AssertionError(self._log("api-server").read_text()[-4000:])
            time.sleep(0.5)
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.read().decode()

    def _token(self, url: str) -> str | None:
        """Return the administrator's token; None: the server does not answer yet."""
        file = self.project / "home" / "simple_auth_manager_passwords.json.generated"
        server = "/".join(url.split("/")[:3])
        try:
            body = {"username": "admin", "password": json.loads(file.read_text())["admin"]}
            asked = urllib.request.Request(
                f"{server}/auth/token",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return json.load(answer)["access_token"]
        except (OSError, ValueError, KeyError):
            return None
