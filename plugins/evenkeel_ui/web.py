"""Build the answer of a page: template, headers, times, sorted tables."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup

from evenkeel.render.formatting import template_environment, when

Row = TypeVar("Row")
_OWN = Path(__file__).parent / "templates" / "assets"
#: Only this host. Charts have their colours in style attributes.
POLICY = (
    "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'self'; "
    "base-uri 'none'"
)
#: For documents that a run wrote: one file with inline styles and no script of its own.
DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'self'; base-uri 'none'"
)


def page(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render one of our pages."""
    root = request.scope.get("root_path", "").rstrip("/")
    text = _environment().get_template(name).render(root=root, request=request, **values)
    return HTMLResponse(text, status)


def document(request: Request, text: bytes, links: Mapping[str, str]) -> HTMLResponse:
    """Return a page that a run wrote, in Airflow's theme and zone, with links back above it.

    No script in the file runs: the policy allows only the two that are added here.

    Parameters
    ----------
    links : text -> address; the file itself has none, because it is also read outside of Airflow
    """
    root, nonce = request.scope.get("root_path", "").rstrip("/"), secrets.token_urlsafe(16)
    each = (Markup('<a href="{}">{}</a>').format(at, name) for name, at in links.items())
    scripts = Markup("").join(
        Markup('<script src="{}/static/{}" nonce="{}"{}></script>').format(root, name, nonce, how)
        for name, how in (("theme.js", ""), ("times.js", Markup(" defer")))
    )
    way = scripts + Markup('<nav class="note" aria-label="Evenkeel">{}</nav>').format(
        Markup(" · ").join(each)
    )
    # Its first <main> is our template's: what comes from data is escaped.
    text = text.replace(b"<main>", b"<main>" + way.encode(), 1)
    policy = f"{DOCUMENT_POLICY}; script-src 'nonce-{nonce}'"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def sort(
    request: Request,
    rows: Iterable[Row],
    columns: Mapping[str, Callable[[Row], Any]],
    default: str,
    name: str = "sort",
) -> list[Row]:
    """Sort rows by the column that the query names; a minus before the name means descending.

    The server sorts, so that tables sort without JavaScript.
    """
    asked = _query(request).get(name, default)
    if asked.lstrip("-") not in columns:
        asked = default
    key = columns[asked.lstrip("-")]
    every = [(key(row), row) for row in rows]
    known = [pair for pair in every if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=asked.startswith("-"))
    # Rows without a value come last in either order.
    return [row for _, row in known] + [row for value, row in every if value is None]


def sort_link(request: Request, column: str, text: str, name: str = "sort") -> Markup:
    """Return a table heading as a link that sorts by it; a second click reverses the order."""
    asked = _query(request).get(name, "")
    wanted = f"-{column}" if asked == column else column
    query = urlencode({**_query(request), name: wanted})
    mark = {column: " ▲", f"-{column}": " ▼"}.get(asked, "")
    return Markup('<a href="?{}#{}">{}{}</a>').format(query, name, text, mark)


def sorted_as(request: Request, column: str, name: str = "sort") -> Markup:
    """Return the aria-sort attribute of a table heading; empty if not sorted by it."""
    asked = _query(request).get(name, "")
    order = {column: "ascending", f"-{column}": "descending"}.get(asked)
    return Markup(' aria-sort="{}"').format(order) if order else Markup("")


def show_all(request: Request, place: str, field: str = "every") -> Markup:
    """Return a link to the same page with all rows, at the section with the id `place`."""
    query = urlencode({**_query(request), field: "true"})
    return Markup('<a href="?{}#{}">Show all</a>').format(query, place)


def ago(moment: datetime | str | None) -> Markup:
    """Format a moment as the time since then: 2 h ago; its title has the moment itself."""
    told = when(moment)
    found = re.search(r'datetime="([^"]*)"', told)
    if found is None:
        return told
    seconds = (datetime.now(UTC) - datetime.fromisoformat(found[1])).total_seconds()
    units = (("d", 86400), ("h", 3600), ("min", 60))
    text = next(
        (f"{seconds / size:,.0f}\u00a0{unit} ago" for unit, size in units if seconds >= size),
        "just now",
    )
    return Markup('<time datetime="{}" data-ago title="{}">{}</time>').format(
        found[1], told.striptags(), text
    )


def style() -> str:
    """Return all styles: those shared with reports, then those of the pages."""
    names = ("page.css", "report.css", "assets/ui.css")
    return "\n".join(_environment().get_template(name).render() for name in names)


def script(name: str) -> str:
    """Return one file of the pages' JavaScript: `page.js`, `times.js` or `theme.js`."""
    return (_OWN / name).read_text(encoding="utf-8")


def _query(request: Request) -> Mapping[str, str]:
    """Return the query of the page; after a posted form, the query that repeats it."""
    return getattr(request.state, "asked", request.query_params)


@cache
def _environment() -> Environment:
    made = template_environment("evenkeel_ui")
    made.filters["ago"] = ago
    made.globals |= {"sort_link": sort_link, "sorted_as": sorted_as, "show_all": show_all}
    return made
