"""DAG bundles of Airflow: which there are, whether they have the tables, and where specs are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.doctor import Status, airflow_setup, command
from evenkeel.doctor.airflow_setup import Bundle, bundles, dags
from tests.evenkeel.doctor.conftest import answers

GIT = Bundle("team", "GitDagBundle", None)
FROM_US = "from evenkeel_airflow import"


def local(folder: Path) -> Bundle:
    return Bundle("dags-folder", "LocalDagBundle", str(folder))


@pytest.mark.parametrize(
    "line",
    [
        f"{FROM_US} load_tables; load_tables(globals(), '/opt/tables')",
        f"{FROM_US} load_tables as load\n\ndef later():\n    load(globals())",
        "from evenkeel_airflow.loading import load_tables\nload_tables\\\n(globals())",
        "import evenkeel_airflow.loading as e\ne.load_tables(globals())",
        f"{FROM_US} RebalanceTaskGroup\nwith dag:\n    RebalanceTaskGroup('/opt/a.yaml')",
        f"{FROM_US} loading\nloading.load_tables(globals())",
        f"{FROM_US} *\nload_tables(globals())",
        f"\ufeff{FROM_US} load_tables\nload_tables(globals())",
    ],
)
def test_a_folder_has_the_tables(tmp_path: Path, line: str) -> None:
    (gone,) = dags([local(tmp_path / "gone")])
    assert gone.status is Status.wrong and "no such folder" in gone.found
    (tmp_path / "mine.py").write_text(f"{line}  # DAGs\n")
    (tmp_path / "long.py").write_text(f"# evenkeel_airflow\nsum = {'1 + ' * 50_000}1\n")
    (found,) = dags([local(tmp_path)])
    assert found.status is Status.ok and str(tmp_path / "mine.py") in found.found


@pytest.mark.parametrize("said", ["False", "false", "f", "0", " FALSE # no", "True", "t", "1", ""])
def test_airflow_s_ways_to_write_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    conf = pytest.importorskip("airflow.configuration").conf
    monkeypatch.setenv("AIRFLOW__CORE__DAG_DISCOVERY_SAFE_MODE", said)
    file = tmp_path / "mine.py"
    file.write_text(f"{FROM_US} load_tables; load_tables(globals())\n")
    monkeypatch.setattr(airflow_setup, "setting", lambda section, key: said or None)
    (found,) = dags([local(tmp_path)])
    safe = conf.getboolean("core", "dag_discovery_safe_mode") if said else True
    assert found.status is (Status.wrong if safe else Status.ok)


@pytest.mark.parametrize("safe", ["True", "False"])
def test_a_file_that_airflow_skips_for_its_words_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: str
) -> None:
    might_contain_dag = pytest.importorskip("airflow.utils.file").might_contain_dag
    file = tmp_path / "mine.py"
    file.write_text(f"{FROM_US} load_tables; load_tables(globals())\n")
    assert might_contain_dag(str(file), safe_mode=safe == "True") == (safe == "False")
    monkeypatch.setattr(airflow_setup, "setting", lambda section, key: safe)
    (found,) = dags([local(tmp_path)])
    assert found.status is (Status.wrong if safe == "True" else Status.ok)
    # Airflow reads what the doctor advises to add, and the lines that it advises to write.
    for text in (f"{file.read_text()}# DAGs\n", airflow_setup._LINES):
        file.write_text(text)
        assert might_contain_dag(str(file), safe_mode=True)
        (found,) = dags([local(tmp_path)])
        assert found.status is Status.ok


@pytest.mark.parametrize(
    "text",
    [
        "# from evenkeel_airflow import load_tables; load_tables(globals())",
        "'from evenkeel_airflow import load_tables; load_tables(globals())'",
        "# As evenkeel_airflow does it.\ndef load_tables(conn):\n    return conn",
        "import evenkeel_airflow\nfrom warehouse import load_tables\nload_tables('conn')",
        "from evenkeel_airflow import report_problems\nwarehouse.load_tables('conn')",
        "from .evenkeel_airflow import load_tables\nload_tables('conn')",
        "from evenkeel_airflow import load_tables\nload_tables(",
    ],
)
def test_a_function_of_the_same_name_is_not_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.py").write_text(f"{text}\n")
    (none,) = dags([local(tmp_path)])
    assert none.status is Status.warning and "load_tables" in none.fix
    assert command.loaded_folders(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", {"spark_default": Status.wrong}),
        ("load_tables(globals())", {"spark_default": Status.wrong}),
        ("load_tables(globals(), default_args={'pool': 'p'})", {"spark_default": Status.wrong}),
        ("load_tables(globals(), default_args={'conn_id': 'team'})", {"team": Status.ok}),
        ("load_tables(globals(), default_args={'conn_id': 'none'})", {"none": Status.wrong}),
        ("load_tables(globals(), default_args=dict(conn_id='team'))", {"team": Status.ok}),
        (
            f"{FROM_US} RebalanceTaskGroup\nwith DAG('d', default_args={{'conn_id': 'team'}}):\n"
            "    RebalanceTaskGroup('a.yaml')",
            {"team": Status.ok},
        ),
        (
            "given = {'conn_id': 'team'}\nload_tables(globals(), default_args=given)",
            {"spark_default": Status.warning},
        ),
    ],
)
def test_the_connection_is_the_one_that_dag_files_name(
    airflow: Path, tmp_path: Path, text: str, rows: dict[str, Status]
) -> None:
    answer = json.dumps([{"conn_type": "spark", "host": "yarn"}])
    airflow.write_text(f"#!/bin/sh\n[ $3 = team ] && echo '{answer}'\n")
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "mine.py").write_text(f"{FROM_US} load_tables\n{text}\n")
    found = {row.what: row.status for row in airflow_setup.connections([local(folder)])}
    found.pop("spark-submit for Airflow's tasks", None)
    assert found == {f"connection {name}": status for name, status in rows.items()}


def test_no_connection_is_asked_for_where_a_spark_stays_up_or_dags_are_elsewhere(
    airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(airflow, "Connection not found.", 1)
    (row,) = airflow_setup.connections([GIT])
    assert row.status is Status.warning and "conn_id" in row.found
    monkeypatch.setenv("EVENKEEL_SPARK", str(tmp_path))
    (row,) = airflow_setup.connections([local(tmp_path)])
    assert row.status is Status.absent and f"jobs run in the Spark of {tmp_path}" in row.found


def test_files_that_airflow_fetches_are_not_looked_at(tmp_path: Path) -> None:
    (row,) = dags([GIT])
    assert row.status is Status.warning and "GitDagBundle" in row.found
    assert "airflow dags list" in row.fix
    rows = list(dags([local(tmp_path), GIT]))
    assert [row.status for row in rows] == [Status.ok, Status.warning]
    (tmp_path / "mine.py").write_text(f"{FROM_US} load_tables; load_tables(globals())  # DAGs\n")
    assert {row.status for row in dags([local(tmp_path), GIT])} == {Status.ok}


def test_airflow_names_its_bundles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Airflow's own command answers, for its default and for a list of two."""
    variable = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert list(bundles("/opt/dags")) == [local(Path("/opt/dags"))]
    listed = [
        {
            "name": "team",
            "classpath": "airflow.providers.git.bundles.git.GitDagBundle",
            "kwargs": {"tracking_ref": "main"},
        },
        {
            "name": "more",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": "/opt/more"},
        },
    ]
    monkeypatch.setenv(variable, json.dumps(listed, indent=2))
    found = list(bundles(str(tmp_path / "gone")))
    assert found == [GIT, Bundle("more", "LocalDagBundle", "/opt/more")]


