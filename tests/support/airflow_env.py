"""An Airflow of the tests' own, in a folder that goes when they end: import this before airflow."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evenkeel.demo.local_env import environment

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import DAG

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
#: Where the packages are, for processes that find none installed.
PATH = os.pathsep.join(str(ROOT / folder) for folder in ("", "spark_jobs", "dags", "plugins"))
HOME = Path(tempfile.mkdtemp(prefix="evenkeel-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

SETTINGS = {
    **environment(small=True),
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
        {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    ),
    # spark-submit runs the jobs as files: they find the packages as an installation would.
    "PYTHONPATH": PATH,
    # The tables of the repository, until a test sets its own.
    "EVENKEEL_TABLES": str(ROOT / "tables"),
}
os.environ.update(SETTINGS)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """Airflow's database, made once."""
    from airflow.utils.db import initdb

    initdb()


def dag_bag() -> DagBag:
    """Parse the DAG files afresh, by the environment of the moment."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=DAGS)


def dag_of(name: str) -> DAG:
    """A DAG that does not try its tasks again."""
    dag = dag_bag().dags[name]
    for task in dag.tasks:
        task.retries = 0
    return dag
