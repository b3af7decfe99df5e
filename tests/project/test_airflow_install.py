"""The wheel in an Airflow that a team already has, with DAGs, modules and plugins of its own."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import SPEC, some_events
from tests.support.wheel import Venv, build_wheel

#: A release of Spark that pyspark-client has, too: the newest of the two may differ.
AIRFLOW, SPARK = "3.2", "4.1.3"
#: The user's own files, by path below their project.
OWN = {
    "dags/__init__.py": "",
    "dags/common.py": 'OWNER = "the team"\n',
    "dags/mine.py": (
        "from airflow.sdk import DAG\n\nfrom dags.common import OWNER\n\n"
        'dag = DAG("mine", schedule=None, description=OWNER)\n'
    ),
    "dags/tables.py": (
        "# The DAGs of every table, for Airflow.\nfrom evenkeel_airflow import load_tables\n"
        'load_tables(globals(), "{tables}")\n'
    ),
    "plugins/__init__.py": "",
    "plugins/own.py": (
        "from airflow.plugins_manager import AirflowPlugin\n\n\n"
        'class Own(AirflowPlugin):\n    name = "own"\n'
    ),
}


@dataclass(frozen=True)
class Site:
    """An Airflow project in a virtual environment that has the wheel."""

    venv: Venv
    project: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the project's Airflow."""
        settings = {
            "AIRFLOW_HOME": str(self.project / "home"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.project}/airflow.db",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.project / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
            "PYTHONPATH": str(self.project),
        }
        return self.venv.run(*command, **settings)

    def rows(self, *command: str) -> list[dict[str, str]]:
        """Run an Airflow command and return the rows that it prints as JSON."""
        done = self.run("airflow", *command, "--output", "json")
        assert done.returncode == 0, done.stderr[-3000:]
        # Log lines stand before the rows; without rows there may be a sentence instead.
        found = re.search(r"^\[(?=\s*\{).*\]", done.stdout, re.M | re.S)
        return json.loads(found[0]) if found else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The user's project with its own Airflow and Spark; the wheel is installed last."""
    folder = tmp_path_factory.mktemp("site")
    tables = folder / "tables"
    tables.mkdir()
    (tables / "flights.yaml").write_text(yaml.safe_dump({**SPEC, "table": "flights"}))
    some_events(50).to_parquet(tables / "events.parquet")
    for name, text in OWN.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("{tables}", str(tables)))
    venv = Venv(folder / "venv").create()
    own = [f"apache-airflow=={AIRFLOW}.*", f"pyspark=={SPARK}", f"pyspark-client=={SPARK}"]
    venv.install(f"{build_wheel(folder)}[airflow,quality,spark]", *own)
    made = Site(venv, folder)
    done = made.run("airflow", "db", "migrate")
    assert done.returncode == 0, done.stderr[-3000:]
    return made


@pytest.mark.slow
@pytest.mark.airflow
def test_three_lines_bring_the_dags_and_leave_the_users_own(site: Site) -> None:
    began = time.monotonic()
    done = site.run("airflow", "dags", "reserialize")
    assert done.returncode == 0, done.stderr[-3000:]
    listed = {row["dag_id"] for row in site.rows("dags", "list")}
    assert {"mine", "rebalance_flights", "roll_back_flights", "apply_flights"} <= listed
    assert site.rows("dags", "list-import-errors") == []
    assert time.monotonic() - began < 300


@pytest.mark.slow
@pytest.mark.airflow
def test_the_pages_the_provider_and_the_users_modules_are_there(site: Site) -> None:
    plugins = {row["name"] for row in site.rows("plugins")}
    assert {"own", "evenkeel"} <= plugins
    providers = {row["package_name"] for row in site.rows("providers", "list")}
    assert "evenkeel" in providers
    done = site.run(
        "python", "-c",
        "import dags.common, plugins.own, evenkeel, evenkeel_airflow, evenkeel_spark\n"
        "print(dags.common.OWNER, dags.__file__, plugins.__file__)",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == (
        f"the team {site.project}/dags/__init__.py {site.project}/plugins/__init__.py"
    )


@pytest.mark.slow
@pytest.mark.airflow
def test_the_doctor_finds_this_installation_right(site: Site) -> None:
    done = site.run(
        "evenkeel", "doctor", str(site.project / "tables/flights.yaml"), "--format", "json"
    )
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    for what in ("evenkeel", "pyspark and pyspark-client", "Airflow's DAGs folder", "Java"):
        assert rows[what]["status"] == "ok", rows[what]
    assert rows["apache-airflow"]["found"].startswith(AIRFLOW)
    assert rows["pyspark"]["found"].startswith(SPARK)
    assert done.returncode == 0, [row for row in rows.values() if row["status"] == "wrong"]