def test_the_specs_are_those_that_airflow_loads(
    airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the variable, then Airflow's configuration, then a literal folder in a DAG file."""
    monkeypatch.setenv("EVENKEEL_TABLES", "/opt/variable")
    answers(airflow, "/opt/configured")
    assert command._folders() == [Path("/opt/variable")]
    monkeypatch.delenv("EVENKEEL_TABLES")
    assert command._folders() == [Path("/opt/configured")]
    (tmp_path / "dags").mkdir()
    lines = "import evenkeel_airflow as e\ne.load_tables(globals(), {})\n"
    group = "from evenkeel_airflow import RebalanceTaskGroup\nRebalanceTaskGroup({})\n"
    (tmp_path / "dags/a.py").write_text(lines.format("'/opt/literal'"))
    (tmp_path / "dags/b.py").write_text(lines.format("folder='/opt/other'"))
    (tmp_path / "dags/c.py").write_text(lines.format("computed()"))
    (tmp_path / "dags/d.py").write_text(group.format("'/opt/third/flights.yaml'"))
    airflow.write_text(f'#!/bin/sh\n[ "$3" = core ] && echo {tmp_path}/dags || exit 1\n')
    assert command._folders() == [Path("/opt/literal"), Path("/opt/other"), Path("/opt/third")]
