"""Pages of a table while a run moves its rows: which checks count, and what stopping leaves."""

from __future__ import annotations

import re
from html import unescape

import pytest

from evenkeel.pipeline import steps
from evenkeel.registry.verdict import begin_attempt
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages import repairs
from tests.support.pages.failed_runs import DONE, HOME, SO_FAR, press, run_called, undo_failed
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


def test_a_way_back_does_not_count_what_moved_before_it(
    site: Site, alone: None, broken: str
) -> None:
    from airflow.utils.session import create_session

    folder = site.registry.run(broken)
    told = folder.progress.read().model_dump()

    undo_failed(site, broken)
    text = unescape(site.client("uma").get(HOME).text)
    assert f"rolling back has begun; before that, {SO_FAR} on the way to epoch 3" in text
    with create_session() as session:
        run_called(session, broken).state = "running"
    text = unescape(site.client("uma").get(f"{HOME}/runs/{broken}").text)
    assert f"So far: rolling back has begun; before that, {SO_FAR}." in text
    write_json(
        folder, "progress.json", told | {"rows": 1, "planned": DONE, "back": True, "moves": None}
    )
    text = unescape(site.client("uma").get(f"{HOME}/runs/{broken}").text)
    assert f"So far: 1 of {DONE} rows moved back, " in text and SO_FAR not in text
    end_runs("failed")
    text = unescape(site.client("uma").get(HOME).text)
    assert f"1 of {DONE} rows moved back from epoch 3" in text
    # The next attempt moves forward again.
    digest = steps.read_plan(folder).digest
    write_json(folder, "rolled_back.json", {"digest": digest, "done": True})
    assert begin_attempt(folder, digest, 2)
    assert "no row was reported as moved yet" in site.client("uma").get(HOME).text
    folder.attempt(digest, 2).remove()


def test_a_run_that_left_the_table_half_moved_says_so_while_a_repair_goes_on(
    site: Site, alone: None, broken: str
) -> None:
    assert repairs.press(site, "uma").status_code == 303
    text = site.client("uma").get(f"{HOME}/runs/{broken}").text
    assert 'aria-label="Half moved"' not in text
    assert '<p class="lead bad">The run ended, and neither published' in text
    assert "words was left half moved on the way from epoch 2 to epoch 3" in text
    assert "is moving" not in text
    end_runs()


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
