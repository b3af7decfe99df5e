"""Modules of a team's own that have the name of a package of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.doctor import Status, airflow_setup
from tests.support.airflow_env import ROOT


@pytest.mark.parametrize("name", ["partitioning.py", "partitioning/__init__.py"])
def test_a_module_of_our_name_in_airflow_s_folders(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    answers = {"dags_folder": str(ROOT), "plugins_folder": str(tmp_path)}
    monkeypatch.setattr(
        airflow_setup, "answer_lines", lambda *words: (0, [answers.get(words[-1], "[]")])
    )
    what = "the name partitioning"
    assert what not in {row.what for row in airflow_setup.look_at_airflow()}
    (tmp_path / name).touch()
    rows = {row.what: row for row in airflow_setup.look_at_airflow()}
    assert rows[what].status is Status.warning and "Rename it" in rows[what].fix
    assert rows[what].found.startswith(str(tmp_path / name.partition("/")[0]))
