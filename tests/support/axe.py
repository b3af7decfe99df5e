"""What axe finds wrong with a page, in light and in dark; pages of any browser test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

#: What axe asks of a page in each: only colours differ.
SCHEMES: dict[Any, dict[str, Any]] = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},
}


def violations(page: Page) -> dict[str, str]:
    """Return every violation of any impact, and where it is."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = {}
    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        for each in axe.run(page, options=rules).response["violations"]:
            found[f"{scheme}: {each['id']}"] = each["nodes"][0]["html"][:200]
    page.emulate_media(color_scheme="light")
    return found


def framed_violations(frame: Frame) -> dict[str, str]:
    """Return what axe finds wrong with the colours that a framed page has now, and where it is."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(frame, options=SCHEMES["dark"]).response["violations"]
    nodes = ((each["id"], node) for each in found for node in each["nodes"])
    return {f"{rule}: {node['html'][:200]}": node["failureSummary"] for rule, node in nodes}
