"""The lines of the overview."""

from __future__ import annotations

import re


def lines(text: str) -> dict[str, str]:
    """Name -> state of each line of the overview, in order."""
    body = text.split('aria-label="Tables"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = [r for r in body.split("<tr>") if r.strip()]
    told = [re.findall(r"<(?:td|th)[^>]*>(.*?)(?:<p|</t[dh]>)", row, re.S) for row in rows]
    bare = [[re.sub("<[^>]*>", "", cell).strip() for cell in each] for each in told]
    return {each[1]: each[0] for each in bare}
