"""Run Airflow on this machine: four processes on 127.0.0.1.

Each process has its own session, so that its children can be ended with it. `airflow standalone` is
no way instead (its code in 3.3). It looks at no process after the start, and ends none when it is
terminated by SIGTERM or SIGKILL. After Ctrl-C it waits for their end without limit.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from evenkeel.demo.airflow.client import Api, ApiError
from evenkeel.demo.spark_process import end_with_parent
from evenkeel.demo.table_run import StepFailed
from evenkeel.private_file import write_private
from partitioning.errors import InputError

HOST = "127.0.0.1"
#: Processes in the order in which they are stopped: name -> arguments of `airflow`.
PROCESSES: dict[str, tuple[str, ...]] = {
    # Logs are read as files, so no process needs to serve them.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "api-server": ("api-server",),
}
#: Seconds from SIGINT to SIGTERM, and from SIGTERM to SIGKILL.
TERM_SECONDS, KILL_SECONDS = 3.0, 10.0


def free_port(wanted: int | None) -> int:
    """Return a free port: `wanted`, or with None 8080 or any other.

    Raises
    ------
    InputError : `wanted` is not free
    """
    for port in (8080, 0) if wanted is None else (wanted,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError):
                continue
            return int(probe.getsockname()[1])
    raise InputError(
        f"{HOST}:{wanted} cannot be listened on", "PORT", "Give another port, or leave PORT out"
    )


def prepare_home(home: Path, database: Path, users: Mapping[str, str]) -> dict[str, str]:
    """Prepare Airflow's folder, and return user -> password.

    The folder keeps history, secrets and passwords between two starts.

    Parameters
    ----------
    database : empty database, copied if the folder has none
    users : name -> role
    """
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "airflow.db").is_file():
        shutil.copy(database, home / "airflow.db.new")
        (home / "airflow.db.new").rename(home / "airflow.db")
    if not (home / "airflow.cfg").is_file():
        fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        write_private(
            home / "airflow.cfg",
            f"[core]\nfernet_key = {fernet}\n[api]\nsecret_key = {secrets.token_hex(32)}\n"
            f"[api_auth]\njwt_secret = {secrets.token_hex(32)}\n",
        )
    try:
        known = json.loads((home / "passwords.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    passwords = {user: known.get(user) or secrets.token_urlsafe(12) for user in users}
    write_private(home / "passwords.json", json.dumps(passwords))
    return passwords


def settings(home: Path, port: int, users: Mapping[str, str], schedules: bool) -> dict[str, str]:
    """Return the settings of every Airflow process, in addition to those of a replay."""
    url = f"http://{HOST}:{port}"
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "2",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__AUTH_MANAGER": (
            "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{u}:{r}" for u, r in users.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": str(schedules),
        # After a restart, Airflow soon marks the tasks that ran before it as failed.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        # A new spec appears within a minute. Parsing more often takes a core away from Spark.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        # A company's proxy cannot reach this machine, and macOS forbids the look-up after a fork.
        "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY"), HOST, "localhost"])),
    }


@dataclass
class Server:
    """The processes of one Airflow.

    Parameters
    ----------
    url : URL of its pages
    environment : variables of every process
    logs : folder with one log per process
    keep : file descriptors that every process keeps open, such as that of a lock
    """

    url: str
    environment: Mapping[str, str]
    logs: Path
    keep: Sequence[int] = ()
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def start(self) -> None:
        """Start all processes, without waiting."""
        program = shutil.which("airflow", path=self.environment.get("PATH"))
        if program is None:
            raise InputError("the program airflow is not installed", fix="Run make setup")
        self.logs.mkdir(parents=True, exist_ok=True)
        for name, arguments in PROCESSES.items():
            with self._log(name).open("wb") as log:
                self._running[name] = subprocess.Popen(
                    [program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=dict(self.environment),
                    start_new_session=True,
                    preexec_fn=end_with_parent,
                    pass_fds=tuple(self.keep),
                )

    def check(self) -> None:
        """Raise StepFailed if a process has ended."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise StepFailed(f"airflow {name}", self._log(name), code)

    def waiting_for(self) -> list[str]:
        """Return the parts that are not healthy yet; heartbeats before the start do not count."""
        try:
            found = Api(self.url).get("/api/v2/monitor/health")
        except ApiError:
            return ["api-server"]
        waiting = [] if found["metadatabase"]["status"] == "healthy" else ["database"]
        for part in ("scheduler", "triggerer", "dag_processor"):
            beat = found[part].get(f"latest_{part}_heartbeat")
            alive = beat is not None and datetime.fromisoformat(beat) >= self._began
            if found[part]["status"] != "healthy" or not alive:
                waiting.append(part.replace("_", "-"))
        return waiting

    def stop(self) -> None:
        """End every process and its children, and wait until none is left."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        # Signals follow, because Airflow alone would wait for running tasks without limit.
        for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            until = time.monotonic() + seconds
            while self.members() and time.monotonic() < until:
                time.sleep(0.2)
            _send(self.members(), number)
        while self.members():
            time.sleep(0.1)

    def members(self) -> list[int]:
        """Return the ids of all live processes in our sessions."""
        import psutil

        sessions = {process.pid for process in self._running.values()}
        found = []
        for process in psutil.process_iter():
            try:
                mine = os.getsid(process.pid) in sessions
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
            except (OSError, psutil.Error):
                continue
        return found

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.log"


def _send(processes: Sequence[int], number: signal.Signals) -> None:
    for pid in processes:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
