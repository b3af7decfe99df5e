"""A real Chromium on the pages."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.plugin_site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOME = "/evenkeel/tables/words"
#: Milliseconds that a page may take on a busy machine.
PATIENCE = 60_000


@dataclass
class Eyes:
    """A browser on the site, served on a port of this machine."""

    site: Site
    browser: Browser
    url: str

    def page(self, user: str, **options: Any) -> Page:
        """Return a new page on which the user is logged in."""
        context = self.browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        token = self.site.client(user).cookies["_token"]
        context.add_cookies([{"name": "_token", "value": token, "url": self.url}])
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        return page

    def open(self, user: str, path: str = HOME, **options: Any) -> Page:
        """Return a page of that user at an address of ours."""
        page = self.page(user, **options)
        page.goto(self.url + path)
        return page


@pytest.fixture(scope="module")
def eyes(site: Site) -> Iterator[Eyes]:
    playwright = pytest.importorskip("playwright.sync_api")
    uvicorn = pytest.importorskip("uvicorn")
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(site.app, "127.0.0.1", port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield Eyes(site, browser, f"http://127.0.0.1:{port}")
        browser.close()
    server.should_exit = True
    thread.join(30)
