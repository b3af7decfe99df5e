"""DAG bundles of Airflow: which there are, whether they have the tables, and where specs are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.doctor import Status, command
from evenkeel.doctor.airflow_setup import Bundle, bundles, dags
from tests.evenkeel.doctor.conftest import answers

GIT = Bundle("team", "GitDagBundle", None)


def local(folder: Path) -> Bundle:
    return Bundle("dags-folder", "LocalDagBundle", str(folder))


@pytest.mark.parametrize(
    "line",
    [
        "load_tables(globals(), '/opt/tables')",
        "    rebalance = RebalanceTaskGroup('/opt/tables/flights.yaml')",
    ],
)
def test_a_folder_has_the_tables(tmp_path: Path, line: str) -> None:
    (gone,) = dags([local(tmp_path / "gone")])
    assert gone.status is Status.wrong and "no such folder" in gone.found
    (tmp_path / "mine.py").write_text(f"# {line}\n")
    (none,) = dags([local(tmp_path)])
    assert none.status is Status.warning and "load_tables" in none.fix
    (tmp_path / "mine.py").write_text(f"{line}\n")
    (found,) = dags([local(tmp_path)])
    assert found.status is Status.ok and str(tmp_path / "mine.py") in found.found


def test_files_that_airflow_fetches_are_not_looked_at(tmp_path: Path) -> None:
    (row,) = dags([GIT])
    assert row.status is Status.warning and "GitDagBundle" in row.found
    assert "airflow dags list" in row.fix
    rows = list(dags([local(tmp_path), GIT]))
    assert [row.status for row in rows] == [Status.ok, Status.warning]
    (tmp_path / "mine.py").write_text("load_tables(globals(), '/opt/tables')\n")
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
