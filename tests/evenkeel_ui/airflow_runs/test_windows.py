"""Failed windows, adoptions and releases are seen where a table is: also in DAGs of the team."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import insert, update

from evenkeel.registry.epochs import Registry
from evenkeel.registry.job_error import leave_error
from evenkeel.spec.loading import load_spec
from evenkeel.table import open_table
from partitioning.errors import InputError
from tests.support import airflow_env
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import failed_at
from tests.support.pages.overview import lines
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    airflow_knows,
    deny,
    end_runs,
    forget_runs,
    made_site,
)

pytestmark = pytest.mark.airflow
HOME = "/evenkeel/tables/words"
ERROR = "the window 2013-02-01 to 2013-02-02 does not follow the last one"
DAG_FILE = """
from datetime import datetime
from airflow.sdk import DAG
from evenkeel_airflow.operators import ApplyWindow

for name in {names}:
    with DAG(name, schedule=None, start_date=datetime(2024, 1, 1)):
        ApplyWindow(task_id="fold", spec={spec!r}, start="2013-02-01", end="2013-02-02")
"""
#: The second is named as our own DAGs of tables are.
TEAMS = ["nightly_events", "apply_events"]


@pytest.fixture
def team(site: Site, tmp_path: Path) -> Iterator[None]:
    """Airflow knows DAGs of the team, with a daily window of `words`."""
    (tmp_path / "nightly.py").write_text(DAG_FILE.format(spec=str(site.shop.spec), names=TEAMS))
    airflow_knows(tmp_path)
    yield
    end_runs()


@pytest.fixture(autouse=True)
def alone(airflow_db: None) -> Iterator[None]:  # noqa: F811
    """No run is left of other tests, nor of these for others."""
    forget_runs()
    yield
    forget_runs()


def run_of(site: Site, dag: str, conf: dict[str, str] | None = None) -> str:
    """Start a run by Airflow's API; return its id."""
    end_runs()
    body = {"logical_date": None, "conf": conf or {}}
    answer = site.client("ada").post(f"/api/v2/dags/{dag}/dagRuns", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["dag_run_id"])


def seen(site: Site, user: str, dag: str, task: str) -> tuple[bool, bool]:
    """Whether the overview tells that the task failed there, and the table's page, with the error
    and a link to the log."""
    client = site.client(user)
    overview = unescape(client.get("/evenkeel/").text)
    table = unescape(client.get(HOME).text)
    told = f"failed at {task}" in overview and f"({dag}, " in overview
    assert told == (lines(overview)["words"] == "failed")
    return told, ERROR in table and f"/dags/{dag}/runs/" in table and f"/tasks/{task}" in table


def test_a_window_by_hand_that_failed_is_seen(site: Site) -> None:
    from evenkeel.registry.run_folder import folder_name

    run = run_of(site, "apply_words", {"start": "2013-02-01", "end": "2013-02-02"})
    assert "moving" not in lines(site.client("vic").get("/evenkeel/").text)["words"]
    failed_at(folder_name("apply_words", run), "apply_window", ERROR)
    assert seen(site, "vic", "apply_words", "apply_window") == (True, True)
    # Airflow's tab on that DAG leads to the table.
    there = site.client("vic").get(f"/evenkeel/dags/apply_words/runs/{run}")
    assert there.headers["location"].endswith("/tables/words")
    run_of(site, "apply_words", {"start": "2013-02-01", "end": "2013-02-02"})
    end_runs()
    assert seen(site, "vic", "apply_words", "apply_window")[0] is False


@pytest.mark.parametrize("dag", TEAMS)
def test_a_window_that_failed_in_a_dag_of_the_team_is_seen(
    site: Site, team: None, monkeypatch: pytest.MonkeyPatch, dag: str
) -> None:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    from evenkeel.registry.run_folder import folder_name

    run = run_of(site, dag)
    failed_at(folder_name(dag, run), "fold", "a line that another error comes before")
    assert seen(site, "vic", dag, "fold") == (False, False)
    ours = (TaskInstance.dag_id == dag) & (TaskInstance.run_id == run)
    fields = {"application_args": ["--spec", str(site.shop.spec), "--start", "2013-02-01"]}
    with create_session() as session:
        session.execute(update(TaskInstance).where(ours).values(end_date=datetime.now(UTC)))
        key = {"dag_id": dag, "run_id": run, "task_id": "fold", "map_index": -1}
        session.execute(insert(Rendered).values(rendered_fields=fields, **key))
        attempt = str(session.query(TaskInstance).where(ours).one().id)
    registry: Registry = open_table(site.shop.spec).registry
    leave_error(registry, "apply_window", None, attempt, InputError(ERROR))
    assert seen(site, "vic", dag, "fold") == (True, True)
    with monkeypatch.context() as patch:
        # Its name tells a reader nothing who may not read that DAG.
        deny(patch, dag)
        assert seen(site, "vic", dag, "fold") == (False, False)
    again = run_of(site, dag)
    later = (TaskInstance.dag_id == dag) & (TaskInstance.run_id == again)
    end = datetime.now(UTC) + timedelta(seconds=1)
    with create_session() as session:
        done = update(TaskInstance).where(later)
        session.execute(done.values(state="success", end_date=end))
    end_runs()
    assert seen(site, "vic", dag, "fold") == (False, False)


