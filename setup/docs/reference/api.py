"""The page of the Python API: the public names, which mkdocstrings describes on the site."""

from __future__ import annotations

import evenkeel
from setup.docs.reference.markdown import code, page, summary, table


def page_text() -> str:
    """Return the page."""
    names = [name for name in evenkeel.__all__ if not name.startswith("_")]
    return page(
        "Python API",
        '```python\nimport evenkeel\n\nepoch = evenkeel.open_table("flights").epoch()\n```',
        "These names are public. All others may change with any release. The site (`make docs`) "
        "shows the signature, the parameters and the errors of each below.",
        table(["name", "what it is"], [[code(n), summary(getattr(evenkeel, n))] for n in names]),
        *(f"::: evenkeel.{name}" for name in names),
    )
