"""Pages within Airflow look like it: its font and colours, also in reports; tabs and badges."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.browser import Eyes
from tests.support.pages.failed_runs import HOME
from tests.support.plugin_site import Site, made_site, run_name  # noqa: F401  a fixture

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Page

pytestmark = pytest.mark.airflow
#: As Airflow's page declares its theme; an administrator has chosen the colours.
AIRFLOW = """<html class="light"><style>
:root { --chakra-fonts-body: Courier; --chakra-colors-bg: rgb(250, 251, 252); --deep: rgb(1, 2, 3);
  --chakra-colors-brand-fg: rgb(9, 9, 90); }
.dark { --chakra-colors-bg: var(--deep); }
</style><iframe src="PATH" style="width: 900px; height: 800px"></iframe></html>"""


def framed(page: Page, url: str, path: str) -> FrameLocator:
    page.route(
        "**/framed",
        lambda route: route.fulfill(body=AIRFLOW.replace("PATH", path), content_type="text/html"),
    )
    page.goto(f"{url}/framed")
    inside = page.frame_locator("iframe")
    inside.get_by_role("heading", level=1).wait_for()
    return inside


def style(inside: FrameLocator, what: str, selector: str = "body") -> str:
    script = f"(each) => getComputedStyle(each).{what}"
    return str(inside.locator(selector).first.evaluate(script))


@pytest.mark.parametrize("path", ["", f"/runs/{run_name(2)}/report", "/data_docs/index.html"])
def test_every_page_takes_airflows_font_and_colours(eyes: Eyes, path: str) -> None:
    page = eyes.page("uma")
    inside = framed(page, eyes.url, HOME + path)
    assert style(inside, "fontFamily") == "Courier"
    assert style(inside, "backgroundColor") == "rgb(250, 251, 252)"
    assert style(inside, "color", "nav.note a, nav a[aria-current]") == "rgb(9, 9, 90)"
    page.evaluate("document.documentElement.className = 'dark'")
    page.wait_for_timeout(300)
    assert style(inside, "backgroundColor") == "rgb(1, 2, 3)"
    assert inside.locator("html").get_attribute("data-theme") == "dark"


def test_outside_of_airflow_the_font_is_its_own(eyes: Eyes) -> None:
    page = eyes.open("uma")
    font = page.locator("h1").evaluate("(each) => getComputedStyle(each).fontFamily")
    assert font.startswith("Inter, ") and font.endswith("sans-serif")


def test_a_tab_is_current_and_states_are_badges(eyes: Eyes, broken: str) -> None:
    page = eyes.open("uma", "/evenkeel/")
    tabs = page.get_by_role("navigation", name="Evenkeel").get_by_role("link")
    for path, name, kind in (
        ("/evenkeel/", "All tables", "page"),
        (HOME, "words", "page"),
        (f"{HOME}/rebalance", "Rebalance", "page"),
        (f"{HOME}/quality", "Data quality", "page"),
        (f"{HOME}/channels/1", "words", "true"),
        (f"{HOME}/runs/{broken}", "words", "true"),
    ):
        page.goto(eyes.url + path)
        current = [(t.inner_text(), t.get_attribute("aria-current")) for t in tabs.all()]
        assert [c for c in current if c[1]] == [(name, kind)], path
    page.goto(f"{eyes.url}/evenkeel/")
    badge = page.get_by_role("region", name="Tables").locator(".badge.bad").first
    assert badge.inner_text() == "half-moved"
    assert badge.evaluate("(each) => getComputedStyle(each).borderRadius") == "99px"


def test_every_square_of_a_legend_has_its_words(site: Site) -> None:
    run, client = run_name(2), site.client("vic")
    for path in ("", "/channels/1", "/rebalance", f"/runs/{run}", f"/runs/{run}/report"):
        text = client.get(HOME + path).text.split("</style>")[-1]
        said = re.findall(r'<span class="swatch \w+"></span>\s*([^<]*)', text)
        assert said and all(re.search(r"[a-z]{3}", words) for words in said), (path, said)


def test_every_column_of_the_overview_fits_a_laptop(eyes: Eyes) -> None:
    page = eyes.page("vic")
    # A laptop's 1,280 pixels without Airflow's navigation.
    page.set_viewport_size({"width": 1216, "height": 800})
    page.goto(f"{eyes.url}/evenkeel/")
    board = page.get_by_role("region", name="Tables")
    assert board.locator("thead th").last.inner_text() == "Checks"
    cut = board.evaluate("(each) => each.scrollWidth - each.clientWidth")
    assert cut <= 0, f"{cut} pixels of the table are cut"
