"""The pages find tables in the named folder, or else in the folders that loaded DAGs name."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conftest import SPEC
from tests.support.airflow_env import airflow_db, dag_bag  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import update

from tests.support.plugin_site import airflow_knows
from evenkeel_ui import spec_folders
# isort: on

pytestmark = pytest.mark.airflow

LINES = "# Airflow: DAGs.\nfrom evenkeel_airflow import load_tables\nload_tables(globals(), {!r})\n"


@pytest.fixture
def folders(
    airflow_db: None,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Path]:
    """Two folders of specs, each loaded by a DAG file that names it literally, and no setting."""
    made = []
    (tmp_path / "dags").mkdir()
    for name in ("east", "west"):
        folder = tmp_path / name
        folder.mkdir()
        for table in (f"{name}_one", f"{name}_two"):
            state = {name: {**own, "path": f"s/{table}"} for name, own in SPEC["state"].items()}
            spec = {**SPEC, "table": table, "registry": f"r/{table}", "state": state}
            (folder / f"{table}.yaml").write_text(yaml.safe_dump(spec))
        (tmp_path / "dags" / f"{name}.py").write_text(LINES.format(str(folder)))
        made.append(folder)
    monkeypatch.delenv("EVENKEEL_TABLES")
    forget_dags()
    airflow_knows(tmp_path / "dags")
    return made


def forget_dags() -> None:
    """Mark every DAG as stale, as Airflow does if its file is gone."""
    with create_session() as session:
        session.execute(update(DagModel).values(is_stale=True))


def tables() -> set[str]:
    return {spec.table for spec in spec_folders.tables_with_dags().specs.values()}


def test_the_folder_of_load_tables_is_found(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tables() == {"east_one", "east_two", "west_one", "west_two"}
    # A wrong spec in such a folder is a problem that the overview shows.
    (folders[0] / "broken.yaml").write_text("table: broken\nkee: [a]\n")
    (problem,) = spec_folders.tables_with_dags().problems
    assert "kee: there is no such field" in str(problem)
    # One read of a DAG finds its whole folder.
    read = []
    get = spec_folders.SerializedDagModel.get
    monkeypatch.setattr(
        spec_folders.SerializedDagModel,
        "get",
        lambda dag, session: read.append(dag) or get(dag, session=session),
    )
    assert len(tables()) == 4
    assert read == ["rebalance_east_one", "rebalance_west_one"]


@pytest.mark.parametrize("variable", ["EVENKEEL_TABLES", "AIRFLOW__EVENKEEL__TABLES"])
def test_a_named_folder_comes_first(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(folders[1]))
    assert tables() == {"west_one", "west_two"}


def test_without_any_table_the_pages_say_what_to_do(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget_dags()
    monkeypatch.setattr(spec_folders, "_CHECKOUT", tmp_path / "none")
    (problem,) = spec_folders.tables_with_dags().problems
    assert "no DAG of Airflow loads a table. Call load_tables in a DAG file" in str(problem)
