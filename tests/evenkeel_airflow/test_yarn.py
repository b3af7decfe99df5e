"""docs/how-to/clusters/yarn.md, run as it stands: jobs on YARN, and input, state and registry on
HDFS. Both are Hadoop's mini cluster on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evenkeel.pipeline import steps
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from tests.support.cases.hadoop import Hadoop, hadoop
from tests.support.cases.topology import answer, process, until
from tests.support.docs.reader import Reader
from tests.support.docs.steps import run
from tests.support.wheel import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.airflow,
    # The page starts seven applications before the first test: half an hour on a loaded machine.
    pytest.mark.timeout(3600),
    pytest.mark.skipif("EVENKEEL_CLUSTER" not in os.environ, reason="minutes long: make cluster"),
]

PAGE = ROOT / "docs" / "how-to" / "clusters" / "yarn.md"
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
import json, pathlib, sys, types
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
ti = types.SimpleNamespace(max_tries=2, stats_tags={})
kept = Kept(json.loads(file.read_text()) if file.exists() else {})
task.execute({"task_state_store": kept, "ti": ti})
"""


class User:
    """A reader who has done what the page says, with the addresses of a cluster of their own."""

    def __init__(self, reader: Reader, cluster: Hadoop, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder / "user"
        self.folder.mkdir()
        self.venv, self.delta = reader.wheel.parent / "venv", folder / "delta"
        _bring_delta(reader, self.delta)
        page = folder / "page.md"
        page.write_text(self._with_own_addresses(PAGE.read_text()))
        environment = {**reader.shell, "HADOOP_CONF_DIR": str(cluster.conf), "COLUMNS": "200"}
        run(page, self.folder, environment)
        # What the page's shell has in the end: the connection for drivers on the cluster.
        self.environment = _exported(page, self.folder, environment)
        self.spec = str(self.folder / "tables" / "sales.yaml")
        sales = pd.read_parquet(self.folder / "sales.parquet")
        self.units = dict(sales.groupby("product")["quantity"].sum())

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
        told = self.ends_well("python", "-c", ROWS, self.spec).splitlines()
        (said,) = [line.removeprefix("rows: ") for line in told if line.startswith("rows: ")]
        return list(json.loads(said))

    def apps(self) -> list[dict[str, Any]]:
        """What YARN has run."""
        found = answer(f"http://{self.cluster.manager}/ws/v1/cluster/apps")["apps"] or {}
        return list(found.get("app", []))

    def _with_own_addresses(self, text: str) -> str:
        """Put this cluster's hosts and this reader's folders in the place of the page's."""
        (jars,) = self.venv.glob("lib/python*/site-packages/pyspark/jars")
        for theirs, own in {
            "hdfs://namenode:8020": self.cluster.hdfs,
            "webhdfs://namenode:9870": self.cluster.webhdfs,
            "resourcemanager:8088": str(self.cluster.manager),
            "/opt/spark/jars": str(jars),
            "/opt/delta": str(self.delta),
            "/opt/evenkeel/bin/python": str(self.venv / "bin/python"),
            "/opt/tables": str(self.folder / "tables"),
        }.items():
            assert theirs in text, f"the page does not say {theirs}"
            text = text.replace(theirs, own)
        return text

    def check(self, epoch: int) -> None:
        """Each row is where the epoch says, and has what the events make."""
        after, table = self.rows(), self.table
        assert table.registry.numbers() == list(range(epoch + 1))
        assert {product: units for product, units, _ in after} == self.units
        owners = table.epoch().lookup([product for product, *_ in after]).tolist()
        assert [channel for *_, channel in after] == owners


def _bring_delta(reader: Reader, folder: Path) -> None:
    """Copy Delta's two jars that the reader's Spark has fetched: they are for that Spark alone."""
    settings = (Path(reader.shell["SPARK_CONF_DIR"]) / "spark-defaults.conf").read_text()
    (series, version) = re.findall(r"io\.delta:delta-spark_(\S+?):(\S+)", settings)[0]
    folder.mkdir()
    for name in (f"delta-spark_{series}-{version}", f"delta-storage-{version}"):
        (jar, *_) = Path.home().glob(f".ivy2*/jars/io.delta_{name}.jar")
        shutil.copy(jar, folder)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("yarn")
    reader = Reader.in_folder(folder)
    with hadoop(folder, yarn=True) as cluster:
        yield User(reader, cluster, folder)


def test_the_page_rebalances_on_yarn_with_all_data_on_hdfs(user: User) -> None:
    apps = user.apps()
    names = sorted(app["name"] for app in apps)
    assert {app["finalStatus"] for app in apps} == {"SUCCEEDED"}, names
    assert len(names) == 7, "bootstrap and two times three jobs ran on YARN"
    user.check(2)
    routed = [user.table.epoch(n).lookup([*user.units]).tolist() for n in range(3)]
    assert routed[0] != routed[1] != routed[2]


def test_a_retry_finds_the_driver_on_yarn_and_submits_none(user: User) -> None:
    """The worker of `migrate` is killed while the driver, on the cluster, moves rows."""
    # A channel less: a third of the rows moves, slowly.
    table, name = user.table, "rebalance_sales--again"
    job = ["evenkeel", "job", "learn", "--submit", "--master yarn", "--spec", user.spec]
    user.ends_well(*job, "--run", name, "--end", "2026-01-29")
    asked = steps.Params.of({"force": True, "channels": 2, "batch": 400, "rate_rows": 4})
    steps.decide(user.spec, name, asked)
    digest = steps.plan(user.spec, name, asked)
    kept, log = user.folder / "kept.json", user.folder / "worker.log"
    before = len(user.apps())

    def attempt(which: str) -> tuple[str, ...]:
        variables = (f"{name}={value}" for name, value in user.environment.items())
        alone = ("env", "-i", "-C", str(user.folder), *variables)
        return (*alone, "python", "-c", WORKER, user.spec, digest, which, str(kept))

    with process(log, *attempt("first")):
        # It is killed when this block ends: the plan's rows are on their way.
        until(lambda: table.registry.run(name).migration.exists(), log)
    assert [app["state"] for app in user.apps()].count("RUNNING") == 1
    with process(log, *attempt("second")) as worker:
        assert worker.wait(600) == 0, log.read_text()[-3000:]
    assert len(user.apps()) == before + 1, "the retry has submitted another driver"
    assert {app["finalStatus"] for app in user.apps()} == {"SUCCEEDED"}
    job = ["evenkeel", "job", "verify", "--submit", "--master yarn", "--spec", user.spec]
    user.ends_well(*job, "--run", name, "--digest", digest)
    user.check(3)


def _exported(page: Path, folder: Path, variables: dict[str, str]) -> dict[str, str]:
    """Return the variables of a shell after the page's exports alone."""
    exports = re.findall(r"^export .*(?:\n +.*)*", page.read_text(), re.M)
    assert len(exports) >= 5
    commands = "\n".join([*exports, "env -0"])
    said = subprocess.check_output(["bash", "-ec", commands], cwd=folder, env=variables, text=True)
    return dict(one.split("=", 1) for one in said.split("\0") if one)
