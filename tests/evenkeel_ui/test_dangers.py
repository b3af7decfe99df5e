"""The dangers of three in the morning, in a real Chromium on the plugin in Airflow's real API."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from evenkeel.pipeline import approval, steps
from evenkeel.quality import data_docs
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.axe import violations
from tests.support.pages.browser import HOME, Eyes
from tests.support.pages.empty_tables import another_epoch
from tests.support.pages.failed_runs import ERROR, SO_FAR
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    dag_runs,
    end_runs,
    made_site,
    run_name,
    scheduler,
)
from tests.support.worlds.shop import Shop

if TYPE_CHECKING:
    from playwright.sync_api import Page


pytestmark = pytest.mark.airflow
#: A folder for pictures of the pages, light and dark.
SHOTS = os.environ.get("EVENKEEL_SHOTS")


def shot(page: Page, name: str) -> None:
    """Picture the page in light and in dark, where EVENKEEL_SHOTS asks for it."""
    for scheme in ("light", "dark") if SHOTS else ():
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.screenshot(path=Path(SHOTS or "") / f"{name}-{scheme}.png", full_page=True)


@pytest.mark.parametrize("scripts", [True, False], ids=["script", "no-script"])
def test_a_form_that_was_changed_after_its_preview_starts_nothing(
    eyes: Eyes, scripts: bool
) -> None:
    end_runs()
    page = eyes.open("uma", f"{HOME}/rebalance?max_imbalance=1.05", java_script_enabled=scripts)
    before = len(dag_runs("rebalance_words"))
    start = page.get_by_role("button", name="Start this rebalance")
    assert start.is_enabled()
    page.get_by_label("Dry run").check()
    page.get_by_label("Max imbalance").fill("1.5")
    if scripts:
        assert start.is_disabled()
        page.get_by_text("You changed the form").wait_for()
        shot(page, "stale")
        page.get_by_label("Dry run").uncheck()
        page.get_by_label("Max imbalance").fill("1.05")
        assert start.is_enabled()
    else:
        start.click()
        page.get_by_text("not the ones that were previewed").wait_for()
        assert page.get_by_label("Dry run").is_checked()
        assert page.get_by_role("button", name="Start the dry run").is_enabled()
    assert len(dag_runs("rebalance_words")) == before
    page.get_by_role("button", name="Start", exact=False).click()
    page.get_by_text("queued").first.wait_for()
    conf = dag_runs("rebalance_words")[-1].conf
    assert conf == ({"max_imbalance": 1.05} if scripts else {"max_imbalance": 1.5, "dry_run": True})


def test_a_half_moved_table_is_seen_gone_on_with_and_undone(eyes: Eyes, broken: str) -> None:
    page = eyes.open("uma", "/evenkeel/")
    for name, path in (
        ("overview", "/evenkeel/"),
        ("table", HOME),
        ("run", f"{HOME}/runs/{broken}"),
    ):
        page.goto(eyes.url + path)
        alarm = page.get_by_role("alert", name="Half moved")
        assert SO_FAR in alarm.inner_text()
        assert alarm.get_by_role("button", name="Go on").is_enabled()
        shot(page, f"half-moved-{name}")
    # From the overview: what failed and where is one click away, its log another.
    page.goto(f"{eyes.url}/evenkeel/")
    page.get_by_role("region", name="Failed, waiting, under way").get_by_text(broken).click()
    page.get_by_text(ERROR).first.wait_for()
    assert page.get_by_role("link", name="Log of migrate").get_attribute("href")
    page.goto(f"{eyes.url}{HOME}/rebalance")
    assert page.get_by_role("button", name="Start this rebalance").is_disabled()
    page.get_by_text("No run can start now").wait_for()
    shot(page, "no-start")
    page.goto(f"{eyes.url}{HOME}")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Stop this run").click()
    page.get_by_role("alert", name="Half moved").get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Stop this run").wait_for()


def known(stale: bool) -> None:
    """Let Airflow know the DAG of the rebalance, or have lost it."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        dag = session.get(DagModel, "rebalance_words")
        assert dag is not None
        dag.is_stale = stale


@pytest.mark.parametrize(
    ("why", "begin", "end"),
    [
        ("scheduler does not run", lambda: scheduler(alive=False), lambda: scheduler(alive=True)),
        ("does not know the DAG", lambda: known(stale=True), lambda: known(stale=False)),
    ],
)
def test_start_is_disabled_and_says_why(
    eyes: Eyes, why: str, begin: Callable[[], None], end: Callable[[], None]
) -> None:
    end_runs()
    begin()
    try:
        page = eyes.open("uma", f"{HOME}/rebalance?force=true")
        assert page.get_by_role("button", name="Start this rebalance").is_disabled()
        assert why in page.get_by_role("region", name="Why no run can start now").inner_text()
    finally:
        end()
    page.reload()
    # It works again, and while that run is under way no other can be started.
    page.get_by_role("button", name="Start this rebalance").click()
    page.get_by_role("button", name="Stop this run").wait_for()
    page.goto(f"{eyes.url}{HOME}/rebalance?force=true")
    assert page.get_by_role("button", name="Start this rebalance").is_disabled()
    page.get_by_text("is under way. Wait for its end, or stop it.").wait_for()
    end_runs()


