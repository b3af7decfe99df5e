"""The overview of many tables with runs: each has its line, and none costs a query of its own.

`make bench ARGS=overview` measures how long a thousand of them take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from evenkeel.table import open_table
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.many_tables import record_runs, write_tables
from tests.support.pages.failed_runs import ended
from tests.support.pages.overview import lines
from tests.support.plugin_site import Site, forget_runs, made_site  # noqa: F401  a fixture

if TYPE_CHECKING:
    from evenkeel.spec.table_spec import TableSpec
    from evenkeel_ui.statuses import TableRow

pytestmark = pytest.mark.airflow


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect the SQL that Airflow's database is asked."""
    from airflow import settings
    from sqlalchemy import event

    asked: list[str] = []

    def heard(connection, cursor, statement, *_):  # type: ignore[no-untyped-def]
        asked.append(statement)

    event.listen(settings.engine, "before_cursor_execute", heard)
    try:
        yield asked
    finally:
        event.remove(settings.engine, "before_cursor_execute", heard)


def shown(site: Site, folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let there be so many tables, and return the SQL of their overview once all are read."""
    forget_runs()
    names = write_tables(folder, site.shop.spec, str(site.registry.url), count)
    record_runs(names, 3, {"t1": "failed", "t2": "running"})
    monkeypatch.setenv("EVENKEEL_TABLES", str(folder))
    client = site.client("vic")
    while "still being read" in client.get("/evenkeel/").text:
        pass
    with statements() as asked:
        answer = client.get("/evenkeel/?every=true")
    found = lines(answer.text)
    assert list(found.items())[:1] == [("t1", "failed")] and {*found} == {*names}
    assert found.pop("t1") == "failed" and found.pop("t2") == "moving"
    assert len({*found.values()}) == 1 and found["t0"] in ("fine", "over trigger")
    text = unescape(answer.text)
    assert "t1: " in text and "failed at migrate" in text and "at migrate" in text
    # Runs that ended well press nobody, nor do those before the newest.
    assert text.split('id="pressing"')[1].split("</section>")[0].count("<li>") == 2
    return asked


def test_each_has_its_line_and_none_its_query(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = shown(site, tmp_path / "few", 5, monkeypatch)
    many = shown(site, tmp_path / "many", 60, monkeypatch)
    assert 5 < len(few) < 40
    assert len(many) == len(few), [s for s in many if s not in few]
    forget_runs()


def work(steps: int = 100) -> int:
    """Return the work of the database for the runs of `words`, in steps of its virtual machine."""
    from airflow import settings
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.utils.session import create_session
    from sqlalchemy import event

    from evenkeel_ui.airflow_runs.triage import pressing, recent

    user, used, counted = SimpleAuthManagerUser(username="ada", role="admin"), set(), [0]

    def count() -> int:
        counted[0] += steps
        return 0

    def heard(connection, cursor, *_):  # type: ignore[no-untyped-def]
        used.add(cursor.connection)
        cursor.connection.set_progress_handler(count, steps)

    event.listen(settings.engine, "before_cursor_execute", heard)
    try:
        with create_session() as session:
            rows = recent(session, user, ["words"], 1)
            failed = [r.dag for r in pressing(session, rows) if r.state == "failed"]
    finally:
        event.remove(settings.engine, "before_cursor_execute", heard)
        for connection in used:
            connection.set_progress_handler(None, steps)
    # A repair has succeeded since.
    assert failed == [] and {r.state for r in rows} == {"failed", "success"}
    return counted[0]


def test_old_runs_that_succeeded_cost_no_work(site: Site, alone: None) -> None:
    from airflow import settings
    from airflow.models.dagrun import DagRun

    def old(dag: str, count: int, day: datetime) -> None:
        begins = [day + timedelta(minutes=5 * n) for n in range(count)]
        runs = [
            {"dag_id": dag, "run_id": f"scheduled__{at.isoformat()}", "state": "success"}
            | {"run_type": "scheduled", "run_after": at, "start_date": at, "end_date": at}
            for at in begins
        ]
        with settings.engine.begin() as connection:
            connection.execute(DagRun.__table__.insert(), runs)

    def told() -> int:
        record_runs(["words"], 2, {"words": "failed"})
        ended("repair_words", "success", 0.01)
        return work()

    few = told()
    forget_runs()
    for dag in ("rebalance_words", "watch_words"):
        old(dag, 2000, datetime(2025, 1, 1, tzinfo=UTC))
    assert told() < 3 * few


class Slow:
    """Tables of which each takes 0.2 s to read, by a clock of its own."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        from evenkeel_ui import statuses

        self.clock, self.read = 0.0, 0
        self.meanwhile: Callable[[], object] = lambda: None
        spec = open_table(site.shop.spec).spec
        self.specs = [spec.model_copy(update={"table": f"t{i}"}) for i in range(20)]
        self.statuses = statuses.Statuses()
        monkeypatch.setattr(statuses, "time", SimpleNamespace(monotonic=lambda: self.clock))
        monkeypatch.setattr(statuses, "_row", self._row)

    def _row(self, spec: TableSpec) -> TableRow:
        from evenkeel_ui.statuses import TableRow

        self.clock += 0.2
        self.read += 1
        then, self.meanwhile = self.meanwhile, lambda: None
        then()
        return TableRow(spec, epoch=self.read, read=datetime.now(UTC))


def test_slow_tables_do_not_take_longer_than_the_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(site, monkeypatch)
    urgent = [s.table for s in slow.specs[:10]]
    slow.statuses.rows(slow.specs, first=60.0)
    assert slow.read == 20
    slow.statuses.rows(slow.specs, seconds=0.3, urgent=urgent)
    assert slow.read == 24


def test_a_slow_request_leaves_the_row_of_a_newer_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(site, monkeypatch)
    slow.statuses.rows(slow.specs, first=60.0)
    slow.meanwhile = lambda: slow.statuses.rows(slow.specs[15:16], seconds=0)
    slow.statuses.rows(slow.specs, seconds=0, urgent=["t3"])
    assert slow.statuses._rows["t15"].epoch == 22
