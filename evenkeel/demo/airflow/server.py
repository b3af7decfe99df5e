"""Airflow on this machine: four processes on 127.0.0.1, each in a session of its own, so that it
ends with all that it has started."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from evenkeel.demo.airflow.client import Api, ApiError
from evenkeel.demo.table_run import StepFailed
from partitioning.errors import InputError

HOST = "127.0.0.1"
#: What runs, in the order in which it is stopped.
PROCESSES: dict[str, tuple[str, ...]] = {
    # Logs are read as files: nothing listens for them.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "api-server": ("api-server",),
}
#: Seconds from being asked to stop to being told, from there to being killed.
PATIENCE, GRACE = 3.0, 10.0


def free_port(wanted: int | None) -> int:
    """`wanted` if it is free, else InputError; None: 8080, or any that is free."""
    for port in (8080, 0) if wanted is None else (wanted,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError):
                continue
            return int(probe.getsockname()[1])
    raise InputError(f"{HOST}:{wanted} cannot be listened on", "PORT", "Give another, or none")


def prepare_home(home: Path, database: Path, users: Mapping[str, str]) -> dict[str, str]:
    """Airflow's folder as it is left between two starts: history, secrets, passwords; returns the
    password of each user.

    Parameters
    ----------
    database : copied where there is none yet
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


def write_private(file: Path, text: str) -> None:
    """Replace a file by one that only we can read."""
    fresh = file.with_name(f".{file.name}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    fresh.replace(file)


def settings(home: Path, port: int, users: Mapping[str, str], schedules: bool) -> dict[str, str]:
    """Of every Airflow process, over what a replay sets."""
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
        # What was running when all was stopped is soon known to be gone.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        # A new spec is a table within a minute; parsing more often takes a core from Spark.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        # The proxy of a company does not know this machine, and macOS forbids asking after a fork.
        "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY"), HOST, "localhost"])),
    }


@dataclass
class Server:
    """The processes of one Airflow.

    Parameters
    ----------
    url : where its pages are
    environment : of every process
    logs : a file for each process goes here
    keep : descriptors that every process keeps open, such as a lock's
    """

    url: str
    environment: Mapping[str, str]
    logs: Path
    keep: Sequence[int] = ()
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def start(self) -> None:
        """Start them all; does not wait."""
        program = shutil.which("airflow", path=self.environment.get("PATH"))
        if program is None:
            raise InputError("airflow is not installed", fix="Run make setup")
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
                    preexec_fn=_end_with_parent,
                    pass_fds=tuple(self.keep),
                )

    def check(self) -> None:
        """StepFailed where a process has ended."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise StepFailed(f"airflow {name}", self._log(name), code)

    def waiting_for(self) -> list[str]:
        """Parts that are not healthy yet; a heartbeat from before the start does not count."""
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
        """End every process and all that they have started; returns when none is left."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        # Airflow would wait for running tasks, however long they take.
        for number, seconds in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, GRACE)):
            until = time.monotonic() + seconds
            while self.members() and time.monotonic() < until:
                time.sleep(0.2)
            _send(self.members(), number)
        while self.members():
            time.sleep(0.1)

    def members(self) -> list[int]:
        """Every process of our sessions that lives."""
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


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """In a new process: be ended by Linux if `make up` is killed outright."""
    if _LIBC is not None:
        pr_set_pdeathsig = 1
        _LIBC.prctl(pr_set_pdeathsig, signal.SIGTERM)
