"""The wheel in an Airflow that a team already has, with DAGs, modules and plugins of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from evenkeel.extras import delta_package
from tests.conftest import SPEC, some_events
from tests.support.user_site import Site, Stopwatch
from tests.support.wheel import Venv, build_wheel

#: A release of Spark that pyspark-client has, too: the newest of the two may differ.
AIRFLOW, SPARK = "3.2", "4.1.3"
#: Seconds from `pip install` to a table in the UI; twice as many if other programs take more than
#: this part of all cores meanwhile.
LONGEST, BUSY = 300, 0.2
END = "2013-01-08"
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
    "conf/spark-defaults.conf": (
        f"spark.jars.packages {delta_package(SPARK)}\n"
        "spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension\n"
        "spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog\n"
        "spark.sql.shuffle.partitions 2\nspark.ui.enabled false\n"
    ),
}

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def begun(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Stopwatch]:
    """The user's project, where the wheel is installed with the user's Airflow and Spark."""
    folder = tmp_path_factory.mktemp("site")
    tables = folder / "tables"
    tables.mkdir()
    spec = {**SPEC, "table": "flights", "schedule": None}
    (tables / "flights.yaml").write_text(yaml.safe_dump(spec))
    some_events().to_parquet(tables / "events.parquet", coerce_timestamps="us")
    for name, text in OWN.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("{tables}", str(tables)))
    watch = Stopwatch()
    venv = Venv(folder / "venv").create()
    own = [f"apache-airflow=={AIRFLOW}.*", f"pyspark=={SPARK}"]
    venv.install(*own)
    made = Site(venv, folder)
    made.right("airflow", "db", "migrate")
    before = made.right("airflow", "version").splitlines()[-1]
    venv.install(f"{wheel}[airflow,quality,spark]", *own, f"pyspark-client=={SPARK}")
    assert made.right("airflow", "version").splitlines()[-1] == before
    return made, watch


@pytest.fixture
def site(begun: tuple[Site, Stopwatch]) -> Site:
    return begun[0]


def test_in_five_minutes_a_table_is_rebalanced_and_on_its_page(
    begun: tuple[Site, Stopwatch], capsys: pytest.CaptureFixture[str]
) -> None:
    site, watch = begun
    spec = str(site.project / "tables/flights.yaml")
    site.right("evenkeel", "job", "bootstrap", "--", "--spec", spec, "--end", END)
    asked = json.dumps({"window_end": END, "force": True})
    with site.airflow() as address:
        page = site.page(f"{address}/evenkeel/")
        site.right("airflow", "dags", "reserialize")
        site.right("airflow", "dags", "unpause", "rebalance_flights")
        site.right("airflow", "dags", "trigger", "rebalance_flights", "--conf", asked)
        assert site.state("rebalance_flights", 900) == "success"
        epochs = json.loads(site.right("evenkeel", "epochs", spec, "--format", "json"))
        assert [row["epoch"] for row in epochs] == [0, 1]
        assert "/evenkeel/tables/flights" in page
        seconds, others = watch.read()
    with capsys.disabled():
        print(f"\n{seconds:.0f} s to a table on its page; others took {others:.0%} of the cores")
    assert seconds < LONGEST * (2 if others > BUSY else 1)


def test_three_lines_bring_the_dags_and_leave_the_users_own(site: Site) -> None:
    site.right("airflow", "dags", "reserialize")
    listed = {row["dag_id"] for row in site.rows("dags", "list")}
    assert {"mine", "rebalance_flights", "roll_back_flights", "apply_flights"} <= listed
    assert site.rows("dags", "list-import-errors") == []


def test_the_pages_the_provider_and_the_users_modules_are_there(site: Site) -> None:
    plugins = {row["name"] for row in site.rows("plugins")}
    assert {"own", "evenkeel"} <= plugins
    providers = {row["package_name"] for row in site.rows("providers", "list")}
    assert "evenkeel" in providers
    said = site.right(
        "python", "-c",
        "import dags.common, plugins.own, evenkeel, evenkeel_airflow, evenkeel_spark\n"
        "print(dags.common.OWNER, dags.__file__, plugins.__file__)",
    )  # fmt: skip
    assert said.split("\n")[0] == (
        f"the team {site.project}/dags/__init__.py {site.project}/plugins/__init__.py"
    )


def test_the_doctor_finds_this_installation_right(site: Site) -> None:
    done = site.run("evenkeel", "doctor", "--format", "json")
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    # No argument and no variable: the folder is that of the user's DAG file.
    for what in (
        "evenkeel", "pyspark and pyspark-client", "Airflow's DAG bundle dags-folder", "Java",
        "Delta's jars", "flights: input", "connection spark_default",
        "spark-submit for Airflow's tasks",
    ):  # fmt: skip
        assert rows[what]["status"] == "ok", rows[what]
    assert rows["apache-airflow"]["found"].startswith(AIRFLOW)
    assert rows["pyspark"]["found"].startswith(SPARK)
    assert done.returncode == 0, [row for row in rows.values() if row["status"] == "wrong"]


def test_the_wheel_alone_leaves_an_airflow_without_its_extras_whole(
    wheel: Path, tmp_path: Path
) -> None:
    """Airflow imports every provider at each command: an error in one stops all of Airflow."""
    (tmp_path / "dags").mkdir()
    for name in ("dags/__init__.py", "dags/common.py", "dags/mine.py"):
        (tmp_path / name).write_text(OWN[name])
    (tmp_path / "dags/tables.py").write_text(OWN["dags/tables.py"])
    venv = Venv(tmp_path / "venv").create()
    venv.install(str(wheel), f"apache-airflow=={AIRFLOW}.*")
    site = Site(venv, tmp_path)
    site.right("airflow", "db", "migrate")
    site.right("airflow", "dags", "reserialize")
    assert "mine" in {row["dag_id"] for row in site.rows("dags", "list")}
    assert "evenkeel" in {row["package_name"] for row in site.rows("providers", "list")}
    (error,) = site.rows("dags", "list-import-errors")
    assert "pip install 'apache-airflow" in error["error"]
