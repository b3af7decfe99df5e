"""Pages of a table while a run moves its rows: which checks count, and what stopping leaves."""

from __future__ import annotations

import re

import pytest

from evenkeel.pipeline import steps
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import HOME, press, run_called
from tests.support.plugin_site import Site, end_runs, made_site  # noqa: F401  a fixture
from tests.support.raw_json import write_json

pytestmark = pytest.mark.airflow


def test_checks_before_the_move_are_not_shown_in_green(
    site: Site, alone: None, broken: str
) -> None:
    def green(path: str) -> bool:
        text = site.client("uma").get(path).text
        assert "checks passed" in text, path
        found = re.search(r'badge good">\w+ checks passed', text) is not None
        assert ("checks passed before the move" in text) != found, path
        return found

    for path in ("/evenkeel/", HOME):
        assert not green(path), path
    # Nor while its run goes on.
    assert press(site, "uma", broken, "undo").status_code == 303
    for path in ("/evenkeel/", HOME):
        assert not green(path), path
    end_runs()
    site.registry.run(broken).remove("migration.json")
    for path in ("/evenkeel/", HOME):
        assert green(path), path


def test_what_stopping_leaves_is_said_as_it_is(site: Site, alone: None, broken: str) -> None:
    from airflow.utils.session import create_session

    folder = site.registry.run(broken)
    with create_session() as session:
        run_called(session, broken).state = "running"

    def note() -> str:
        text = site.client("uma").get(f"{HOME}/runs/{broken}").text
        return text.split("Stop this run")[1].split("</form>")[0]

    assert "leaves the table half moved" in note()
    digest = steps.read_plan(folder).digest
    write_json(folder, "rolled_back.json", {"digest": digest, "done": True})
    assert "All rows are moved back" in note() and "Nothing has moved" not in note()
    folder.remove("rolled_back.json")
    record = folder.migration.read()
    folder.write("migration.json", b"{")
    assert "Nobody knows whether rows have moved" in note()
    folder.remove("migration.json")
    assert "Nothing has moved yet" in note()
    write_json(
        folder, "migration.json", {"digest": record.digest, "epoch": record.epoch, "tables": {}}
    )
    site.shop.verified(broken)
    steps.publish(site.shop.spec, broken)
    assert "Epoch 3 is published" in note() and "Nothing has moved" not in note()
