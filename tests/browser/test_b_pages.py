"""Every page, of an epoch after the first: for everybody, on any screen, asking no other host."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from evenkeel.approval import SETTLED
from evenkeel.up_api import PAUSE

from .conftest import RUN, TEST, People, Site

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(TEST)]

#: What axe asks of a page in each: only colours differ.
SCHEMES: dict[Any, dict[str, Any]] = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},
}


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
    table = "/evenkeel/tables/flights"
    runs = site.registry.store.names("runs")
    moved = [r for r in runs if site.registry.run(r).exists("migration.json")]
    run = f"{table}/runs/{moved[0]}"
    docs = sorted(n for n in site.registry.store.names("data_docs") if n.endswith(".html"))
    return {
        "overview": "/evenkeel/",
        "table": table,
        "key": f"{table}?key=ORD",
        "rebalance": f"{table}/rebalance?max_imbalance=1.05&budget=10+MB&force=true",
        "rebalance-wrong": f"{table}/rebalance?max_imbalance=0.5",
        "rollback": f"{table}/rollback?epoch={site.registry.numbers()[0]}",
        "plan": run,
        "report": f"{run}/report",
        "compare": f"{table}/compare?old=0&new=1",
        "quality": f"{table}/quality",
        "data-docs": f"{table}/data_docs/{docs[-1]}",
        "not-found": "/evenkeel/tables/nothing",
    }


def test_axe_finds_nothing_serious_in_light_and_dark(people: People) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page, found = people.page("op"), {}
    for name, address in pages(people.site).items():
        page.goto(people.site.url + address)
        for scheme, rules in SCHEMES.items():
            page.emulate_media(color_scheme=scheme)
            for each in axe.run(page, options=rules).response["violations"]:
                if each["impact"] in ("serious", "critical"):
                    found[f"{name}, {scheme}: {each['id']}"] = each["nodes"][0]["html"][:200]
    assert found == {}


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
    names = keys.get_by_role("rowheader").all_inner_texts()
    assert len(names) == 10 and names == sorted(names)
    by_name.click()
    assert keys.get_by_role("rowheader").first.inner_text() > names[0]


def test_no_page_asks_another_host(people: People) -> None:
    page = people.page("op")
    for address in pages(people.site).values():
        if people.site.url + address not in people.asked:
            page.goto(people.site.url + address)
    # Of all that every test here has opened; Airflow's own pages included.
    hosts = {urlsplit(a).hostname for a in people.asked if a.startswith("http")}
    assert hosts == {"127.0.0.1"}
