"""A real `make up` for the whole folder, and a real Chromium with a user of it logged in.

pytest tests/evenkeel_ui/browser  # starts an Airflow of its own
make shots  # and makes the pictures of docs
EVENKEEL_UP=/folder/.run pytest tests/evenkeel_ui/browser  # on one that runs already
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

from evenkeel.demo.airflow.client import Api
from evenkeel.registry.epochs import Registry
from evenkeel.table import open_table
from tests.support.pages.chromium import running_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parents[3]
#: Seconds that a slow machine may take: to make the tables and start Airflow, for a run of a DAG,
#: for a page; and for a test, whose first waits for the start.
START, RUN, PAGE, TEST = 900, 900, 90, 1800
TABLE = "/evenkeel/tables/flights"
SHOTS = os.environ.get("EVENKEEL_SHOTS")
#: A picture in the docs may weigh so many bytes.
HEAVIEST = 200_000
#: A task's log has such a line where it failed.
BAD = '"level":"error"'
#: ... and the scheduler's such a one, where it failed a task that went well.
KILLED = re.compile("reported that the task instance|without heartbeat|is locked")


@dataclass
class Site:
    """An Airflow that `make up` has started, with the table `flights`.

    Parameters
    ----------
    folder : what is .run elsewhere; specs are in `tables` beside it
    process : of `make up`
    walk : seconds of each part of a newcomer's walk, from `make up` to the way back
    """

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    sessions: set[int] = field(default_factory=set)
    walk: dict[str, float] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, Any]:
        """What up.json says."""
        return json.loads((self.folder / "up.json").read_text())

    @property
    def url(self) -> str:
        return self.told["url"]

    @property
    def spec(self) -> Path:
        return self.folder.parent / "tables" / "flights.yaml"

    @property
    def registry(self) -> Registry:
        return open_table(str(self.spec)).registry

    @property
    def output(self) -> str:
        return (self.folder / "out.log").read_text()

    @contextmanager
    def walked(self, what: str) -> Iterator[None]:
        """What is done inside is that part of the walk."""
        began = time.monotonic()
        yield
        self.walk[what] = self.walk.get(what, 0.0) + time.monotonic() - began

    def api(self, user: str) -> Api:
        return Api(self.url, user, self.told["users"][user])

    def files(self) -> dict[str, bytes]:
        """All of state, and the epochs."""
        found = [self.folder / "state", Path(self.registry.url) / "epochs"]
        return {str(f): f.read_bytes() for at in found for f in at.rglob("*") if f.is_file()}

    def members(self) -> list[psutil.Process]:
        """What runs in the sessions that `make up` has started."""
        assert self.process is not None
        mine = [self.process.pid, *(p.pid for p in self._children())]
        self.sessions |= {os.getsid(pid) for pid in mine if psutil.pid_exists(pid)}
        return [p for p in psutil.process_iter() if _session(p) in self.sessions]

    def _children(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def failures(self) -> str:
        """The ends of the logs of tasks that failed, and what the scheduler says of others."""
        logs = sorted((self.folder / "logs" / "airflow").glob("dag_id=*/**/*.log"))
        told = [f"{log}:\n{text[-8000:]}" for log in logs if BAD in (text := log.read_text())]
        scheduler = (self.folder / "logs" / "up" / "scheduler.log").read_text().splitlines()
        return "\n".join([*told, *(line for line in scheduler if KILLED.search(line))])

    def stop(self) -> int:
        """Press Ctrl-C, which reaches make and what it runs; returns make's exit code."""
        assert self.process is not None
        self.members()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PAGE)


