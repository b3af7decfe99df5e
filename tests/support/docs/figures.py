"""Places of the docs that hold one figure: a pattern that a page of benchmarks has once."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.support.wheel import ROOT

FOLDER = ROOT / "docs" / "benchmarks"


class Place(NamedTuple):
    """The one place on a page that has a claim's figure, and its target or baseline."""

    page: str
    pattern: str


def row(page: str, label: str, result: str) -> Place:
    """Return the place in a row: label, target, result."""
    return Place(page, rf"\| {label}[^|\n]* \| (?P<aim>[^|\n]*) \| {result}")


def only(place: Place) -> re.Match[str]:
    """Return the only match of a pattern on its page."""
    found = list(re.finditer(place.pattern, (FOLDER / f"{place.page}.md").read_text()))
    assert len(found) == 1, f"{place.page}.md has {len(found)} of {place.pattern}"
    return found[0]
