"""What a newcomer types, as the README has it, in a shell that nothing has set up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from evenkeel.demo.progress import COLUMNS, RunResult
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from tests.support.docs.readme import FIRST, ROOT, TEXT, block, sales, shell

pytestmark = [pytest.mark.slow, pytest.mark.spark]
#: Before the README's code: a session, and rows to write.
BEFORE = """
import json
import os

from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
rows = [("product 0", 3), ("teapot", 5)]
rows = spark.createDataFrame(rows, "product string, quantity int")
"""
#: After it: the writer of docs/SPLITTING.md on the same table, and both ways to read it there.
WRITE = """
owners = {r["product"]: r["channel"] for r in rows.collect()}
tasks = rows.rdd.getNumPartitions()
held = spark.read.format("delta").load("lake/state/sales").collect()
events = rows.drop("channel")
"""
READ = """
print(json.dumps({
    "owners": owners, "tasks": tasks,
    "held": [(r["product"], r["channel"], r["units"]) for r in held],
    "written": {r["product"]: r["units"] for r in written.collect()},
}))
"""


def run(*command: str, code: int = 0, folder: Path = ROOT, **variables: str) -> str:
    """What a command prints (where it is to fail: on standard error)."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**shell(), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def replay(folder: Path, null: bool = False, code: int = 0, **secrets: str) -> str:
    """`make run` with the README's words for own data, one week long."""
    asked = re.search(r"(make run) (DATA=)sales\.parquet (KEY=\w+) (TIME=\w+)", TEXT)
    assert asked is not None
    command, data, *columns = asked.groups()
    data += str(sales(folder / "sales.parquet", 14, null=null))
    # It keeps out of this checkout's own .run, and takes as few rounds as there can be.
    more = f"ARGS=--rounds 1 --days 7 --format json --folder {folder / 'run'}"
    return run(*command.split(), "-o", "setup", data, *columns, more, code=code, **secrets)


@pytest.mark.airflow
def test_own_data_goes_through_the_whole_pipeline(tmp_path: Path) -> None:
    assert "events have a null in the key (product)" in replay(tmp_path, null=True, code=2)
    # What a store's secret would be is in no log, plan or report that the run leaves.
    planted = "wJalrXUtnFEMI-planted-bPxRfiCY"
    secrets = {
        "AWS_SECRET_ACCESS_KEY": planted,
        "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "aws", "password": planted}),
    }
    said = replay(tmp_path, **secrets)
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


@pytest.mark.airflow
def test_tables_of_a_team_are_adopted_and_joined_without_a_shuffle(tmp_path: Path) -> None:
    more = f"ARGS=--tables aircraft --rounds 1 --format json --folder {tmp_path / 'run'}"
    (told,) = json.loads(run("make", "run", "-o", "setup", more))["tables"]
    (line,) = told["lines"]
    assert told["passed"] and line["epoch"] == 1 and line["after"] < line["before"]
    shuffles = [sum("Exchange" in part for part in plan) for plan in told["plans"].values()]
    assert list(told["plans"]) == ["before adoption", "adopted"] and shuffles == [2, 0]
    scans = [part.split()[-1] for part in told["plans"]["adopted"] if "BatchScan" in part]
    assert sorted(scans) == ["demo.fleet.flights", "demo.fleet.planes"]


@pytest.mark.airflow
@pytest.mark.timeout(1800)
def test_the_flights_end_as_the_readme_shows(tmp_path: Path) -> None:
    more = f"ARGS=--tables flights --format json --folder {tmp_path / 'run'}"
    told = json.loads(run("make", "run", "-o", "setup", more))
    lines = [RunResult(**line) for line in told["tables"][0]["lines"]]
    columns = [name for name in COLUMNS if not name.endswith(" s")]
    made = [[COLUMNS[name](line) for name in columns] for line in lines]
    titles, *rows = re.search(r"^flights: .*\n((?:  +.*\n)+)", TEXT, re.M)[1].splitlines()
    # The next window of the last round has not come.
    shown = [row.split()[: len(columns)] for row in rows[:-1]]
    assert titles.split() == " ".join(COLUMNS).split()
    assert made[:-1] == shown
    assert [cell for cell in made[-1] if cell] == rows[-1].split()[: len(columns) - 1]


