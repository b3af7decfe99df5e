"""The topology of docker-compose.yml, without containers, as processes on loopback: a Spark master
and two workers, one of whose executors is killed while rows move; Airflow in its parts on
PostgreSQL, whose jobs run there; and epochs on an S3-compatible server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from evenkeel import steps
from evenkeel.epochs import Registry
from evenkeel.replay import airflow_environment
from evenkeel.up_api import Api
from evenkeel.up_server import Server, prepare_home, settings
from partitioning.errors import FenceError
from tests.chaos.home import contents
from tests.conftest import World
from tests.test_epochs import TABLES, after, first

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
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


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="executors are found in /proc")
@pytest.mark.skipif("EVENKEEL_CLUSTER" not in os.environ, reason="minutes long: make cluster")
def test_a_migration_on_a_cluster_that_loses_an_executor(
    spark: SparkSession, ready: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cluster")
    before = contents(spark, ready)
    log = folder / "driver.log"
    path = Path(ready.table.spec.state["totals"].path)
    with cluster(folder) as (url, page):
        job = ROOT / "spark_jobs" / "in_turn.py"
        conf = "--conf spark.executor.memory=512m --conf spark.driver.host=127.0.0.1"
        submit = f"--master {url} {conf} pyspark-shell"
        with process(log, sys.executable, str(job), PYSPARK_SUBMIT_ARGS=submit) as driver:
            assert driver.stdin
            ended = 0

            def run(
                name: str, *arguments: str, meanwhile: Callable[[], None] | None = None
            ) -> None:
                nonlocal ended
                ended += 1
                asked = [name, "--spec", ready.spec_path, "--run", "r1", *arguments]
                driver.stdin.write(json.dumps(asked) + "\n")
                driver.stdin.flush()
                if meanwhile is not None:
                    meanwhile()
                said = "evenkeel: exit"
                until(lambda: log.read_text().count(said) == ended, log)
                assert re.findall(rf"{said} (\d+)", log.read_text()) == ["0"] * ended

            def lose_one() -> None:
                commits = len(list((path / "_delta_log").glob("*.json")))
                until(lambda: len(list((path / "_delta_log").glob("*.json"))) > commits, log)
                os.kill(executors(folder)[0], signal.SIGKILL)

            run("learn")
            workers = answer(page)["workers"]
            assert [w["coresused"] for w in workers] == [1, 1]
            steps.decide(ready.spec_path, "r1", steps.Params(force=True))
            digest = steps.plan(ready.spec_path, "r1", steps.Params(force=True))
            run("migrate", "--digest", digest, meanwhile=lose_one)
            run("verify", "--digest", digest)
    assert steps.publish(ready.spec_path, "r1") == 1
    assert contents(spark, ready) == before
    rows = spark.read.format("delta").load(str(path)).select("channel", "dest").collect()
    owners = ready.table.epoch().lookup([r["dest"] for r in rows])
    assert [r["channel"] for r in rows] == owners.tolist()


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


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.skipif("EVENKEEL_CLUSTER" not in os.environ, reason="minutes long: make cluster")
@pytest.mark.timeout(1800)
def test_a_rebalance_by_airflow_on_postgresql_with_spark_on_a_cluster(
    spark: SparkSession, ready: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for module in ("airflow", "psycopg2", "asyncpg"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("topology")
    before, port, users = contents(spark, ready), free_port(), {"ada": "admin"}
    with ExitStack() as running:
        database = running.enter_context(postgresql(folder / "postgresql.log"))
        url, _ = running.enter_context(cluster(folder))
        host, _, spark_port = url.rpartition(":")
        environment = {
            **airflow_environment(folder, ready.folder),
            **settings(folder / "home", port, users, schedules=False),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
                {
                    "conn_type": "spark",
                    "host": host,
                    "port": int(spark_port),
                    "extra": {"deploy-mode": "client"},
                }
            ),
        }
        log = folder / "migrate.log"
        with log.open("w") as out:
            made = subprocess.call(["airflow", "db", "migrate"], env=environment, stdout=out,
                                   stderr=out)  # fmt: skip
        assert made == 0, log.read_text()[-3000:]
        nothing = folder / "nothing.db"
        nothing.touch()
        passwords = prepare_home(folder / "home", nothing, users)
        server = Server(f"http://127.0.0.1:{port}", environment, folder / "logs")
        running.callback(server.stop)
        server.start()
        until(lambda: server.check() or not server.waiting_for(), folder / "logs" / "scheduler.log")
        api = Api(server.url, "ada", passwords["ada"])
        until(lambda: "rebalance_trips" in api.dags(), folder / "logs" / "dag-processor.log")
        run = api.trigger("rebalance_trips", force=True, window_end="2013-01-08")
        state = api.wait("rebalance_trips", run, 900)
        tasks = api.tasks("rebalance_trips", run)
        assert state == "success", tasks
        assert tasks["publish"] == "success" and tasks["roll_back"] == "skipped"
        # Its history is there, and nowhere else.
        assert (folder / "home" / "airflow.db").read_bytes() == b""
        done = [p for n in range(2) for p in (folder / f"work{n}").glob("app-*")]
        assert len({p.name for p in done}) == 3, "learn, migrate and verify ran on the workers"
    assert server.members() == []
    assert ready.table.epoch().number == 1
    assert contents(spark, ready) == before


def test_of_many_racers_on_s3_one_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3fs = pytest.importorskip("s3fs")
    port, log = free_port(), tmp_path / "server.log"
    url = f"http://127.0.0.1:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    with process(log, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)):
        until(lambda: answer(f"{url}/moto-api/data.json") is not None, log)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("lake")
        registry = Registry("s3://lake/evenkeel/t")
        registry.store.check_exclusive()
        registry.publish(first(), TABLES)
        rivals = [after(first(), np.full(8, i % 2, dtype=np.int32)) for i in range(8)]

        def publish(i: int) -> str | None:
            try:
                return registry.publish(rivals[i], TABLES, f"plan {i}").plan_digest
            except FenceError:
                return None

        with ThreadPoolExecutor(8) as pool:
            won = [digest for digest in pool.map(publish, range(8)) if digest]
        assert len(won) == 1
        assert registry.current().plan_digest == won[0]
        assert registry.numbers() == [0, 1]
        registry.run("r1").write_json("plan.json", {"a": 1})
        assert registry.run("r1").read_json("plan.json") == {"a": 1}
        assert not [f for f in s3fs.S3FileSystem().find("lake") if "probe" in f]
