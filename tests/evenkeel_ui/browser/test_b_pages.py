"""Every page, of an epoch after the first: for everybody, on any screen, asking no other host."""

from __future__ import annotations

import re
import time
from urllib.parse import quote, urlsplit

import pytest

from evenkeel.demo.airflow.client import PAUSE
from evenkeel.pipeline.approval import SETTLED
from evenkeel.quality import data_docs
from tests.evenkeel_ui.browser.conftest import (
    RUN,
    TABLE,
    TEST,
    People,
    Site,
    picture,
    run_of,
)
from tests.support.axe import violations

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(TEST)]


@pytest.fixture(scope="module", autouse=True)
def rebalanced(site: Site) -> None:
    """A run to look at: the story's; where these tests run alone, one of their own."""
    if site.registry.numbers()[-1] == 0:
        api, dag = site.api("op"), "rebalance_flights"
        run = api.trigger(dag, force=True)
        until = time.monotonic() + RUN
        while api.tasks(dag, run).get("approve") != "awaiting_input" and time.monotonic() < until:
            time.sleep(PAUSE)
        time.sleep(SETTLED.total_seconds())
        path = f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances/approve/-1/hitlDetails"
        api.call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {}})
        assert api.wait(dag, run, RUN) == "success"


def pages(site: Site) -> dict[str, str]:
    """Name of each page -> its address."""
    table = TABLE
    runs = site.registry.store.names("runs")
    moved = [r for r in runs if site.registry.run(r).exists("migration.json")]
    run = f"{table}/runs/{moved[0]}"
    validations = data_docs.pages(site.registry.store)
    return {
        "overview": "/evenkeel/",
        "table": table,
        "key": f"{table}?key=ORD",
        "channel": f"{table}/channels/0",
        "rebalance": f"{table}/rebalance?max_imbalance=1.05&budget=10+MB&force=true",
        "rebalance-wrong": f"{table}/rebalance?max_imbalance=0.5",
        "rollback": f"{table}/rollback?epoch={site.registry.numbers()[0]}",
        "plan": run,
        "report": f"{run}/report",
        "compare": f"{table}/compare?old=0&new=1",
        "quality": f"{table}/quality",
        "data-docs": f"{table}/data_docs/index.html",
        **{f"checks-{v.suite}": f"{table}/data_docs/{v.name}" for v in validations},
        "not-found": "/evenkeel/tables/nothing",
    }


def test_axe_finds_nothing_in_light_and_dark(people: People) -> None:
    page, found = people.page("op"), {}
    for name, address in pages(people.site).items():
        page.goto(people.site.url + address)
        found[name] = violations(page)
    # Who has not logged in gets a page that brings its own styles.
    stranger = people.page(None)
    stranger.goto(f"{people.site.url}{TABLE}")
    assert stranger.get_by_role("heading", level=1).inner_text() == "Not logged in"
    found["not-logged-in"] = violations(stranger)
    assert {name: what for name, what in found.items() if what} == {}


def test_it_is_read_at_400_pixels_without_javascript(people: People) -> None:
    narrow = {"width": 400, "height": 800}
    page = people.page("op", viewport=narrow, java_script_enabled=False)
    wide, silent = {}, []
    for name, address in pages(people.site).items():
        page.goto(people.site.url + address)
        # Scripts of a page are off; those of the test are not.
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > narrow["width"]:
            wide[name] = width
        if not page.get_by_role("heading", level=1).first.inner_text().strip():
            silent.append(name)
    assert (wide, silent) == ({}, [])


def test_times_are_in_the_zone_of_the_reader(people: People) -> None:
    shown = {}
    for zone in ("Asia/Tokyo", "America/New_York"):
        page = people.page("op", timezone_id=zone)
        page.goto(f"{people.site.url}/evenkeel/tables/flights")
        shown[zone] = page.locator("time").first.inner_text()
        assert page.locator("time").first.get_attribute("title").endswith("UTC")
    assert len(set(shown.values())) == 2


def test_tables_sort(people: People) -> None:
    page = people.page("op")
    page.goto(f"{people.site.url}/evenkeel/tables/flights")
    keys = page.get_by_role("region", name="Heavy keys")
    by_name = keys.locator("thead").get_by_role("link", name="Key")
    by_name.click()
    page.wait_for_url(re.compile("keys=name"))
    names = keys.get_by_role("rowheader").all_inner_texts()
    assert len(names) == 10 and names == sorted(names)
    by_name.click()
    page.wait_for_url(re.compile("keys=-name"))
    assert keys.get_by_role("rowheader").first.inner_text() > names[0]


def test_it_is_seen_within_airflow(people: People) -> None:
    page, site = people.page("op"), people.site
    page.goto(f"{site.url}/")
    # The home page may list the asset evenkeel://flights as well.
    page.get_by_test_id("nav-sidebar").get_by_role("link", name="Evenkeel", exact=True).click()
    shown = page.frame_locator('iframe[src*="/evenkeel/"]')
    table = shown.get_by_role("link", name="flights", exact=True)
    table.wait_for()
    picture(page, "overview")
    table.click()
    shown.get_by_text("is the fullest").wait_for()
    page.goto(f"{site.url}/dags/rebalance_flights/runs/{run_of(site)}/plugin/evenkeel-run")
    shown.get_by_text("flights went from epoch 0").first.wait_for()
    # Airflow's own form asks for the same.
    page.goto(f"{site.url}/dags/rebalance_flights")
    page.get_by_test_id("trigger-dag-button").click()
    for field in ("Strategy", "Max imbalance", "Budget in bytes", "Window end", "Dry run", "Force"):
        page.get_by_role("dialog").filter(has_text=field).wait_for()
    # On a slow machine the rollback may have published by now: its epoch has one reason for all.
    places = {"table": "", "compare": "/compare?old=0&new=1", "quality": "/quality"}
    for name, place in places.items():
        page.goto(f"{site.url}{TABLE}{place}")
        picture(page, name)


def test_no_page_asks_another_host(people: People) -> None:
    page = people.page("op")
    for address in pages(people.site).values():
        if people.site.url + address not in people.asked:
            page.goto(people.site.url + address)
    # Of all that every test here has opened; Airflow's own pages included.
    hosts = {urlsplit(a).hostname for a in people.asked if a.startswith("http")}
    assert hosts == {"127.0.0.1"}
