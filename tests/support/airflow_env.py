"""An Airflow of the tests' own, in a folder that goes when they end: import this before airflow."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evenkeel.local_env import environment

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import DAG

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
#: Where the packages are, for processes that find none installed.
PATH = os.pathsep.join(str(ROOT / folder) for folder in ("", "spark_jobs", "dags", "plugins"))
#: Series of the Airflow that is installed, such as 3.3.
VERSION = ".".join(metadata.version("apache-airflow").split(".")[:2])
HOME = Path(tempfile.mkdtemp(prefix="evenkeel-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

#: For tests whose DAG runs in their process.
runs_a_dag = pytest.mark.skipif(
    VERSION == "3.2",
    reason="`airflow dags test` of Airflow 3.2 runs no task: 'State' has no 'svcs_registry'",
)

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


def dag_bag(folder: Path = DAGS) -> DagBag:
    """Parse the DAG files of a folder afresh, by the environment of the moment."""
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag

    # A run of a DAG in this process leaves it there on Airflow 3.1, and only that DAG is built.
    os.environ.pop("_AIRFLOW_PARSING_CONTEXT_DAG_ID", None)
    return DagBag(dag_folder=folder)


def dag_of(name: str) -> DAG:
    """A DAG that does not try its tasks again."""
    dag = dag_bag().dags[name]
    for task in dag.tasks:
        task.retries = 0
    return dag


def exception(name: str) -> type[BaseException]:
    """Return a class of Airflow's exceptions, wherever this version has it."""
    for module in ("airflow.sdk.exceptions", "airflow.exceptions"):
        if found := getattr(import_module(module), name, None):
            return found
    raise LookupError(name)


def question() -> type[BaseException]:
    """Return what a task raises that asks a person: a wait of its own since Airflow 3.3."""
    return exception("TaskDeferred" if waits() == "deferred" else "TaskAwaitingInput")


def waits() -> str:
    """Return the state of a task that waits for a person's answer."""
    from airflow.utils.state import TaskInstanceState

    return str(getattr(TaskInstanceState, "AWAITING_INPUT", TaskInstanceState.DEFERRED).value)
