"""Pages of a table with which much is wrong, looked at by axe: nothing of any impact is found."""

from __future__ import annotations

import pytest

from tests.evenkeel_ui.test_actions import asking  # noqa: F401  a fixture
from tests.evenkeel_ui.test_dangers import Eyes, eyes  # noqa: F401  a fixture
from tests.evenkeel_ui.test_triage import HOME, broken  # noqa: F401  a fixture
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.axe import violations
from tests.support.plugin_site import Site, end_runs, made_site, run_name  # noqa: F401  a fixture

pytestmark = pytest.mark.airflow


def found(eyes: Eyes, paths: dict[str, str]) -> dict[str, dict[str, str]]:  # noqa: F811
    page, wrong = eyes.page("uma"), {}
    for name, path in paths.items():
        page.goto(eyes.url + path)
        if here := violations(page):
            wrong[name] = here
    return wrong


def test_pages_of_a_half_moved_table(eyes: Eyes, broken: str) -> None:  # noqa: F811
    eyes.site.registry.run(broken).write("rolled_back.json", b"{")
    last = f"{HOME}/runs/{run_name(2)}"
    pages = {
        "overview": "/evenkeel/",
        "table": HOME,
        "failed run": f"{HOME}/runs/{broken}",
        "channel": f"{HOME}/channels/1",
        "rebalance": f"{HOME}/rebalance?max_imbalance=1.01",
        "rollback": f"{HOME}/rollback?epoch=0",
        "run": last,
        "report": f"{last}/report",
        "compare": f"{HOME}/compare",
        "quality": f"{HOME}/quality",
        "data docs": f"{HOME}/data_docs/index.html",
        "not found": f"{HOME}/channels/99",
    }
    assert found(eyes, pages) == {}


def test_a_page_that_asks_and_a_board_that_is_old(eyes: Eyes, asking: str) -> None:  # noqa: F811
    assert found(eyes, {"asking": f"{HOME}/runs/{asking}", "overview": "/evenkeel/"}) == {}
    page = eyes.open("uma", "/evenkeel/")
    page.evaluate("document.querySelector('#not-refreshed').hidden = false")
    page.evaluate("document.querySelector('[data-why=login]').hidden = false")
    assert violations(page) == {}
    end_runs()
