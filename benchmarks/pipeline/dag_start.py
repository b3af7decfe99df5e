"""Measure the CPU of a DAG file's start, beside Airflow's own imports.

Run `python -m benchmarks.pipeline.dag_start`, or `make bench ARGS=dag_start`. A worker parses the
DAG file before each task, and builds only that task's DAG. The DAG processor builds all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
#: Run in a fresh process: tables' folder -> DAGs, CPU seconds in all and of the libraries in it.
CODE = """
import sys, time
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
import airflow.providers.standard.operators.hitl
from airflow.sdk import DAG
import pendulum
DAG("warm", schedule="@daily", start_date=pendulum.datetime(2024, 1, 1)).validate()
began = time.process_time()
import numpy, pyarrow
libraries = time.process_time() - began
from evenkeel_airflow import load_tables
made = {}
load_tables(made, sys.argv[1])
print(len(made), time.process_time() - began, libraries)
"""


def specs(folder: Path, count: int) -> None:
    """Write specs of many tables, like the one of the flights."""
    base = yaml.safe_load((ROOT / "tables/flights.yaml").read_text())
    (columns,) = base["state"].values()
    for i in range(count):
        own = {
            "table": f"t{i}",
            "registry": f"r/{i}",
            "state": {"s": {**columns, "path": f"s/{i}"}},
        }
        (folder / f"t{i}.yaml").write_text(yaml.safe_dump({**base, **own}))


def measure(folder: Path, wanted: str | None) -> tuple[int, float, float]:
    """Return the DAGs built, and the CPU seconds in all and of NumPy and PyArrow, in a process."""
    env = {**os.environ, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    if wanted:
        env["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = wanted
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder)],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    made, seconds, libraries = done.stdout.split()[-3:]
    return int(made), float(seconds), float(libraries)


def main() -> None:
    """Measure one table and many, as a worker and as the DAG processor start them."""
    print("tables  for           DAGs built  CPU s  of it NumPy and PyArrow")
    for count in (1, 1000):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            specs(folder, count)
            for who, wanted in (("a task", "rebalance_t0"), ("the processor", None)):
                dags, seconds, libraries = measure(folder, wanted)
                print(
                    f"{count:6,}  {who:13} {dags:10,}  {seconds:5.2f}  {libraries:5.2f}", flush=True
                )


if __name__ == "__main__":
    main()
