"""A rebalance whose jobs run on YARN, with input, state and registry on HDFS: Hadoop's mini cluster
on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest

from evenkeel.demo.replay import airflow_environment
from evenkeel.pipeline import steps
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from tests.support.cases.hadoop import Hadoop, hadoop
from tests.support.cases.topology import answer, process, until
from tests.support.docs.readme import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.airflow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("EVENKEEL_CLUSTER" not in os.environ, reason="minutes long: make cluster"),
]

SPEC = """
table: sales
key: [product]
input: {{path: {hdfs}/lake/sales.parquet, time: day}}
window: 14
state:
  sales:
    path: {hdfs}/lake/state
    columns:
      units: {{merge: sum, of: quantity}}
registry: {webhdfs}/lake/registry
channels: 4
slots: 256
"""
#: Containers of a small machine. Every node has Spark's and Delta's jars at one place.
DEFAULTS = """
spark.yarn.jars local:{spark}/jars/*,local:{jars}/*
spark.yarn.am.memory 512m
spark.executor.memory 640m
spark.executor.instances 1
spark.sql.shuffle.partitions 4
"""
#: Each product's units and channel, by a Spark of its own.
ROWS = """
import json, sys
from evenkeel.pipeline import steps
from evenkeel.spec.loading import load_spec
from evenkeel_spark.runtime.session import session
spec, spark = load_spec(sys.argv[1]), session("rows", **{"spark.master": "local[1]"})
rows = spark.read.format("delta").load(spec.state["sales"].path)
rows = rows.select("product", "units", "channel").orderBy("product").collect()
print("rows:", json.dumps([list(row) for row in rows]))
"""


#: A try of the task `migrate` in cluster mode. A file has what Airflow keeps over tries.
WORKER = """
import json, pathlib, sys
from airflow.sdk import DAG
from evenkeel_airflow.operators import SparkJob

spec, digest, attempt, file = *sys.argv[1:4], pathlib.Path(sys.argv[4])

class Kept(dict):
    def set(self, name, value):
        self[name] = value
        file.write_text(json.dumps(self))

given = {"--spec": spec, "--run": "again", "--digest": digest}
with DAG("rebalance_sales"):
    task = SparkJob(task_id="migrate", job="migrate", arguments=given)
task.application_args[-1] = attempt
task.execute({"task_state_store": Kept(json.loads(file.read_text()) if file.exists() else {})})
"""


class User:
    """Somebody with a table on the cluster, and an Airflow beside it."""

    def __init__(self, cluster: Hadoop, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.units = _sales(cluster, folder)
        self.spec, self.environment = _user(cluster, folder)
        job = ["evenkeel", "job", "bootstrap", "--submit", "--master yarn", "--spec", self.spec]
        self.ends_well(*job, "--end", "2026-01-29")
        self.ends_well("airflow", "db", "migrate")

    @property
    def table(self) -> Table:
        return Table(load_spec(self.spec))

    def ends_well(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def rows(self) -> list[list[Any]]:
        """Each product with its units and its channel."""
        told = self.ends_well(sys.executable, "-c", ROWS, self.spec).splitlines()
        (said,) = [line.removeprefix("rows: ") for line in told if line.startswith("rows: ")]
        return list(json.loads(said))

    def apps(self) -> list[dict[str, Any]]:
        """What YARN has run."""
        found = answer(f"http://{self.cluster.manager}/ws/v1/cluster/apps")["apps"] or {}
        return list(found.get("app", []))

    def check(self, epoch: int) -> None:
        """Each row is where the epoch says, and has what the events make."""
        after, table = self.rows(), self.table
        assert table.registry.numbers() == list(range(epoch + 1))
        assert {product: units for product, units, _ in after} == self.units
        owners = table.epoch().lookup([product for product, *_ in after]).tolist()
        assert [channel for *_, channel in after] == owners


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("yarn")
    with hadoop(folder, yarn=True) as cluster:
        yield User(cluster, folder)


def test_a_rebalance_on_yarn_with_all_data_on_hdfs(user: User) -> None:
    before = user.rows()
    user.ends_well("airflow", "dags", "test", "rebalance_sales", "--conf", '{"force": true}')
    apps = user.apps()
    names = sorted(app["name"] for app in apps)
    assert {app["finalStatus"] for app in apps} == {"SUCCEEDED"}, names
    assert len(names) == 4, "bootstrap and three jobs ran on YARN"
    user.check(1)
    assert user.rows() != before


def test_a_retry_finds_the_driver_on_yarn_and_submits_none(user: User) -> None:
    """The worker of `migrate` is killed while the driver, on the cluster, moves rows."""
    # A channel less: a fourth of the rows moves, slowly.
    table, run = user.table, "rebalance_sales--again"
    job = ["evenkeel", "job", "learn", "--submit", "--master yarn", "--spec", user.spec]
    user.ends_well(*job, "--run", run, "--end", "2026-01-29")
    asked = steps.Params.of({"force": True, "channels": 3, "batch": 400, "rate_rows": 4})
    steps.decide(user.spec, run, asked)
    digest = steps.plan(user.spec, run, asked)
    kept, log = user.folder / "kept.json", user.folder / "worker.log"
    extra = {
        "deploy-mode": "cluster",
        "yarn_resourcemanager_webapp_address": f"http://{user.cluster.manager}",
    }
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    environment = {**user.environment, "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}
    before = len(user.apps())

    def attempt(name: str) -> tuple[str, ...]:
        return sys.executable, "-c", WORKER, user.spec, digest, name, str(kept)

    with process(log, *attempt("first"), **environment):
        # It is killed when this block ends: the plan's rows are on their way.
        until(lambda: table.registry.run(run).migration.exists(), log)
    assert [app["state"] for app in user.apps()].count("RUNNING") == 1
    with process(log, *attempt("second"), **environment) as worker:
        assert worker.wait(600) == 0, log.read_text()[-3000:]
    assert len(user.apps()) == before + 1, "the retry has submitted another driver"
    assert {app["finalStatus"] for app in user.apps()} == {"SUCCEEDED"}
    job = ["evenkeel", "job", "verify", "--submit", "--master yarn", "--spec", user.spec]
    user.ends_well(*job, "--run", run, "--digest", digest)
    user.check(2)


def _sales(cluster: Hadoop, folder: Path) -> dict[str, int]:
    """Put 14,000 events on HDFS; return the units of each product."""
    rng = np.random.default_rng(1)
    sales = pd.DataFrame(
        {
            "product": [f"P{int(399 * r**2)}" for r in rng.random(14_000)],
            "quantity": rng.integers(1, 5, 14_000),
            "day": pd.date_range("2026-01-15", periods=14).repeat(1_000).date,
        }
    )
    sales.to_parquet(folder / "sales.parquet")
    fs, root = fsspec.core.url_to_fs(f"{cluster.webhdfs}/lake")
    fs.pipe_file(f"{root}/sales.parquet", (folder / "sales.parquet").read_bytes())
    return dict(sales.groupby("product")["quantity"].sum())


def _user(cluster: Hadoop, folder: Path) -> tuple[str, dict[str, str]]:
    """A spec, and the environment of an Airflow whose Spark is the cluster's."""
    tables, conf = folder / "tables", folder / "conf"
    tables.mkdir()
    conf.mkdir()
    spec = tables / "sales.yaml"
    spec.write_text(SPEC.format(hdfs=cluster.hdfs, webhdfs=cluster.webhdfs))
    shared = (ROOT / ".jars" / "conf" / "spark-defaults.conf").read_text()
    own = DEFAULTS.format(spark=os.environ["SPARK_HOME"], jars=ROOT / ".jars")
    (conf / "spark-defaults.conf").write_text(shared + own)
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "client"}}
    return str(spec), {
        **airflow_environment(folder, tables),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "SPARK_CONF_DIR": str(conf),
        "HADOOP_CONF_DIR": str(cluster.conf),
    }
