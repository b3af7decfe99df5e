"""The overview: what needs somebody first, found by name and state, of any number of tables."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from evenkeel.table import open_table
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import HOME, ended
from tests.support.pages.overview import lines
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    deny,
    end_runs,
    made_site,
    run_name,
    start,
)
from tests.support.worlds.shop import SPEC

if TYPE_CHECKING:
    from evenkeel.spec.table_spec import TableSpec
    from evenkeel_ui.statuses import TableRow

pytestmark = pytest.mark.airflow


@pytest.fixture
def others(site: Site) -> Iterator[Path]:
    """A spec that is wrong, and two tables that nobody has bootstrapped."""
    folder = Path(site.shop.spec).parent
    made = [folder / f"{name}.yaml" for name in ("wrong", "another", "zebra")]
    made[0].write_text("table: wrong\nkye: word\n")
    for file in made[1:]:
        place = {"registry": str(folder / file.stem), "table": file.stem}
        state = {"counts": {**SPEC["state"]["counts"], "path": str(folder / f"s{file.stem}")}}
        file.write_text(yaml.safe_dump({**SPEC, **place, "state": state}))
    yield folder
    for file in made:
        file.unlink()


def test_what_needs_somebody_comes_first(site: Site, others: Path, broken: str) -> None:
    ada, vic = site.client("ada"), site.client("vic")
    found = lines(ada.get("/evenkeel/").text)
    assert list(found.items()) == [
        ("words", "half-moved"),
        ("wrong.yaml", "spec wrong"),
        ("another", "not measured"),
        ("zebra", "not measured"),
    ]
    folder = site.registry.run(broken)
    folder.remove("migration.json")
    assert lines(ada.get("/evenkeel/").text)["words"] == "failed"
    end_runs()
    # The newest run of the DAG ended well: what failed before it is history.
    start(site.client("uma"), "/evenkeel/tables/words/rebalance", {})
    assert lines(ada.get("/evenkeel/").text)["words"] == "moving"
    end_runs()
    table = open_table(site.shop.spec)
    site.shop.respec(trigger=1.0001, max_imbalance=1.0)
    assert lines(vic.get("/evenkeel/").text)["words"] == "over trigger"
    site.shop.respec(trigger=90.0)
    assert lines(vic.get("/evenkeel/").text)["words"] == "fine"
    site.shop.respec()
    assert table.registry.url == site.registry.url


def test_who_is_asked_is_told_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_ui.airflow_runs.triage import RunRow
    from evenkeel_ui.pages import overview

    asked = RunRow(
        "rebalance_words", "words", "r", "running", datetime.now(UTC), None, None,
        {"approve": "awaiting_input"},
    )  # fmt: skip
    monkeypatch.setattr(overview.triage, "recent", lambda *_: [asked])
    assert lines(site.client("uma").get("/evenkeel/").text)["words"] == "waits for you"
    assert lines(site.client("vic").get("/evenkeel/").text)["words"] == "waits for somebody"


def test_a_problem_stands_in_the_tables_own_row(site: Site, others: Path) -> None:
    text = site.client("ada").get("/evenkeel/").text
    row = next(r for r in text.split("<tr>") if ">wrong.yaml" in r)
    assert "kye" in row and "spec wrong" in row
    row = next(r for r in text.split("<tr>") if ">another<" in r)
    assert "Bootstrap the table first" in unescape(row)


def test_tables_without_a_value_come_last_in_every_order(site: Site, others: Path) -> None:
    for column in ("imbalance", "epoch", "floor", "rebalanced", "moved", "size", "updated"):
        for order in (column, f"-{column}"):
            found = lines(site.client("ada").get("/evenkeel/", params={"sort": order}).text)
            assert next(iter(found)) == "words", order


def test_tables_are_found_by_name_and_state(site: Site, others: Path) -> None:
    def found(**asked: str) -> list[str]:
        text = site.client("ada").get("/evenkeel/", params=asked).text
        return [*lines(text)] if 'aria-label="Tables"' in text else []

    assert found(q="ZEB") == ["zebra"]
    assert found(state="not measured") == ["another", "zebra"]
    assert found(state="not measured", q="an") == ["another"]
    assert found(q="none") == []
    text = site.client("ada").get("/evenkeel/", params={"q": "none"}).text
    assert "No table is like that" in text
    assert site.client("ada").get("/evenkeel/", params={"state": "odd"}).status_code == 200


def test_of_many_tables_those_read_longest_ago_are_read_again(
    site: Site, others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui import statuses
    from evenkeel_ui.spec_folders import tables_with_dags

    monkeypatch.setattr(statuses, "MIN_TABLES", 1)
    read: list[str] = []
    real: Any = statuses._row
    monkeypatch.setattr(statuses, "_row", lambda spec: (read.append(spec.table), real(spec))[1])
    kept, specs = statuses.Statuses(), [*tables_with_dags().specs.values()]
    assert len(specs) == 3
    for count in range(1, 4):
        rows = kept.rows(specs, 0, 0)
        assert sum(row.read is not None for row in rows) == count
    assert len({*read}) == 3
    kept.rows(specs, 0, 0)
    assert read[3] == read[0]
    # An edited spec is another table; with time, every table is read.
    edited = [specs[0].model_copy(update={"trigger": 7.0}), *specs[1:]]
    assert kept.rows(edited, 0, 0)[0].spec.trigger == 7.0 and read[4] == specs[0].table
    assert len(kept.rows(specs, seconds=60)) == 3 and len(read) == 8
    # Those that were never read have a time of their own; the others then go on as before.
    kept, count = statuses.Statuses(), len(read)
    assert all(row.read for row in kept.rows(specs, 0, 60)) and len(read) == count + 3
    kept.rows(specs, 0, 60)
    assert len(read) == count + 4


def test_a_table_that_cannot_be_read_is_not_to_be_bootstrapped(
    site: Site, alone: None, others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui import statuses
    from evenkeel_ui.pages import overview

    def away(spec: TableSpec) -> TableRow:
        raise OSError("the store is away")

    assert "job bootstrap --spec zebra" in unescape(site.client("ada").get("/evenkeel/").text)
    monkeypatch.setattr(statuses, "_row", away)
    monkeypatch.setattr(overview, "STATUSES", statuses.Statuses())
    text = unescape(site.client("ada").get("/evenkeel/").text)
    assert "the store is away" in text and "job bootstrap" not in text


def test_a_table_that_nobody_has_read_is_not_called_unmeasured(
    site: Site, alone: None, others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui import statuses
    from evenkeel_ui.pages import overview

    real = statuses.Statuses.rows
    monkeypatch.setattr(statuses, "MIN_TABLES", 0)
    monkeypatch.setattr(
        statuses.Statuses, "rows", lambda self, specs, urgent=(): real(self, specs, -1, -1)
    )
    monkeypatch.setattr(overview, "STATUSES", statuses.Statuses())
    text = site.client("ada").get("/evenkeel/").text
    assert set(lines(text).values()) == {"spec wrong", "not read yet"}
    assert "not read yet (3)" in text and "not measured" not in text
    text = site.client("ada").get("/evenkeel/", params={"state": "not read yet"}).text
    assert [*lines(text)] == ["another", "words", "zebra"]


def test_since_when_is_told_of_what_cannot_be_read(site: Site, others: Path, broken: str) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    def row(name: str) -> str:
        text = site.client("ada").get("/evenkeel/").text
        return next(r for r in text.split("<tr>") if f">{name}<" in r).split("</td>")[0]

    changed = datetime(2026, 1, 2, 3, 4, tzinfo=UTC).timestamp()
    os.utime(others / "wrong.yaml", (changed, changed))
    assert "spec wrong" in row("wrong.yaml") and "2026-01-02T03:04" in row("wrong.yaml")
    site.registry.run(broken).write("migration.json", b"{")
    with create_session() as session:
        session.execute(update(DagRun).values(state="success"))
    first = row("words")
    assert "cannot be read" in first and 'first seen by this server <time datetime="20' in first
    when = first.split('datetime="')[1].split('"')[0]
    until = time.monotonic() + 1.1
    while time.monotonic() < until:
        assert when in row("words")
    site.registry.run(broken).remove("migration.json")
    assert "first seen" not in row("words")


def test_only_the_first_runs_are_listed_with_a_link_to_all(site: Site, alone: None) -> None:
    client = site.client("ada")
    client.post("/api/v2/dags/rebalance_words/dagRuns", json={"logical_date": None})
    end_runs()
    for count in range(30):
        ended("rebalance_words", "running", count + 1)
    ended("roll_back_words", "failed", 0.1)

    def runs(**asked: str) -> tuple[int, str]:
        text = client.get("/evenkeel/", params=asked).text
        listed = text.split('id="pressing"')[1].split("</section>")[0]
        return listed.count("<li>"), listed

    count, text = runs(q="wor")
    assert count == 10 and "10 of 31" in text and "q=wor&amp;every_run=true#pressing" in text
    assert "failed" in text.split("</li>")[0]
    count, text = runs(every_run="true")
    assert count == 31 and "Show all" not in text


def test_a_spec_is_read_again_once_it_changed(site: Site, others: Path) -> None:
    from evenkeel.spec import catalog

    first = catalog.load_catalog(others)
    again = catalog.load_catalog(others)
    assert [a is b for a, b in zip(first.specs.values(), again.specs.values(), strict=True)] == [
        True
    ] * 3
    file = others / "zebra.yaml"
    file.write_text(file.read_text().replace("zebra", "zebu"))
    assert "zebu" in {s.table for s in catalog.load_catalog(others).specs.values()}


def test_checks_that_failed_name_their_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run may have been refused, or a dry run: the checks are not of the current epoch."""
    store = site.registry.store
    for number, run in enumerate((run_name(9), "rebalance_words--manual__x")):
        store.write(f"data_docs/2999010{number + 1}T000000Z.{run}.before.failed.html", b"<main>")
        link = f'Plan checks failed</span> <span class="note">by run <a href="{HOME}/runs/{run}">'
        for path in ("/evenkeel/", HOME):
            assert link in site.client("vic").get(path).text, (run, path)
        # Who may not read rollbacks sees no name that may be one's.
        with monkeypatch.context() as rights:
            deny(rights, "roll_back_words")
            for path in ("/evenkeel/", HOME):
                text = site.client("vic").get(path).text
                assert "Plan checks failed" in text
                assert (link in text) is (run != run_name(9)), (run, path)
    store.remove_folder("data_docs")
