"""Processes on loopback: a Spark master with workers, PostgreSQL, and an S3 that stalls."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.faults.gateway import Gateway
from tests.support.docs.readme import ROOT

#: Seconds that a process may take to do what is waited for.
PATIENCE = 240
#: Where Debian has PostgreSQL's own programs.
INITDB = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def process(log: Path, *command: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own; it and all that it started are gone afterwards."""
    with log.open("w") as out:
        started = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield started
        finally:
            # There is none any more if it has ended by itself.
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def until(what: Callable[[], Any], log: Path) -> Any:
    """What it says, once it says anything."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.1)
    return found


def answer(url: str) -> Any:
    """The JSON at a URL; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as page:
            return json.load(page)
    except OSError:
        return None


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, str]]:
    """A Spark master and two workers of one core; yields their address and the master's page."""
    port, web = free_port(), free_port()
    url, local = f"spark://127.0.0.1:{port}", {"SPARK_LOCAL_DIRS": str(folder)}
    spark_class, deploy = "spark-class", "org.apache.spark.deploy"
    master = [spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1"]
    worker = [spark_class, f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
    with ExitStack() as running:
        log = folder / "master.log"
        ports = ["--port", str(port), "--webui-port", str(web)]
        running.enter_context(process(log, *master, *ports, **local))
        for n in range(2):
            place = ["--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"work{n}")]
            running.enter_context(process(folder / f"worker{n}.log", *worker, *place, url, **local))
        page = f"http://127.0.0.1:{web}/json/"
        until(lambda: (answer(page) or {}).get("aliveworkers") == 2, log)
        yield url, page


def executors(folder: Path) -> list[int]:
    """Processes of the executors whose working folders are in this one."""
    listed = subprocess.run(["ps", "-Awwo", "pid=,args="], capture_output=True, text=True)
    found = (line.split(None, 1) for line in listed.stdout.splitlines())
    mine = [(pid, args) for pid, args in found if "CoarseGrainedExecutorBackend" in args]
    return [int(pid) for pid, _ in mine if str(folder) in str(Path(f"/proc/{pid}/cwd").readlink())]


@contextmanager
def postgresql(log: Path) -> Iterator[str]:
    """A database server of our own; yields what Airflow takes for its database."""
    if not (found := shutil.which("initdb") or max(INITDB, default=None)):
        pytest.skip("no PostgreSQL here (Debian: apt-get install postgresql)")
    programs, port = Path(found).parent, free_port()
    # It refuses to be root's, and pytest's folders are closed to others.
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder, log.open("wb") as out:
        if user:
            shutil.chown(folder, **user)
        where: dict[str, Any] = {"cwd": folder, "stdout": out, "stderr": out, **user}
        data = ("-D", f"{folder}/data")
        make = [programs / "initdb", *data, "-U", "airflow", "-E", "UTF8", "--auth=trust"]
        assert subprocess.call(make, **where) == 0, log.read_text()
        serve = [programs / "postgres", *data, "-h", "127.0.0.1", "-p", str(port), "-k", ""]
        server = subprocess.Popen(serve, **where)
        try:
            until(lambda: "ready to accept connections" in log.read_text(), log)
            yield f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"
        finally:
            # Fast shutdown: whoever is connected is sent away.
            server.send_signal(signal.SIGINT)
            server.wait()


@contextmanager
def store(log: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[subprocess.Popen[str], Gateway]]:
    """An S3-compatible server of our own, and the gateway before it, by what this process's
    environment says."""
    s3fs, port = pytest.importorskip("s3fs"), free_port()
    gateway = Gateway(port)
    url = f"http://127.0.0.1:{gateway.port}"
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
    }.items():
        patch.setenv(name, value)
    command = ("-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
    with process(log, sys.executable, *command) as server:
        until(lambda: answer(f"{url}/moto-api/data.json") is not None, log)
        s3fs.S3FileSystem.clear_instance_cache()
        yield server, gateway
    gateway.close()
