"""The overview of many tables with runs: each has its line, and none costs a query of its own.

`make bench ARGS=overview` measures how long a thousand of them take.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.many_tables import record_runs, write_tables
from tests.support.pages.overview import lines
from tests.support.plugin_site import Site, forget_runs, made_site  # noqa: F401  a fixture

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
