"""The people on call, in a browser on a real Airflow: see it, try it, refuse it, run it, undo it.

The tests tell one story in order: each run of a DAG costs a minute of Spark. While the way back is
run, `test_b_pages` looks at every page; `test_c_way_back` sees its end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from evenkeel.demo.airflow.client import ApiError
from tests.evenkeel_ui.browser.conftest import (
    RUN,
    TABLE,
    TEST,
    People,
    Site,
    has,
    picture,
    run_of,
)
from tests.support.axe import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(TEST)]


def test_a_viewer_sees_and_cannot_trigger(people: People) -> None:
    page, site = people.page("viewer"), people.site
    page.goto(f"{site.url}/evenkeel/")
    page.get_by_role("link", name="flights", exact=True).click()
    assert page.get_by_role("heading", level=1).inner_text() == "flights"
    page.get_by_role("link", name="Rebalance", exact=True).click()
    has(page, "You may not start runs of flights.")
    assert page.get_by_role("button", name="Start").count() == 0
    # Nor where Airflow's own form is used.
    with pytest.raises(ApiError) as refused:
        site.api("viewer").trigger("rebalance_flights", dry_run=True)
    assert refused.value.status == 403
    # Airflow's REST API takes the same Params, and refuses the same values.
    with pytest.raises(ApiError) as wrong:
        site.api("op").trigger("rebalance_flights", max_imbalance=0.5)
    assert wrong.value.status == 400 and "max_imbalance" in str(wrong.value)


def test_a_dry_run_changes_nothing(people: People) -> None:
    page, site = people.page("op"), people.site
    before = site.files()
    page.goto(f"{site.url}{TABLE}/rebalance")
    # Nothing was learned yet: the page says so, and a run can be started all the same.
    has(page, "Missing here")
    page.get_by_label("Dry run").check()
    page.get_by_label("Force").check()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Start the dry run").click()
    people.watch(page, "success")
    has(page, "a dry run from epoch 0 to epoch 1")
    assert site.files() == before
    states = site.api("op").tasks("rebalance_flights", run_of(site))
    assert states["approve"] == states["migrate"] == states["publish"] == "skipped"


def test_the_fullest_channel_is_found(people: People) -> None:
    page = people.page("viewer")
    with people.site.walked("fullest channel"):
        _find_the_fullest(page, people.site)


def _find_the_fullest(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/evenkeel/")
    row = page.get_by_role("row").filter(has_text="flights").inner_text()
    page.get_by_role("link", name="flights", exact=True).click()
    page.wait_for_url(f"**{TABLE}")
    told = re.search(r"Channel (\d+) is the fullest: ([\d.]+)x fair share", page.inner_text("main"))
    assert told and f"{told[1]}, {told[2]}x fair share" in row
    assert float(told[2]) > 1.5
    page.get_by_label("dest").fill("ORD")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url(re.compile("key=ORD"))
    assert re.search(r"ORD lives on channel \d", page.inner_text("main"))


def test_a_value_out_of_range_comes_back_beside_its_field(people: People) -> None:
    page = people.page("op")
    page.goto(f"{people.site.url}{TABLE}/rebalance")
    page.get_by_label("Max imbalance").fill("0.5")
    page.get_by_label("Byte budget").fill("ten")
    page.get_by_role("button", name="Preview").click()
    wrong = page.get_by_label("Max imbalance")
    assert wrong.input_value() == "0.5" and wrong.get_attribute("aria-invalid") == "true"
    assert "1" in page.locator("#max_imbalance-hint").inner_text()
    assert page.get_by_label("Byte budget").get_attribute("aria-invalid") == "true"
    assert page.get_by_role("button", name="Start").count() == 0
    assert violations(page) == {}


def test_refusing_leaves_the_epoch_alone(people: People) -> None:
    page, site = people.page("op"), people.site
    before = site.files()
    with site.walked("preview and run"):
        _ask_for(page, site, "1.05", "10 MB")
    assert violations(page) == {}
    # Who may only look reads the plan, and does not answer it.
    looking = people.page("viewer")
    looking.goto(page.url)
    has(looking, "You may not answer plans of flights.")
    assert looking.get_by_role("button", name="Approve").count() == 0
    page.get_by_role("button", name="Refuse").click()
    people.watch(page, "success")
    # Whoever has looked at it meanwhile sees that it goes on, too.
    people.watch(looking, "success")
    has(page, "Refused by op")
    assert site.files() == before
    assert site.registry.numbers() == [0]


def test_an_operator_is_asked_again_approves_and_reads_the_report(people: People) -> None:
    page, site = people.page("op"), people.site
    # Refused by mistake: cleared in Airflow, the run asks again, about the same plan.
    run = run_of(site)
    again = {"dag_run_id": run, "task_ids": ["approve"], "include_downstream": True}
    again |= {"dry_run": False, "only_failed": False}
    site.api("op").call("POST", "/api/v2/dags/rebalance_flights/clearTaskInstances", again)
    page.goto(f"{site.url}/evenkeel/dags/rebalance_flights/runs/{quote(run)}")
    _answered(page)
    assert "Refused" not in page.inner_text("main")
    picture(page, "approve")
    digest = page.locator("#ask ~ p code").inner_text()
    with site.walked("preview and run"):
        page.get_by_role("button", name="Approve").click()
        people.watch(page, "success")
        has(page, "flights went from epoch 0 to epoch 1")
    epoch = site.registry.current()
    assert (epoch.number, epoch.plan_digest) == (1, digest)
    with site.walked("report"):
        page.get_by_role("link", name="Report of this run").click()
        assert "epoch 0 to epoch 1" in page.get_by_role("heading", level=1).inner_text()
    picture(page, "report")
    page.goto(f"{site.url}/evenkeel/")
    shown = page.get_by_role("row").filter(has_text="flights").get_by_role("cell").all()
    assert [cell.inner_text() for cell in shown[:2]] == ["fine", "1"]
    assert float(shown[2].inner_text()) <= 1.05


def test_an_operator_has_it_rolled_back(people: People) -> None:
    page, site = people.page("op"), people.site
    page.goto(f"{site.url}{TABLE}")
    page.get_by_role("link", name="Back to epoch 0", exact=True).click()
    back = page.get_by_role("button", name="Roll back to epoch 0", exact=True)
    back.click()
    has(page, "Say that you have read what moves.")
    assert violations(page) == {}
    page.get_by_label("I have read what moves").check()
    back.click()
    digest = _answered(page).locator("#ask ~ p code").inner_text()
    # Answered where Airflow lists what waits for people: the same plan, the same record.
    other = people.page("op")
    other.goto(f"{site.url}/required_actions?response_received=false")
    other.get_by_role("link", name=re.compile("flights: move .* for epoch 2")).click()
    other.get_by_text(digest).first.wait_for()
    # What is open on a page that asks stays as it is until the run goes on; then it follows.
    page.locator("main").evaluate("main => main.dataset.untouched = 'yes'")
    page.wait_for_timeout(4000)
    assert page.locator("main").get_attribute("data-untouched") == "yes"
    with other.expect_response(lambda r: r.request.method == "PATCH" and "hitlDetails" in r.url):
        other.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("heading", name="of state?").wait_for(state="hidden")
    has(page, "Approved by op")


def _ask_for(page: Page, site: Site, imbalance: str, budget: str) -> None:
    """Preview a rebalance, start it, and wait until it asks."""
    page.goto(f"{site.url}{TABLE}/rebalance")
    page.get_by_label("Max imbalance").fill(imbalance)
    page.get_by_label("Byte budget").fill(budget)
    page.get_by_label("Force").check()
    page.get_by_role("button", name="Preview").click()
    has(page, "A person will be asked")
    after = page.locator("dl.facts > div").filter(has_text="imbalance after").locator("dd").first
    assert 1 <= float(after.inner_text()) <= float(imbalance)
    page.locator("#preview").scroll_into_view_if_needed()
    picture(page, "rebalance")
    page.get_by_role("button", name="Start this rebalance").click()
    _answered(page)


def _answered(page: Page) -> Page:
    """The run's page, once it asks."""
    page.get_by_role("heading", name="of state?").wait_for(timeout=RUN * 1000)
    return page