def in_parts(site: Site, error: str, ours: dict[str, Any], other: dict[str, Any]) -> str:
    """A failed run whose window is a mapped task of two parts; what each of them is."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    from evenkeel.registry.run_folder import folder_name

    dag = TEAMS[0]
    run = run_of(site, dag)
    failed_at(folder_name(dag, run), "fold", error)
    parts, one = TaskInstance.__table__, TaskInstance.run_id == run
    fields = {"application_args": ["--spec", str(site.shop.spec), "--start", "2013-02-01"]}
    with create_session() as session:
        session.execute(update(TaskInstance).where(one).values(**ours))
        (row,) = session.execute(parts.select().where(one)).mappings()
        session.execute(parts.insert().values({**row, "id": uuid4(), **other}))
        for part in (0, 1):
            key = {"dag_id": dag, "run_id": run, "task_id": "fold", "map_index": part}
            session.execute(insert(Rendered).values(rendered_fields=fields, **key))
    return run


@pytest.mark.parametrize("state", ["success", "failed"])
def test_another_part_of_a_mapped_task_hides_no_window(site: Site, team: None, state: str) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    from evenkeel_ui.airflow_runs.windows import failed_windows

    now = datetime.now(UTC)
    later = {"map_index": 1, "state": state, "end_date": now + timedelta(1)}
    run = in_parts(site, ERROR, {"map_index": 0, "end_date": now}, later)
    with create_session() as session:
        assert failed_windows(session, ["words"]) == {(TEAMS[0], run, "fold"): "words"}
        ours = TaskInstance.run_id == run
        session.execute(update(TaskInstance).where(ours).values(state="success"))
    with create_session() as session:
        assert not failed_windows(session, ["words"])
    end_runs()


def test_newer_failures_of_other_tables_hide_no_window(site: Site, team: None) -> None:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    from evenkeel_ui.airflow_runs.windows import MAX_FAILURES, failed_windows

    now = datetime.now(UTC)
    old, part = (
        {"map_index": 0, "end_date": now - timedelta(1)},
        {"map_index": 1, "state": "success"},
    )
    run = in_parts(site, ERROR, old, {**part, "state": "success"})
    key = {"dag_id": TEAMS[0], "run_id": run, "task_id": "fold"}
    fields = {"application_args": ["--spec", "/nowhere/other.yaml", "--start", "2013-02-01"]}
    parts = range(2, MAX_FAILURES + 3)
    with create_session() as session:
        ours = (TaskInstance.run_id == run) & (TaskInstance.map_index == 0)
        (row,) = session.execute(TaskInstance.__table__.select().where(ours)).mappings()
        newer = [{**row, "id": uuid4(), "map_index": n, "end_date": now} for n in parts]
        session.execute(TaskInstance.__table__.insert(), newer)
        shown = [{**key, "map_index": n, "rendered_fields": fields} for n in parts]
        session.execute(insert(Rendered), shown)
    for table in ("words", "other"):
        with create_session() as session:
            assert failed_windows(session, [table]) == {(TEAMS[0], run, "fold"): table}
    end_runs()


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("failed", [UUID(int=1), UUID(int=2**128 - 1)], ids=["first", "last"])
def test_of_a_mapped_task_the_part_that_failed_last_tells_the_error(
    site: Site, team: None, number: int, failed: UUID
) -> None:
    """No order of a database counts."""
    now = datetime.now(UTC)
    before = {"map_index": 1 - number, "end_date": now - timedelta(1)}
    last = {"id": failed, "map_index": number, "end_date": now}
    in_parts(site, "a line that another error comes before", before, last)
    registry: Registry = open_table(site.shop.spec).registry
    leave_error(registry, "apply_window", None, str(failed), InputError(ERROR))
    assert seen(site, "vic", TEAMS[0], "fold") == (True, True)
    end_runs()


def test_every_dag_of_a_table_has_its_runs_shown(site: Site) -> None:
    from airflow.dag_processing.dagbag import DagBag

    from evenkeel_airflow import adoption_dags
    from evenkeel_ui.access import KINDS

    bag: DagBag = airflow_env.dag_bag()
    kinds = {d.removesuffix("words") for d in bag.dags if d.endswith("_words")}
    assert kinds and kinds <= {*KINDS}
    # The words are no table of a team's own, so it has none of these two.
    file = str(airflow_env.ROOT / "examples" / "many_rows_a_key.yaml")
    for make in (adoption_dags.adopt, adoption_dags.release):
        dag = make(load_spec(file), file, {})
        assert dag is not None and dag.dag_id.removesuffix("many_rows_a_key") in KINDS
