"""A real Chromium on the pages."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.pages.chromium import running_chromium
from tests.support.plugin_site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


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
    uvicorn = pytest.importorskip("uvicorn")
    with running_chromium() as browser:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(site.app, "127.0.0.1", port, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield Eyes(site, browser, f"http://127.0.0.1:{port}")
        server.should_exit = True
        thread.join(30)
