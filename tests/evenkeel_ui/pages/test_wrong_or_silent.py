"""Prices and warnings in a browser: what pages once said wrongly, or did not say at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from evenkeel.pipeline import steps
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.browser import Eyes
from tests.support.pages.whole_runs import whole_run
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    dag_runs,
    end_runs,
    made_site,
    paused,
    run_name,
)
from tests.support.raw_json import read_json, write_json

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.airflow
HOME = "/evenkeel/tables/words"


def price(page: Page, what: str) -> tuple[str, str]:
    """Predicted and measured, of one row of the table of prices."""
    row = page.locator("table.price tbody tr").filter(has=page.get_by_text(re.compile(f"^{what}")))
    predicted, measured = row.first.locator("td").all_inner_texts()
    return predicted, measured


def seconds(text: str) -> float:
    """Seconds of a time as pages write it, such as "5 min 30 s"."""
    units = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"([\d.,]+)\s*(ms|s|min|h|d)\b", text)
    assert parts, text
    return sum(float(n.replace(",", "")) * units[unit] for n, unit in parts)


def preview(eyes: Eyes, **fields: str) -> Page:
    """Fill in the form as a person does, and press Preview."""
    page = eyes.open("uma", f"{HOME}/rebalance")
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)
    page.get_by_label("Force").check()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="What it would do").wait_for()
    return page


def test_a_rate_is_in_the_predicted_time(eyes: Eyes) -> None:
    quick = preview(eyes, Max_imbalance="1.0001")
    slow = preview(eyes, Max_imbalance="1.0001", Bytes_a_second="100")
    # The rate holds for what is written, with the files' footers, and the field says so.
    assert "Files are written no faster." in quick.locator("#rate-hint").inner_text()
    written = re.match(r"([\d.]+)\skB", price(slow, "bytes of files")[0])
    assert written
    least = float(written[1]) * 1000 / 100
    assert seconds(price(slow, "time")[0]) == pytest.approx(least, rel=0.05)
    assert seconds(price(quick, "time")[0]) < least / 10
    slow.get_by_text("what the limits on bytes and rows a second allow").wait_for()


def test_a_run_shows_what_was_predicted_and_measured(eyes: Eyes) -> None:
    site = eyes.site
    name = whole_run(site.shop, 20, 20)
    page = eyes.open("vic", f"{HOME}/runs/{name}")
    prediction = site.registry.run(name).prediction(steps.read_plan(site.registry.run(name)).digest)
    kept = prediction.find()
    cost = read_json(site.registry.run(name), "migration.json")["tables"]["counts"]
    assert kept is not None and kept.seconds is not None
    predicted, measured = price(page, "time")
    assert seconds(predicted) == pytest.approx(kept.seconds, rel=0.1, abs=0.1)
    assert seconds(measured) == pytest.approx(cost["elapsed"], rel=0.1, abs=0.1)
    # Bytes of files are not bytes of state, and each has its own row.
    assert price(page, "bytes of files")[1] != price(page, "bytes of state")[1]
    assert int(price(page, "commits")[1]) == len(cost["commits"])


def test_a_break_even_beyond_the_horizon_says_so(eyes: Eyes) -> None:
    store = eyes.site.registry.store
    window = {"channels": [{"channel": 0, "rows": 10**6, "seconds": 1e-3}]}
    write_json(eyes.site.registry.files, "windows/2013-03-01.json", window)
    try:
        page = preview(eyes, Max_imbalance="1.0001", Bytes_a_second="10")
        said = page.get_by_text(re.compile("the horizon is 28: it does not pay")).first
        said.wait_for()
        colour = "(each) => getComputedStyle(each).color"
        plain = page.locator("#preview").evaluate(colour)
        assert said.evaluate(colour) != plain
    finally:
        store.remove("windows/2013-03-01.json")


def test_an_aim_out_of_reach_names_the_way_out(eyes: Eyes) -> None:
    page = preview(eyes, Max_imbalance="1.05", Channels="16")
    told = page.locator("p.out-of-reach").inner_text()
    assert "The aim of 1.05 is out of reach" in told and "Set split in the spec" in told
    assert preview(eyes, Max_imbalance="50").locator("p.out-of-reach").count() == 0


def test_a_channel_below_the_aim_is_not_called_over_it(eyes: Eyes) -> None:
    page = preview(eyes, Max_imbalance="1.05")
    text = page.locator("#preview").inner_text()
    assert "over the aim" not in text and "out of reach" not in text
    # A channel that is even enough for a move to stay is not over the aim.
    page.goto(f"{eyes.url}{HOME}/runs/{run_name(2)}")
    rejected = page.get_by_role("region", name="Rejected moves")
    reasons = rejected.get_by_role("row").all_inner_texts()[1:]
    assert reasons
    for reason in reasons:
        even = re.search(
            r"even enough without it: ([\d.]+)x fair share, the aim is ([\d.]+)", reason
        )
        assert even is None or float(even[1]) <= float(even[2])


def test_a_floor_says_whether_keys_may_be_split_for_it(eyes: Eyes) -> None:
    floor = "dl.facts > div:has(dt:text-is('floor'))"
    page = eyes.open("vic")
    assert "without splitting keys" in page.locator(floor).inner_text()
    eyes.site.shop.respec(split={"by": "id"})
    try:
        page.reload()
        assert page.locator(floor).inner_text().endswith("the least possible")
    finally:
        eyes.site.shop.respec()


@pytest.fixture
def torn(site: Site) -> Iterator[str]:
    """Name of the file of the current epoch, which is damaged."""
    file = f"epochs/{site.registry.current().number:08d}/epoch.json"
    kept = site.registry.store.read(file)
    site.registry.store.write(file, b'{"format": 1')
    yield file
    site.registry.store.write(file, kept)


def test_a_torn_epoch_takes_no_search_and_no_channels_away(eyes: Eyes, torn: str) -> None:
    page = eyes.open("vic")
    assert page.get_by_role("heading", level=1).inner_text() == "words"
    missing = page.get_by_label("What is missing").inner_text()
    assert torn in missing and "this page shows epoch" in missing
    assert "Too late" not in page.inner_text("body")
    page.get_by_label("word", exact=True).fill("word 1")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("lives on channel").wait_for()
    page.get_by_role("region", name="Channels").get_by_role("link", name="1", exact=True).click()
    page.wait_for_url("**/channels/1")
    page.goto(f"{eyes.url}{HOME}/rollback?epoch=0")
    assert "is torn" in page.get_by_label("What is missing").inner_text()


def test_a_key_with_spaces_is_told_from_the_key_without(eyes: Eyes) -> None:
    page = eyes.open("vic")
    page.get_by_label("word", exact=True).fill(" word 1 ")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("This key has spaces around it").wait_for()
    shown = page.locator("strong.key").first
    assert shown.evaluate("(each) => each.textContent") == "“ word 1 ”"
    page.get_by_role("link", name="“word 1”").click()
    page.get_by_text("lives on channel").wait_for()
    assert page.get_by_text("This key has spaces around it").count() == 0


def test_a_key_that_nobody_saw_lives_nowhere(eyes: Eyes) -> None:
    page = eyes.open("vic")
    page.get_by_label("word", exact=True).fill("no such word")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("was not seen among the heavy keys").wait_for()
    assert "lives on channel" not in page.inner_text("main")


def test_a_way_back_that_the_schedule_undoes_offers_to_pause_it(eyes: Eyes) -> None:
    dag = "rebalance_words"
    end_runs()
    eyes.site.shop.respec(schedule="@daily")
    before = paused(dag)
    paused(dag, False)
    try:
        page = eyes.open("uma")
        page.get_by_role("link", name="Back to epoch 0", exact=True).click()
        warning = page.get_by_label("What would undo it").inner_text()
        assert "Epoch 0 is over the trigger" in warning and "would undo this" in warning
        page.get_by_label("Pause rebalance_words").check()
        page.get_by_label("I have read what moves").check()
        page.get_by_role("button", name="Roll back to epoch 0").click()
        page.wait_for_url("**/runs/**")
        assert paused(dag) and dag_runs("roll_back_words")[-1].conf == {
            "epoch": 0,
            "dry_run": False,
        }
    finally:
        end_runs()
        paused(dag, before)
        eyes.site.shop.respec()


def test_reports_and_data_docs_lead_back(eyes: Eyes) -> None:
    run = run_name(2)
    for path in (f"{HOME}/runs/{run}/report", f"{HOME}/data_docs/index.html"):
        page = eyes.open("vic", path)
        page.get_by_role("navigation", name="Evenkeel").get_by_role("link", name="words").click()
        page.wait_for_url(f"**{HOME}")
        page.get_by_text("Where does a key live?").wait_for()
