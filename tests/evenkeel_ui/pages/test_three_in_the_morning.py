"""On call at three in the morning, on a busy machine: all that is needed in two clicks at most."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.browser import Eyes
from tests.support.pages.failed_runs import ERROR, SO_FAR, states, undo_failed
from tests.support.pages.questions import approve_of
from tests.support.plugin_site import (
    end_runs,
    forget_runs,
    made_site,  # noqa: F401  a fixture
    profile,
    run_name,
)

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.airflow
#: Clicks from the overview to anything that is needed.
MOST = 2


@pytest.fixture(scope="module", autouse=True)
def busy() -> Iterator[None]:
    """Two processes that leave no CPU idle."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


class Walk:
    """What somebody does from the overview on; each click is counted."""

    def __init__(self, eyes: Eyes, user: str = "uma") -> None:
        self.page: Page = eyes.open(user, "/evenkeel/")
        self.clicks = 0

    def click(self, what: Callable[[Page], Locator]) -> None:
        what(self.page).click()
        self.clicks += 1

    def row(self) -> str:
        """What the table's row says."""
        row = self.page.get_by_role("region", name="Tables").get_by_role("row")
        return row.filter(has_text="words").inner_text()


def test_what_is_red_since_when_and_half_moved_or_not(eyes: Eyes, broken: str) -> None:
    walk = Walk(eyes)
    row = walk.row()
    assert row.startswith("half-moved") and "since" in row and "just now" in row
    alarm = walk.page.get_by_role("alert", name="Half moved")
    assert SO_FAR in alarm.inner_text()
    # The error line is there, too.
    assert ERROR in walk.page.get_by_role("region", name="Failed, waiting, under way").inner_text()
    assert walk.clicks == 0


def test_the_log_is_one_click_away(eyes: Eyes, broken: str) -> None:
    walk = Walk(eyes)
    walk.click(lambda page: page.get_by_role("link", name="log of migrate"))
    walk.page.wait_for_url("**/dags/rebalance_words/runs/**/tasks/migrate")
    assert walk.clicks <= MOST


def test_an_undo_that_failed_is_red_and_its_log_is_one_click_away(eyes: Eyes, broken: str) -> None:
    told = undo_failed(eyes.site, broken)
    walk = Walk(eyes)
    pressing = walk.page.get_by_role("region", name="Failed, waiting, under way").inner_text()
    assert told in pressing and "rolling back failed" in pressing
    walk.click(lambda page: page.get_by_role("link", name="log of roll_back"))
    walk.page.wait_for_url("**/dags/rebalance_words/runs/**/tasks/roll_back")
    assert walk.clicks <= MOST


def test_undo_and_stop_are_two_clicks_away(eyes: Eyes, broken: str) -> None:
    walk = Walk(eyes)
    walk.click(lambda page: page.get_by_role("button", name="Undo"))
    walk.page.get_by_role("button", name="Stop this run").wait_for()
    assert walk.clicks <= MOST and states(broken)["roll_back"] is None
    walk = Walk(eyes)
    pressing = walk.page.get_by_role("region", name="Failed, waiting, under way")
    walk.click(lambda page: pressing.get_by_role("link", name=broken))
    walk.click(lambda page: page.get_by_role("button", name="Stop this run"))
    walk.page.get_by_text("failed", exact=True).first.wait_for()
    assert walk.clicks <= MOST and states(broken)[""] == "failed"


def test_what_waits_for_me_is_answered_in_two_clicks(eyes: Eyes, asking: str) -> None:
    walk = Walk(eyes)
    assert walk.row().startswith("waits for you")
    pressing = walk.page.get_by_role("region", name="Failed, waiting, under way")
    walk.click(lambda page: pressing.get_by_role("link", name=asking))
    walk.click(lambda page: page.get_by_role("button", name="Refuse"))
    walk.page.get_by_role("heading", name="of state?").wait_for(state="hidden")
    assert walk.clicks <= MOST
    # Airflow's own record has the answer.
    from airflow.utils.session import create_session

    with create_session() as session:
        assert approve_of(session).hitl_detail.chosen_options == ["Reject"]
    end_runs()


def test_a_table_over_its_trigger_says_since_when(eyes: Eyes) -> None:
    forget_runs()
    site = eyes.site
    # A load that the plan of before did not see.
    site.shop.learn(run_name(20), profile(20))
    site.shop.respec(trigger=1.0001, max_imbalance=1.0)
    try:
        row = Walk(eyes).row()
        assert row.startswith("over trigger") and "since the window to 2013-01-29" in row
    finally:
        site.shop.respec()
