"""Rows that may be misplaced: told on both pages until something brought them to their places."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import HOME, ended, failed_at, run_called
from tests.support.pages.overview import lines
from tests.support.plugin_site import Site, made_site  # noqa: F401  a fixture

pytestmark = pytest.mark.airflow
STATE = "maybe misplaced"
SAID = "rows stand where epoch 2 does not put them. Run the DAG repair_words"


def told(site: Site) -> bool:
    """Whether rows may be misplaced, as both pages say."""
    client = site.client("uma")
    told = "Rows may be misplaced" in client.get(HOME).text
    text = client.get("/evenkeel/").text
    assert (lines(text)["words"] == STATE) == told, lines(text)
    row = next(r for r in text.split("<tr>") if f'href="{HOME}">words<' in r)
    assert not told or "since <time" in row.split("</td>")[0]
    return told


@pytest.fixture
def misplaced(site: Site, alone: None, broken: str) -> Iterator[str]:
    """Name of a run that failed a day ago because rows stand in wrong places."""
    from airflow.utils.session import create_session

    site.registry.run(broken).remove("migration.json")
    failed_at(broken, "migrate", SAID)
    with create_session() as session:
        run = run_called(session, broken)
        run.start_date = run.end_date = datetime.now(UTC) - timedelta(days=1)
    store = site.registry.store
    checks = [f"data_docs/{name}" for name in store.names("data_docs") if ".after." in name]
    kept = {path: store.read(path) for path in checks}
    for path in kept:
        store.remove(path)
    yield broken
    for path, page in kept.items():
        store.write(path, page)


@pytest.fixture
def check(site: Site, alone: None) -> Iterator[Any]:
    """Write a check of the tables with a verdict, so many days ago; it is gone afterwards."""
    made = []

    def write(verdict: str, days_ago: float) -> None:
        when = datetime.now(UTC) - timedelta(days=days_ago)
        made.append(f"data_docs/{when:%Y%m%dT%H%M%S}Z.r.after.{verdict}.html")
        site.registry.store.write(made[-1], b"")

    yield write
    for path in made:
        site.registry.store.remove(path)


NO_WAY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a dry repair": ("repair_words", "success", {"conf": {"dry_run": True}}),
    "a failed repair": ("repair_words", "failed", {}),
    "a dry rollback": ("roll_back_words", "success", {"conf": {"dry_run": True}}),
    "an undo that failed": ("rebalance_words", "failed", {"tasks": {"roll_back": "failed"}}),
    "a run that moved nothing": ("rebalance_words", "success", {"tasks": {"publish": "skipped"}}),
}
WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a repair": ("repair_words", "success", {}),
    "a rollback": ("roll_back_words", "success", {}),
    "an undo": ("rebalance_words", "failed", {"tasks": {"roll_back": "success"}}),
}

#: Runs that have moved nothing so far, and runs that may have.
LOOKING: list[tuple[str, dict[str, Any]]] = [
    ("watch_words", {"tasks": {"watch": "running", "migrate": None}}),
    ("rebalance_words", {"tasks": {"approve": "deferred", "migrate": None}}),
    ("rebalance_words", {"tasks": {"learn": "running", "migrate": "scheduled"}}),
    ("repair_words", {"tasks": {"repair": "running"}, "conf": {"dry_run": True}}),
    ("repair_words", {"tasks": {"repair": "queued"}}),
]
MOVING = {
    "rebalance_words": ("migrate", "roll_back"),
    "repair_words": ("repair",),
    "adopt_words": ("adopt",),
    "release_words": ("release",),
}


def forget_made() -> None:
    """Delete the runs of `ended`."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        for kind in (TaskInstance, DagRun):
            session.execute(delete(kind).where(kind.run_id.like("made__%")))


def test_nothing_counts_while_a_run_moves_rows_and_all_does_while_it_looks(
    site: Site, misplaced: str
) -> None:
    for place, (dag, more) in enumerate(LOOKING):
        ended(dag, "running", 0.5 - place / 100, **more)
        assert told(site), (dag, more)
    forget_made()
    moving = [(dag, task) for dag, tasks in MOVING.items() for task in tasks]
    for place, (dag, task) in enumerate(moving):
        ended(dag, "running", 0.1 - place / 100, tasks={task: "running"})
        assert not told(site), task
        forget_made()
        assert told(site), task


def test_an_error_counts_until_something_recovered_the_table(
    site: Site, misplaced: str, check: Any
) -> None:
    assert told(site)
    for place, (dag, state, more) in enumerate(NO_WAY.values()):
        ended(dag, state, 0.9 - place / 100, **more)
        assert told(site), (dag, state, more)
    check("passed", 1.1)
    assert told(site)
    check("passed", 0.5)
    assert not told(site)


@pytest.mark.parametrize("way", WAYS)
def test_an_older_error_and_an_older_check_count_no_more(
    site: Site, misplaced: str, check: Any, way: str
) -> None:
    dag, state, more = WAYS[way]
    check("failed", 0.8)
    # What recovered it before says nothing about what was found later.
    ended(dag, state, 1.5, **more)
    assert told(site)
    ended(dag, state, 0.5, **more)
    assert not told(site)
    check("failed", 0.4)
    assert told(site)
