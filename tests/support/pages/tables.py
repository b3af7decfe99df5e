"""The tables of a page, as HTML, and their cells."""

from __future__ import annotations

import re

from tests.support.airflow_env import PATH, ROOT, airflow_db  # noqa: F401  a fixture
from tests.support.plugin_site import (  # noqa: F401  a fixture
    ATTACK,
    Site,
    deny,
    end_runs,
    made_site,
    profile,
    run_name,
    token,
)


def tables(text: str) -> dict[str, str]:
    """Each table that scrolls, by its label."""
    found = re.findall(r'role="region" aria-label="([^"]*)">\s*(<table>.*?</table>)', text, re.S)
    return dict(found)


def cells(table: str, place: int) -> list[str]:
    """The texts of a column, without what is said beside a value."""
    rows = table.split("<tbody>")[1].split("</tr>")[:-1]
    rows = [re.sub(r"<span class=\"said\">.*?</span>", "", row) for row in rows]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)[place] for row in rows]
    return [re.sub("<[^>]*>", "", cell).strip().split(", ")[0] for cell in found]