def _session(process: psutil.Process) -> int:
    try:
        return 0 if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    except (OSError, psutil.Error):
        return 0


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One Airflow for all tests here: they tell one story, in order."""
    if running := os.environ.get("EVENKEEL_UP"):
        yield Site(Path(running))
        return
    pytest.importorskip("airflow")
    base = tmp_path_factory.mktemp("up")
    spec = yaml.safe_load((ROOT / "tables" / "flights.yaml").read_text())
    (base / "tables").mkdir()
    # Every plan is over it: a person is asked. A week is learned sooner than four, and few slots
    # are written and checked sooner than many.
    spec |= {"approve_over": 100, "window": 7, "slots": 256}
    (base / "tables" / "flights.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    folder = base / ".run"
    folder.mkdir()
    # Set up it is, or these tests would not run.
    command = ["make", "up", "-o", ".venv/.installed", "-o", ".jars/.ready", f"PY={sys.executable}"]
    with (folder / "out.log").open("wb") as out:
        process = subprocess.Popen(
            [*command, f"ARGS=--users viewer,op --no-look --folder {folder}"],
            cwd=ROOT,
            env={**os.environ, "EVENKEEL_TABLES": str(base / "tables"), "PORT": ""},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # As at a terminal: a shell's background job would ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    made = Site(folder, process)
    try:
        until = time.monotonic() + START
        with made.walked("make up"):
            while not (folder / "up.json").is_file():
                assert process.poll() is None and time.monotonic() < until, made.output
                time.sleep(0.2)
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """This machine's Chromium."""
    with running_chromium() as browser:
        yield browser


def run_of(site: Site) -> str:
    """The newest run of the rebalance."""
    return str(site.api("op").runs("rebalance_flights")[0]["dag_run_id"])


class People:
    """The site's users, each with a browser that is logged in."""

    def __init__(self, site: Site, chromium: Browser) -> None:
        self.site, self._chromium = site, chromium
        self._known: dict[str, Any] = {}
        self._open: list[BrowserContext] = []
        #: Every address that any page has asked for.
        self.asked: list[str] = []

    def page(self, user: str | None, **options: Any) -> Page:
        """A new page of that user (None: nobody has logged in), as wide as a laptop's."""
        if user is not None and user not in self._known:
            self._log_in(user)
        options = {"viewport": {"width": 1280, "height": 800}, **options}
        context = self._chromium.new_context(storage_state=self._known.get(user), **options)
        self._open.append(context)
        context.on("request", lambda request: self.asked.append(request.url))
        page = context.new_page()
        page.set_default_timeout(PAGE * 1000)
        return page

    def _log_in(self, user: str) -> None:
        page = self.page(None)
        page.goto(f"{self.site.url}/evenkeel/")
        page.get_by_role("link", name="Log in", exact=True).click()
        page.locator("input[name=username]").fill(user)
        page.locator("input[name=password]").fill(self.site.told["users"][user])
        page.get_by_role("button", name="Sign in", exact=True).click()
        # Airflow leads back to where the login was missing.
        page.wait_for_url(f"{self.site.url}/evenkeel/")
        self._known[user] = page.context.storage_state()

    def watch(self, page: Page, state: str) -> None:
        """Wait until the page, which follows its run by itself, tells that it ended so."""
        ended = page.locator("section[aria-label=Progress] p :is(strong.good, strong.bad)")
        ended.first.wait_for(timeout=RUN * 1000)
        assert ended.first.inner_text() == state, self.site.failures()

    def close(self) -> None:
        for context in self._open:
            context.close()
        self._open.clear()


def has(page: Page, text: str) -> None:
    """Wait until the page says this."""
    page.get_by_text(text).first.wait_for()


def picture(page: Page, name: str) -> None:
    """What the page shows, for the docs, where EVENKEEL_SHOTS asks for it."""
    if SHOTS:
        file = Path(SHOTS) / f"{name}.png"
        # Airflow fades its frames in.
        page.wait_for_timeout(1500)
        page.screenshot(path=file)
        assert file.stat().st_size < HEAVIEST, f"{file} is too heavy"


@pytest.fixture
def people(_people: People) -> Iterator[People]:
    """The users; their pages close with the test."""
    yield _people
    _people.close()


@pytest.fixture(scope="package")
def _people(site: Site, chromium: Browser) -> People:
    return People(site, chromium)
