"""A board that is left open all night: it says so when it is old, and repeats no alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.browser import PATIENCE, Eyes
from tests.support.pages.failed_runs import DONE, HOME, PLANNED, run_called
from tests.support.plugin_site import Site, end_runs, made_site  # noqa: F401  a fixture
from tests.support.raw_json import write_json

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.airflow
#: A little more than the seconds after which the overview comes anew, and a whole night.
REFRESH, NIGHT = 31_000, 3 * 3600 * 1000


def board(eyes: Eyes, path: str = "/evenkeel/") -> Page:
    """The overview of somebody whose clock this test winds on."""
    page = eyes.page("uma")
    page.clock.install()
    page.goto(eyes.url + path)
    return page


def asked(page: Page, milliseconds: int = REFRESH, path: str = "/evenkeel/") -> None:
    """Wind the clock on, and wait until the page has been asked for again and has the answer."""
    # The timer of the next request is set once the last answer was read.
    page.wait_for_timeout(500)
    with page.expect_response(f"**{path}", timeout=PATIENCE):
        page.clock.run_for(milliseconds)
    page.wait_for_timeout(500)


def test_an_expired_login_is_said_at_once(eyes: Eyes) -> None:
    page = board(eyes)
    notice = page.get_by_role("alert", name="Not refreshed")
    asked(page)
    assert not notice.is_visible()
    page.context.clear_cookies()
    asked(page)
    notice.wait_for()
    said = notice.inner_text()
    assert "Not refreshed since" in said and "Log in again" in said
    assert "does not answer" not in said
    notice.get_by_role("link", name="Log in again").click()
    page.get_by_role("heading", name="Not logged in").wait_for()


@pytest.mark.parametrize("how", ["abort", "error"])
def test_a_server_that_is_gone_is_said_and_goes_away_with_its_return(eyes: Eyes, how: str) -> None:
    page = board(eyes)
    page.evaluate("localStorage.setItem('timezone', 'Asia/Tokyo')")
    notice = page.get_by_role("alert", name="Not refreshed")
    page.route(
        "**/evenkeel/", lambda r: r.abort() if how == "abort" else r.fulfill(status=503, body="")
    )
    page.clock.run_for(REFRESH)
    notice.wait_for()
    since = notice.locator("[data-since]").inner_text()
    assert "the server does not answer" in notice.inner_text()
    assert since.endswith(" GMT+9")
    page.clock.run_for(10 * REFRESH)
    page.wait_for_timeout(300)
    assert notice.locator("[data-since]").inner_text() == since
    page.unroute("**/evenkeel/")
    page.clock.run_for(REFRESH)
    notice.wait_for(state="hidden")


def test_an_error_is_said_as_its_page_says_it(eyes: Eyes) -> None:
    page = board(eyes)
    wrong = eyes.site.client("uma").get("/evenkeel/nowhere")
    page.route("**/evenkeel/", lambda r: r.fulfill(status=wrong.status_code, body=wrong.text))
    page.clock.run_for(REFRESH)
    notice = page.get_by_role("alert", name="Not refreshed")
    notice.wait_for()
    said = notice.inner_text()
    assert "Not found: There is no such page." in said and "does not answer" not in said
    notice.get_by_role("link", name="Load the page again").wait_for()


def test_a_form_that_stays_all_night_can_be_sent(eyes: Eyes, broken: str) -> None:
    page = board(eyes)
    fields = "[...document.querySelectorAll('[name=csrf]')]"
    page.evaluate(f"{fields}.forEach((field) => field.value = 'too old')")
    asked(page)
    values = page.evaluate(f"{fields}.map((field) => field.value)")
    assert values and "too old" not in values


def test_a_second_press_does_nothing(eyes: Eyes, broken: str) -> None:
    page, sent = eyes.open("uma"), []

    def stay(route: Route) -> None:
        sent.append(route.request.post_data)
        route.fulfill(status=204)

    page.route("**/recover", stay)
    undo = page.get_by_role("button", name="Undo")
    undo.dblclick(no_wait_after=True)
    page.wait_for_timeout(500)
    assert undo.is_disabled()
    assert len(sent) == 1 and "decision=undo" in sent[0]
    # Who comes back to the page can press again.
    page.evaluate("window.dispatchEvent(new Event('pageshow'))")
    assert undo.is_enabled()


def test_a_server_that_hangs_is_said_too(eyes: Eyes) -> None:
    page = board(eyes)
    # Whoever is asked gives no answer, nor an error.
    page.route("**/evenkeel/", lambda route: None)
    page.evaluate("AbortSignal.timeout = () => AbortSignal.abort()")
    page.clock.run_for(REFRESH)
    page.get_by_role("alert", name="Not refreshed").wait_for()


def test_how_long_ago_goes_on_while_nothing_comes(eyes: Eyes) -> None:
    page = board(eyes)
    read = page.get_by_role("row").filter(has_text="words").locator("span.note time[data-ago]")
    assert read.inner_text() == "just now"
    page.route("**/evenkeel/", lambda route: route.abort())
    page.clock.fast_forward(NIGHT)
    page.clock.run_for(11_000)
    assert read.inner_text().replace("\u00a0", " ") == "3 h ago"


def test_an_alarm_stays_as_it_is_until_something_changes(eyes: Eyes, broken: str) -> None:
    page = board(eyes)
    alarm = page.get_by_role("alert", name="Half moved")
    # A property, because an attribute would be a change of the page.
    alarm.evaluate("(each) => { each.same = 'yes'; }")
    for _ in range(3):
        asked(page)
    assert alarm.evaluate("(each) => each.same ?? null") == "yes"
    folder = eyes.site.registry.run(broken)
    progress = folder.progress.read().model_dump() | {"rows": DONE + 1}
    write_json(folder, "progress.json", progress)
    asked(page)
    page.get_by_text(f"({DONE + 1} of {PLANNED} rows)").wait_for()
    assert alarm.evaluate("(each) => each.same ?? null") is None


def test_a_table_that_was_clicked_still_comes_anew(eyes: Eyes, broken: str) -> None:
    page = board(eyes)
    page.get_by_role("region", name="Tables").focus()
    eyes.site.registry.run(broken).remove("migration.json")
    asked(page)
    page.get_by_role("row").filter(has_text="words").get_by_text("failed", exact=True).wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Tables"


def test_what_stopping_leaves_stays_true_while_the_page_is_open(eyes: Eyes, broken: str) -> None:
    """A move without batches reports no progress until it ends, and has begun all the same."""
    folder = eyes.site.registry.run(broken)
    begun = folder.read("migration.json")
    folder.migration.remove()
    folder.progress.remove()
    goes_on(broken)
    page = eyes.open("uma", f"{HOME}/runs/{broken}")
    page.get_by_text("Nothing has moved yet.").wait_for()
    heading = page.get_by_role("heading", level=1)
    assert "is moving" not in heading.inner_text()
    folder.write("migration.json", begun)
    page.get_by_text("leaves the table half moved").wait_for()
    assert "words is moving" in heading.inner_text()
    end_runs("failed")


def goes_on(name: str) -> None:
    """Let the run be at migrate."""
    from airflow.utils.session import create_session

    with create_session() as session:
        run = run_called(session, name)
        run.state, run.end_date = "running", None
        for task in run.task_instances:
            if task.task_id == "migrate":
                task.state = "running"


def test_the_page_of_a_table_comes_by_itself_and_stays_open(eyes: Eyes, broken: str) -> None:
    page = board(eyes, HOME)
    alarm = page.get_by_role("alert", name="Half moved")
    assert alarm.is_visible()
    past = page.locator("#past")
    past.locator("summary").click()
    page.get_by_label("word").fill("word 1")
    # Nothing is new, so nothing is touched.
    past.evaluate("(each) => { each.same = 'yes'; }")
    asked(page, path=HOME)
    assert past.evaluate("(each) => each.same ?? null") == "yes"
    eyes.site.registry.run(broken).remove("migration.json")
    eyes.site.learned(5)
    asked(page, path=HOME)
    alarm.wait_for(state="detached")
    # The windows came, too; what the reader has opened is open, and what was typed stays.
    assert past.evaluate("(each) => each.same ?? null") is None
    assert past.get_attribute("open") is not None
    assert page.get_by_label("word").input_value() == "word 1"
    page.context.clear_cookies()
    asked(page, path=HOME)
    page.get_by_role("alert", name="Not refreshed").get_by_text("Log in again").wait_for()


def test_the_page_of_a_run_says_it_too(eyes: Eyes, broken: str) -> None:
    page = eyes.page("uma")
    page.goto(f"{eyes.url}{HOME}/runs/{broken}")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Stop this run").wait_for()
    page.context.clear_cookies()
    page.get_by_role("alert", name="Not refreshed").get_by_text("Log in again").wait_for()
    end_runs()