@pytest.mark.airflow
def test_a_table_of_ones_own_is_made_written_to_and_rebalanced(tmp_path: Path) -> None:
    jobs = re.findall(r"(\.venv/bin/evenkeel job (?:bootstrap|apply_window) --spec[^`]*)`", TEXT)
    assert len(jobs) == 2
    spec, data = tmp_path / "tables" / "sales.yaml", tmp_path / "lake" / "sales"
    for folder in (spec.parent, data):
        folder.mkdir(parents=True)
    spec.write_text(block("yaml"))
    # The reader's checkout, with files of the reader's own beside it.
    for name in (".venv", "evenkeel"):
        (tmp_path / name).symlink_to(ROOT / name)
    # What the README's window holds comes after the tables were made.
    for job, days, first in zip(jobs, (7, 1), (FIRST - timedelta(days=7), FIRST), strict=True):
        sales(data / f"{first}.parquet", days, first)
        run(*job.split(), folder=tmp_path)
    # The README's writer, and what docs/SPLITTING.md writes and reads, on the table as it is now.
    page = (ROOT / "docs/SPLITTING.md").read_text()
    (reading,) = re.findall(r"^  ```python\n(.*?)^  ```", page, re.M | re.S)
    own = page.partition("## Your own writer\n")[2]
    code = "".join(re.findall(r"```python\n(.*?)```", own, re.S))
    assert "MERGE INTO" in code
    now, before = (line.strip() for line in reading.splitlines())
    reads = f"{before.replace('12', '0')}\n{now}\nwritten = rows\n"
    script = tmp_path / "own.py"
    script.write_text("".join((BEFORE, block("python"), WRITE, code, reads, READ)))
    (own_shell,) = re.findall(r"`(eval [^`]+)`", TEXT)
    said = run("bash", "-ec", f"{own_shell}\npython own.py", folder=tmp_path)
    told = json.loads(said.splitlines()[-1])
    table = Table(load_spec(spec))
    events = pq.read_table(data).to_pandas()
    held = {product: units for product, _, units in told["held"]}
    assert held == dict(events.groupby("product").quantity.sum())
    products, channels, _ = zip(*told["held"], strict=True)
    assert list(channels) == table.epoch().lookup(list(products)).tolist()
    owners = told["owners"]
    assert owners == dict(zip(owners, table.epoch().lookup([*owners]).tolist(), strict=True))
    assert told["tasks"] == 16
    assert told["written"] == {**held, "product 0": held["product 0"] + 3, "teapot": 5}
    # Its first rebalance, in an Airflow whose DAG file has the README's line.
    (line,) = re.findall(r"`(from evenkeel_airflow import [^`]+)`", TEXT)
    (command,) = re.findall(r"`(airflow dags test [^`]+)`", TEXT)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "tables.py").write_text(f"{line}\n")
    airflow = {
        "AIRFLOW_HOME": f"{tmp_path}/airflow",
        "AIRFLOW__CORE__DAGS_FOLDER": f"{tmp_path}/dags",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
        ),
        "EVENKEEL_TABLES": f"{tmp_path}/tables",
    }
    steps = (own_shell, "export PATH=$PWD/.venv/bin:$PATH", "airflow db migrate", command)
    run("bash", "-ec", "\n".join(steps), folder=tmp_path, **airflow)
    assert table.registry.numbers() == [0, 1]


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
    assert run(".venv/bin/evenkeel", "epochs", str(spec), code=2).strip().splitlines() == [
        "evenkeel: error: nowhere://lake/evenkeel/sales: cannot be reached (Protocol not known: "
        "nowhere). Give a path, or a URL that fsspec knows, such as s3://, gs:// or abfs://; "
        "`evenkeel doctor` looks at the whole set-up"
    ]
