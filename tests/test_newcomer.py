"""What a newcomer types, as the README has it: a replay of own data, and a table of one's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from evenkeel.local import environment
from evenkeel.spec import load_spec
from evenkeel.table import Table
from tests.test_readme import ROOT, TEXT, block

pytestmark = [pytest.mark.slow, pytest.mark.spark]

FIRST = date(2026, 1, 1)


def sales(file: Path, days: int, first: date = FIRST) -> Path:
    """Sales of 300 products, by Zipf, on so many days from the first on."""
    rng = np.random.default_rng(days)
    weights = 1 / np.arange(1, 301)
    products = rng.choice(300, 4000, p=weights / weights.sum())
    columns = {
        "product": [f"product {p}" for p in products],
        "quantity": rng.integers(1, 9, 4000).astype(np.int32),
        "day": [first + timedelta(days=int(d)) for d in rng.integers(0, days, 4000)],
    }
    pq.write_table(pa.table(columns), file)
    return file


def run(*command: str, **variables: str) -> str:
    """What a command prints; it must end well."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment(), **variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.airflow
def test_own_data_goes_through_the_whole_pipeline(tmp_path: Path) -> None:
    asked = re.search(r"make run DATA=sales\.parquet (KEY=\w+) (TIME=\w+)", TEXT)
    assert asked is not None
    variables = dict(word.split("=") for word in asked.groups())
    told: dict[str, Any] = json.loads(
        run(
            *(sys.executable, "-m", "evenkeel.replay", "--rounds", "1", "--days", "7"),
            *("--folder", str(tmp_path / "run"), "--format", "json"),
            DATA=str(sales(tmp_path / "sales.parquet", 14)),
            **variables,
        )
    )
    ((line,),) = (table["lines"] for table in told["tables"])
    assert told["tables"][0]["passed"] and line["gates"]
    assert (line["epoch"], line["window_end"]) == (1, str(FIRST + timedelta(days=14)))
    assert line["floor"] <= line["after"] < line["before"]
    assert line["written"] > 0
    assert "epoch 0 to epoch 1" in Path(line["report"]).read_text()


def test_a_table_of_ones_own_is_made_and_written_to(spark: SparkSession, tmp_path: Path) -> None:
    jobs = re.findall(r"spark_jobs/(?:bootstrap|apply_window)\.py --spec[^`\n]*", TEXT)
    assert len(jobs) == 2
    spec, data = tmp_path / "sales.yaml", tmp_path / "sales"
    spec.write_text(re.sub(r"s3a?://lake", str(tmp_path), block("yaml")))
    data.mkdir()
    # What the README's window holds comes after the tables were made.
    for job, days, first in zip(jobs, (7, 1), (FIRST - timedelta(days=7), FIRST), strict=True):
        sales(data / f"{first}.parquet", days, first)
        words = [str(spec) if w in ("...", "tables/sales.yaml") else w for w in job.split()]
        run("spark-submit", *words)
    table = Table(load_spec(spec))
    events = pq.read_table(data).to_pandas()
    found = spark.read.format("delta").load(table.spec.state["sales"].path).toPandas()
    assert dict(zip(found["product"], found["units"], strict=True)) == dict(
        events.groupby("product").quantity.sum()
    )
    assert found.channel.tolist() == table.epoch().lookup(found["product"].tolist()).tolist()


def test_the_backtest_runs(tmp_path: Path) -> None:
    asked = re.search(r"evenkeel (backtest sales\.parquet.*?)`", TEXT, re.S)
    assert asked is not None
    words = [
        str(sales(tmp_path / "sales.parquet", 21)) if "." in w else w for w in asked[1].split()
    ]
    code = "from evenkeel.cli import main; main()"
    lines = run(sys.executable, "-c", code, *words, "--format", "jsonl").splitlines()
    scores = [json.loads(line) for line in lines]
    assert len(scores) == 2 * 4
    assert {s["strategy"] for s in scores} == {"frontier", "consistent", "readj", "elb"}
