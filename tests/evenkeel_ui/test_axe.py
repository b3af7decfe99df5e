"""Pages of a table with which much is wrong, looked at by axe: nothing of any impact is found."""

from __future__ import annotations

import re

import pytest

from evenkeel.quality import data_docs
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.axe import framed_violations, violations
from tests.support.pages.browser import Eyes
from tests.support.pages.failed_runs import HOME
from tests.support.plugin_site import Site, end_runs, made_site, run_name  # noqa: F401  a fixture

pytestmark = pytest.mark.airflow


#: Words for which the glossary, or the pages, have another.
OLD_WORDS = re.compile(r"\b(hottest|gates?|suites?)\b", re.I)


def found(eyes: Eyes, paths: dict[str, str]) -> dict[str, dict[str, str]]:
    """What axe finds wrong with each page, and words that the pages have others for."""
    page, wrong = eyes.page("uma"), {}
    for name, path in paths.items():
        page.goto(eyes.url + path)
        here = violations(page)
        if words := OLD_WORDS.findall(page.inner_text("body")):
            here["words"] = ", ".join(words)
        if here:
            wrong[name] = here
    return wrong


def half_moved(eyes: Eyes, broken: str) -> dict[str, str]:
    """Name of each page of a half-moved table -> its address; a file of its run is torn."""
    eyes.site.registry.run(broken).write("rolled_back.json", b"{")
    last = f"{HOME}/runs/{run_name(2)}"
    return {
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
        "validation": f"{HOME}/data_docs/{data_docs.pages(eyes.site.registry.store)[0].name}",
        "not found": f"{HOME}/channels/99",
    }


@pytest.mark.slow
def test_pages_of_a_half_moved_table(eyes: Eyes, broken: str) -> None:
    assert found(eyes, half_moved(eyes, broken)) == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_read_in_the_colours_of_airflows_own_frame(
    eyes: Eyes, broken: str, theme: str
) -> None:
    page, wrong = eyes.page("uma"), {}
    page.goto(f"{eyes.url}/plugin/evenkeel")
    page.evaluate(f"localStorage.setItem('theme', '{theme}')")
    page.reload()
    frame = page.locator('iframe[src*="/evenkeel/"]')
    frame.content_frame.get_by_role("heading", level=1).wait_for()
    inside = frame.element_handle().content_frame()
    assert inside is not None
    inside.wait_for_load_state()
    # Airflow declares its colours in a space of its own, so ours are none of these.
    colour = "getComputedStyle(document.documentElement).getPropertyValue('{}').trim()"
    theirs = page.evaluate(colour.format("--chakra-colors-fg"))
    assert theirs.startswith("oklch(")
    for name, path in half_moved(eyes, broken).items():
        inside.goto(eyes.url + path)
        assert inside.evaluate("document.documentElement.dataset.theme") == theme
        assert inside.evaluate(colour.format("--ink")) == theirs, name
        if here := framed_violations(inside):
            wrong[name] = here
    assert wrong == {}


def test_pages_that_warn_or_have_nothing_to_show(eyes: Eyes) -> None:
    pages = {
        "key with spaces": f"{HOME}?key=%20word%201%20",
        "unknown key": f"{HOME}?key=none",
        "aim out of reach": f"{HOME}/rebalance?max_imbalance=1.05&channels=16&force=true",
        "wrong fields": f"{HOME}/rebalance?max_imbalance=0.5&budget=ten&force=maybe",
        "dry run": f"{HOME}/rebalance?dry_run=true",
        "no table": "/evenkeel/?q=none",
        "one epoch": f"{HOME}/compare?old=0&new=0",
        "older epochs": f"{HOME}?before=1",
        "no epoch": f"{HOME}/rollback?epoch=99",
    }
    eyes.site.shop.respec(schedule="@daily")
    try:
        assert found(eyes, pages | {"schedule undoes": f"{HOME}/rollback?epoch=0"}) == {}
    finally:
        eyes.site.shop.respec()


def test_a_page_that_asks_and_a_board_that_is_old(eyes: Eyes, asking: str) -> None:
    assert found(eyes, {"asking": f"{HOME}/runs/{asking}", "overview": "/evenkeel/"}) == {}
    page = eyes.open("uma", "/evenkeel/")
    page.evaluate("document.querySelector('#not-refreshed').hidden = false")
    page.evaluate("document.querySelector('[data-why=login]').hidden = false")
    assert violations(page) == {}
    end_runs()
