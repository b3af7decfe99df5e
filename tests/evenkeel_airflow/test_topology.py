"""The topology of docker-compose.yml, without containers, as processes on loopback: a Spark master
and two workers, one of whose executors is killed while rows move; and all of it at once, with the
files of `deploy/`: Airflow in its parts on PostgreSQL, whose jobs run there, and input, state and
epochs on an S3-compatible server, which stalls and refuses requests while rows move."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from evenkeel.demo.airflow.client import Api
from evenkeel.demo.airflow.server import Server, prepare_home, settings
from evenkeel.demo.flights import write_flights
from evenkeel.demo.replay import airflow_environment
from evenkeel.pipeline import steps
from evenkeel.registry.epochs import Registry
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from partitioning.errors import FenceError
from tests.chaos.home import contents
from tests.conftest import World
from tests.support.cases.topology import (
    PATIENCE,
    answer,
    cluster,
    executors,
    free_port,
    postgresql,
    process,
    store,
    until,
)
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.epochs import TABLES, after, first

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
#: Seconds that a store stands still, and that it refuses whatever it is asked.
STALL, REFUSE = 20, 5


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
        conf = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]

        def run(name: str, *arguments: str, meanwhile: Callable[[], None] | None = None) -> None:
            job = str(ROOT / "spark_jobs" / f"{name}.py")
            asked = [job, "--spec", ready.spec_path, "--run", "r1", *arguments]
            with process(log, "spark-submit", "--master", url, *conf, *asked) as driver:
                if meanwhile is not None:
                    meanwhile()
                assert driver.wait(PATIENCE) == 0, log.read_text()[-3000:]

        def lose_one() -> None:
            commits = len(list((path / "_delta_log").glob("*.json")))
            until(lambda: len(list((path / "_delta_log").glob("*.json"))) > commits, log)
            os.kill(executors(folder)[0], signal.SIGKILL)

        def take_both() -> None:
            until(lambda: [w["coresused"] for w in answer(page)["workers"]] == [1, 1], log)

        run("learn", meanwhile=take_both)
        steps.decide(ready.spec_path, "r1", steps.Params(force=True))
        digest = steps.plan(ready.spec_path, "r1", steps.Params(force=True))
        run("migrate", "--digest", digest, meanwhile=lose_one)
        run("verify", "--digest", digest)
    assert steps.publish(ready.spec_path, "r1") == 1
    assert contents(spark, ready) == before
    rows = spark.read.format("delta").load(str(path)).select("channel", "dest").collect()
    owners = ready.table.epoch().lookup([r["dest"] for r in rows])
    assert [r["channel"] for r in rows] == owners.tolist()


def deployed(conf: Path) -> str:
    """Spark's defaults as a container gets them, with the class path of this machine."""
    jars = ROOT / ".jars"
    classes = ":".join(map(str, (jars / "*", jars / "s3" / "*")))
    text = (ROOT / "deploy" / "spark" / "spark-defaults.conf").read_text()
    for name, value in {
        "spark.driver.extraClassPath": classes,
        "spark.executor.extraClassPath": classes,
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }.items():
        text += f"{name} {value}\n"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(text)
    said = subprocess.run(
        [ROOT / "deploy" / "entry.sh", "printenv", "SPARK_CONF_DIR"],
        env={
            **os.environ,
            "SPARK_CONF_DIR": str(conf),
            "SPARK_SECRET": "of this test",
            "TMPDIR": str(conf.parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    made = Path(said.stdout.strip())
    assert made.stat().st_mode & 0o077 == 0
    return str(made)


#: Each row of the state of `deploy/tables/flights.yaml`, by a Spark of its own.
ROWS = """
import json, sys
from evenkeel.spec.loading import load_spec
from evenkeel_spark.runtime.session import session
spec, spark = load_spec(sys.argv[1]), session("rows", spark_master="local[1]")
rows = spark.read.format("delta").load(spec.state["flights"].path)
rows = rows.select("dest", "channel", "flights", "miles", "delay").collect()
print("rows:", json.dumps([[r[0], r[1], r[2], float(r[3]), float(r[4])] for r in rows]))
"""


@pytest.mark.airflow
@pytest.mark.skipif("EVENKEEL_CLUSTER" not in os.environ, reason="minutes long: make cluster")
@pytest.mark.timeout(1800)
def test_a_rebalance_by_airflow_on_postgresql_with_spark_on_a_cluster_and_all_data_on_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("airflow", "psycopg2", "asyncpg"):
        pytest.importorskip(module)
    port, users, tables = free_port(), {"ada": "admin"}, ROOT / "deploy" / "tables"
    spec = str(tables / "flights.yaml")
    with ExitStack() as running:
        server, gateway = running.enter_context(store(tmp_path / "s3.log", monkeypatch))
        monkeypatch.setenv("SPARK_CONF_DIR", deployed(tmp_path / "conf"))
        database = running.enter_context(postgresql(tmp_path / "postgresql.log"))
        url, _ = running.enter_context(cluster(tmp_path))
        host, _, spark_port = url.rpartition(":")
        environment = {
            **airflow_environment(tmp_path, tables),
            **settings(tmp_path / "home", port, users, schedules=False),
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

        def ends_well(*command: str) -> str:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-3000:]}"
            return done.stdout

        def rows() -> list[list[Any]]:
            said = ends_well(sys.executable, "-c", ROWS, spec)
            return sorted(json.loads(re.findall(r"^rows: (.*)$", said, re.MULTILINE)[-1]))

        ends_well(sys.executable, "deploy/bucket.py", "evenkeel")
        job = str(ROOT / "spark_jobs" / "bootstrap.py")
        ends_well("spark-submit", "--master", url, job, "--spec", spec, "--end", "2013-01-29")
        before = rows()
        ends_well("airflow", "db", "migrate")
        nothing = tmp_path / "nothing.db"
        nothing.touch()
        passwords = prepare_home(tmp_path / "home", nothing, users)
        airflow = Server(f"http://127.0.0.1:{port}", environment, tmp_path / "logs")
        running.callback(airflow.stop)
        airflow.start()
        log = tmp_path / "logs" / "scheduler.log"
        until(lambda: airflow.check() or not airflow.waiting_for(), log)
        api = Api(airflow.url, "ada", passwords["ada"])
        until(lambda: "rebalance_flights" in api.dags(), tmp_path / "logs" / "dag-processor.log")
        table = Table(load_spec(spec))
        s3 = importlib.import_module("s3fs").S3FileSystem()

        def commits() -> int:
            s3.invalidate_cache()
            return len(s3.glob(f"{table.spec.state['flights'].path[6:]}/_delta_log/*.json"))

        made = commits()
        run = api.trigger("rebalance_flights", force=True, window_end="2013-01-29")
        until(lambda: commits() > made, log)
        os.killpg(server.pid, signal.SIGSTOP)
        time.sleep(STALL)
        os.killpg(server.pid, signal.SIGCONT)
        gateway.refuse(True)
        time.sleep(REFUSE)
        gateway.refuse(False)
        assert gateway.refused > 0, "nobody asked the store while it refused"
        state = api.wait("rebalance_flights", run, 900)
        tasks = api.tasks("rebalance_flights", run)
        assert state == "success", tasks
        assert tasks["publish"] == "success" and tasks["roll_back"] == "skipped"
        # Its history is there, and nowhere else.
        assert (tmp_path / "home" / "airflow.db").read_bytes() == b""
        done = [p for n in range(2) for p in (tmp_path / f"work{n}").glob("app-*")]
        assert len({p.name for p in done}) == 4, "bootstrap and three jobs ran on the workers"
        after = rows()
        owners = table.epoch().lookup([dest for dest, *_ in after]).tolist()
        assert table.epoch().number == 1
    assert airflow.members() == []
    write_flights(tmp_path / "flights.parquet")
    flights = pd.read_parquet(tmp_path / "flights.parquet")
    flights = flights[flights["time_hour"] < "2013-01-29"].groupby("dest")
    assert {dest: n for dest, _, n, *_ in before} == flights.size().to_dict()
    assert [[r[0], *r[2:]] for r in after] == [[r[0], *r[2:]] for r in before]
    assert [channel for _, channel, *_ in after] == owners != [r[1] for r in before]


def test_of_many_racers_on_s3_one_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3fs = pytest.importorskip("s3fs")
    with store(tmp_path / "server.log", monkeypatch):
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
        write_json(registry.run("r1"), "plan.json", {"a": 1})
        assert read_json(registry.run("r1"), "plan.json") == {"a": 1}
        assert not [f for f in s3fs.S3FileSystem().find("lake") if "probe" in f]