@pytest.mark.parametrize(
    ("path", "real", "dag"),
    [
        ("rebalance?force=true", "Start this rebalance", "rebalance_words"),
        ("rollback?epoch=0", "Roll back to epoch 0", "roll_back_words"),
    ],
)
def test_without_a_profile_only_a_dry_run_can_start(
    eyes: Eyes, shop: Shop, path: str, real: str, dag: str
) -> None:
    end_runs()
    another_epoch(shop)
    page = eyes.open("uma", f"{HOME}/{path}")
    button = page.get_by_role("button", name=real)
    assert button.is_disabled()
    # Who cannot see the page hears the reason with the button.
    why = page.locator(f"#{button.get_attribute('aria-describedby')}").inner_text()
    assert "No preview is possible" in why and "no profile is learned yet" in why
    if dag == "rebalance_words":
        page.get_by_label("Dry run").check()
        page.get_by_role("button", name="Preview").click()
    assert violations(page) == {}
    shot(page, f"no-preview-{dag}")
    page.get_by_role("button", name="Start the dry run").click()
    page.get_by_text("queued").first.wait_for()
    assert dag_runs(dag)[-1].conf["dry_run"] is True
    end_runs()


def test_a_link_to_airflow_leaves_the_frame_that_airflow_puts_the_pages_in(
    eyes: Eyes,
    broken: str,
) -> None:
    page = eyes.open("uma", "/evenkeel/")
    # As Airflow's UI frames them: its sandbox lets no link of the frame itself out.
    frame = f'''<iframe style="width: 100%; height: 800px" src="{HOME}"
        sandbox="allow-scripts allow-same-origin allow-forms"></iframe>'''
    page.route("**/framed", lambda route: route.fulfill(body=frame, content_type="text/html"))
    page.goto(f"{eyes.url}/framed")
    link = page.frame_locator("iframe").get_by_role("link", name="log of migrate").first
    link.click()
    page.wait_for_url("**/dags/rebalance_words/runs/**/tasks/migrate")


def test_pages_follow_airflows_own_switch_and_zone(eyes: Eyes) -> None:
    page = eyes.open("uma", "/evenkeel/")
    page.emulate_media(color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.evaluate("localStorage.setItem('theme', 'dark')")
    # Neither the server's zone nor this machine's.
    page.evaluate("localStorage.setItem('timezone', 'Asia/Tokyo')")
    page.reload()
    dark = page.evaluate(paper)
    assert dark != light
    times = page.locator("time:not([data-ago])")
    said, moment = times.first.inner_text(), times.first.get_attribute("datetime")
    assert moment is not None and "GMT+9" in said
    there = datetime.fromisoformat(moment).astimezone(ZoneInfo("Asia/Tokyo"))
    assert f"{there:%I:%M %p}" in said.replace("\u202f", " ")
    # In Airflow's frame its page decides, at once.
    frame = f'<html class="light"><iframe src="{HOME}" style="height: 800px"></iframe></html>'
    page.route("**/themed", lambda route: route.fulfill(body=frame, content_type="text/html"))
    page.goto(f"{eyes.url}/themed")
    inside = page.frame_locator("iframe").locator("body")
    inside.get_by_role("heading", level=1).wait_for()
    assert inside.evaluate("(b) => getComputedStyle(b).backgroundColor") == light
    page.evaluate("document.documentElement.className = 'dark'")
    page.wait_for_timeout(200)
    assert inside.evaluate("(b) => getComputedStyle(b).backgroundColor") == dark


def test_what_a_run_wrote_has_the_zone_too(eyes: Eyes) -> None:
    spec, run = eyes.site.shop.spec, run_name(2)
    when = "2013-02-02T23:30:00+00:00"
    approval.record(spec, run, True, "olga", when)
    steps.report(spec, run)
    validation = data_docs.pages(eyes.site.registry.store)[0]
    page = eyes.open("uma", "/evenkeel/")
    page.evaluate("localStorage.setItem('timezone', 'Asia/Tokyo')")
    for path, moment in (
        (f"runs/{run}/report", datetime.fromisoformat(when)),
        ("data_docs/index.html", validation.when),
        (f"data_docs/{validation.name}", validation.when),
    ):
        page.goto(f"{eyes.url}{HOME}/{path}")
        time = page.locator("main time").first
        there = moment.astimezone(ZoneInfo("Asia/Tokyo"))
        said = time.inner_text().replace("\u202f", " ")
        assert f"{there:%b} {there.day}, {there:%Y, %I:%M %p} GMT+9" == said, path
        # The file itself names UTC, for who reads it elsewhere.
        assert time.get_attribute("title") == f"{moment:%Y-%m-%d %H:%M} UTC", path
        assert not re.search(r"\d\d:\d\d(?!:\d\d)? UTC", page.inner_text("main")), path
    # A time that says how long ago has the moment as its title.
    page.goto(f"{eyes.url}/evenkeel/")
    assert "GMT+9" in (page.locator("time[data-ago]").first.get_attribute("title") or "")


def test_long_names_wrap_on_a_phone(eyes: Eyes, broken: str) -> None:
    for path in (HOME, f"{HOME}/runs/{broken}"):
        page = eyes.open("uma", path)
        page.set_viewport_size({"width": 360, "height": 800})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360, (path, wide)
