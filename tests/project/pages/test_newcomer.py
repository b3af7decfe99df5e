"""What a newcomer types, as the README has it: a replay of own data, and a table of one's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.local_env import environment
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from tests.support.docs.readme import FIRST, ROOT, TEXT, block, sales

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def run(*command: str, code: int = 0, **variables: str) -> str:
    """What a command prints (where it is to fail: on standard error)."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment(), **variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def replay(folder: Path, *more: str, code: int = 0, **secrets: str) -> str:
    """`make run` with the README's words for own data, one week long."""
    asked = re.search(r"make run DATA=sales\.parquet (KEY=\w+) (TIME=\w+)", TEXT)
    assert asked is not None
    variables = dict(word.split("=") for word in asked.groups())
    data = str(sales(folder / "sales.parquet", 14))
    where = ("--rounds", "1", "--days", "7", "--folder", str(folder / "run"), "--format", "json")
    words = (sys.executable, "-m", "evenkeel.demo.replay", *where, *more)
    return run(*words, code=code, DATA=data, **variables, **secrets)


@pytest.mark.airflow
def test_own_data_goes_through_the_whole_pipeline(tmp_path: Path) -> None:
    assert "events have a null in the key (product)" in replay(tmp_path, code=1)
    # What a store's secret would be is in no log, plan or report that the run leaves.
    planted = "wJalrXUtnFEMI-planted-bPxRfiCY"
    secrets = {
        "AWS_SECRET_ACCESS_KEY": planted,
        "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "aws", "password": planted}),
    }
    said = replay(tmp_path, "--null-keys", "drop", **secrets)
    left = [f for f in (tmp_path / "run").rglob("*") if f.is_file()]
    assert len(left) > 50 and [f for f in left if planted.encode() in f.read_bytes()] == []
    assert planted not in said
    told: dict[str, Any] = json.loads(said)
    ((line,),) = (table["lines"] for table in told["tables"])
    assert told["tables"][0]["passed"] and line["gates"]
    assert (line["epoch"], line["window_end"]) == (1, str(FIRST + timedelta(days=14)))
    assert line["floor"] <= line["after"] < line["before"]
    assert line["written"] > 0
    assert "epoch 0 to epoch 1" in Path(line["report"]).read_text()


def test_a_table_of_ones_own_is_made_and_written_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = re.findall(r"(\.venv/bin/evenkeel job (?:bootstrap|apply_window) --spec[^`]*)`", TEXT)
    assert len(jobs) == 2
    spec, data = tmp_path / "tables" / "sales.yaml", tmp_path / "lake" / "sales"
    for folder in (spec.parent, data):
        folder.mkdir(parents=True)
    spec.write_text(block("yaml") + "null_keys: drop\n")
    # What the README's window holds comes after the tables were made.
    for job, days, first in zip(jobs, (7, 1), (FIRST - timedelta(days=7), FIRST), strict=True):
        sales(data / f"{first}.parquet", days, first)
        run(*(str(spec) if word == "tables/sales.yaml" else word for word in job.split()))
    table = Table(load_spec(spec))
    events = pq.read_table(data).to_pandas()
    found = spark.read.format("delta").load(table.spec.state["sales"].path).toPandas()
    assert dict(zip(found["product"], found["units"], strict=True)) == dict(
        events.groupby("product").quantity.sum()
    )
    assert found.channel.tolist() == table.epoch().lookup(found["product"].tolist()).tolist()
    # The README's writer, and that of docs/SPLITTING.md, on the table that is there now.
    monkeypatch.setenv("EVENKEEL_TABLES", str(spec.parent))
    rows = spark.createDataFrame([("product 0", 3), ("teapot", 5)], "product string, quantity int")
    names: dict[str, Any] = {"rows": rows, "events": rows, "F": F}
    exec(compile(block("python"), "README.md", "exec"), names)
    owners = {r["product"]: r["channel"] for r in names["rows"].collect()}
    assert owners == dict(zip(owners, table.epoch().lookup([*owners]).tolist(), strict=True))
    page = (ROOT / "docs/SPLITTING.md").read_text().partition("## Your own writer\n")[2]
    code, sql = re.findall(r"```(?:python|sql)\n(.*?)```", page, re.S)
    exec(compile(code, "SPLITTING.md", "exec"), names)
    names["batch"].createOrReplaceTempView("batch")
    path = table.spec.state["sales"].path
    spark.sql(sql.replace("MERGE INTO sales ", f"MERGE INTO delta.`{path}` "))
    before = dict(zip(found["product"], found["units"], strict=True))
    written = {r["product"]: r["units"] for r in table.state("sales").collect()}
    assert written == {**before, "product 0": before["product 0"] + 3, "teapot": 5}


def test_jobs_and_console_need_no_airflow() -> None:
    code = (
        "import sys, pkgutil, importlib, partitioning, evenkeel, evenkeel_spark\n"
        "sys.modules['airflow'] = None\n"
        "for package in (partitioning, evenkeel, evenkeel_spark):\n"
        "    for m in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(m.name)\n"
    )
    run(sys.executable, "-c", code)


def test_a_place_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    spec = tmp_path / "sales.yaml"
    far = "registry: nowhere://lake/evenkeel/sales"
    spec.write_text(re.sub(r"registry: .*", far, block("yaml")))
    assert run("evenkeel", "epochs", str(spec), code=2).strip().splitlines() == [
        "evenkeel: error: nowhere://lake/evenkeel/sales: cannot be reached (Protocol not known: "
        "nowhere). Give a path, or a URL that fsspec knows, such as s3://, gs:// or abfs://; "
        "`evenkeel doctor` looks at the whole set-up"
    ]
