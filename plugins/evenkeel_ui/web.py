"""How a page is answered: templates, headers, times, sorted tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup, escape

from evenkeel.render.formatting import environment

Row = TypeVar("Row")
_OWN = Path(__file__).parent / "templates" / "assets"
#: No host but this one; pictures carry their colours in style attributes.
POLICY = (
    "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'self'; "
    "base-uri 'none'"
)
#: For documents that a run has left: one file with its styles, and no script.
DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'self'; base-uri 'none'"
)


def page(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page of ours."""
    root = request.scope.get("root_path", "").rstrip("/")
    text = _environment().get_template(name).render(root=root, request=request, **values)
    return HTMLResponse(text, status)


def document(text: bytes) -> HTMLResponse:
    """A page that a run has left, as it is."""
    return HTMLResponse(text, headers={"Content-Security-Policy": DOCUMENT_POLICY})


def sort(
    request: Request,
    rows: Iterable[Row],
    columns: Mapping[str, Callable[[Row], Any]],
    default: str,
    name: str = "sort",
) -> list[Row]:
    """Rows by the column that the query asks for; a minus before its name turns them around.
    Sorted here, so that tables sort without JavaScript."""
    asked = _asked(request).get(name, default)
    if asked.lstrip("-") not in columns:
        asked = default
    key = columns[asked.lstrip("-")]
    return sorted(rows, key=lambda row: _ordered(key(row)), reverse=asked.startswith("-"))


def sort_link(request: Request, column: str, text: str, name: str = "sort") -> Markup:
    """A table's heading as a link that sorts by it, the other way round the second time."""
    asked = _asked(request).get(name, "")
    wanted = f"-{column}" if asked == column else column
    query = urlencode({**_asked(request), name: wanted})
    mark = {column: " ▲", f"-{column}": " ▼"}.get(asked, "")
    return Markup('<a href="?{}#{}">{}{}</a>').format(query, name, text, mark)


def sorted_as(request: Request, column: str, name: str = "sort") -> Markup:
    """The attribute by which a table's heading tells how it is sorted."""
    asked = _asked(request).get(name, "")
    order = {column: "ascending", f"-{column}": "descending"}.get(asked)
    return Markup(' aria-sort="{}"').format(order) if order else Markup("")


def show_all(request: Request, place: str) -> Markup:
    """A link to the same page with every row, at the section with the id `place`."""
    query = urlencode({**_asked(request), "every": "true"})
    return Markup('<a href="?{}#{}">Show all</a>').format(query, place)


def when(moment: datetime | str | None) -> Markup:
    """A moment in UTC; `page.js` writes it in the reader's own zone."""
    if moment is None:
        return Markup("–")
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return escape(moment)
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment.strftime("%Y-%m-%d %H:%M")
    )


def style() -> str:
    """All styles: those that reports share, and the pages' own."""
    names = ("page.css", "report.css", "assets/ui.css")
    return "\n".join(_environment().get_template(name).render() for name in names)


def script() -> str:
    """What pages do with JavaScript: times in the reader's zone."""
    return (_OWN / "page.js").read_text(encoding="utf-8")


def _asked(request: Request) -> Mapping[str, str]:
    """What the page was asked for: of a form that came back, what would ask for it again."""
    return getattr(request.state, "asked", request.query_params)


def _ordered(value: Any) -> tuple[bool, Any]:
    return (value is None, value if value is not None else 0)


@cache
def _environment() -> Environment:
    made = environment("evenkeel_ui")
    made.filters["when"] = when
    made.globals |= {"sort_link": sort_link, "sorted_as": sorted_as, "show_all": show_all}
    return made
