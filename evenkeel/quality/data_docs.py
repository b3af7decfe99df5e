"""Data Docs: a page for every validation, and an index of them all, in the registry's store.

The content is rendered by Great Expectations; the page around it is ours, because theirs loads
styles, scripts and a logo from five other hosts. A page is never replaced: a retry leaves
another, so the index is the history of the gates. Its names carry what the index shows, so that
one listing is enough.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import escape

from evenkeel.quality.expectations import GateResult
from evenkeel.registry.store import Store
from evenkeel.render.formatting import template
from partitioning.planning.plan import Plan

FOLDER = "data_docs"
#: Pages that the index lists, newest first.
SHOWN = 1000
_NAME = re.compile(r"(\d{8}T\d{6})Z\.(.*)\.(before|after)\.(passed|failed)\.html")


@dataclass(frozen=True)
class Page:
    """One validation as the index shows it."""

    name: str
    when: datetime
    run: str
    suite: str
    passed: bool


def leave_docs(result: GateResult, store: Store | None, run: str, plan: Plan) -> GateResult:
    """Write the page of this result and the index; returns the result with the page's name."""
    if store is None:
        return result
    when = datetime.now(UTC)
    verdict = "passed" if result.success else "failed"
    name = f"{when:%Y%m%dT%H%M%S}Z.{run or 'run'}.{result.suite}.{verdict}.html"
    page = template("data_docs_page.html.j2").render(
        table=plan.table,
        epoch=plan.function.epoch,
        digest=plan.digest,
        suite=result.suite,
        run=run,
        when=when,
        success=result.success,
        results=result.results,
        frames={frame: _sections(raw) for frame, raw in result.raw.items()},
    )
    store.write(f"{FOLDER}/{name}", page.encode())
    index = template("data_docs_index.html.j2").render(table=plan.table, pages=pages(store)[:SHOWN])
    store.write(f"{FOLDER}/index.html", index.encode())
    return result.with_docs(f"{FOLDER}/{name}")


def pages(store: Store) -> list[Page]:
    """Every validation that has a page, newest first."""
    found = []
    for name in store.names(FOLDER):
        if match := _NAME.fullmatch(name):
            when, run, suite, verdict = match.groups()
            moment = datetime.strptime(when, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
            found.append(Page(name, moment, run, suite, verdict == "passed"))
    return sorted(found, key=lambda p: (p.when, p.name), reverse=True)


def _escaped(value: Any) -> Any:
    """JSON values with every text as HTML writes it."""
    if isinstance(value, dict):
        return {key: _escaped(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_escaped(v) for v in value]
    return str(escape(value)) if isinstance(value, str) else value


def _sections(raw: Any) -> list[str]:
    """HTML of Great Expectations' own sections for one frame: its results by column."""
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaSectionView

    # It escapes what expectations ask for, and not the values that they find in data.
    raw = deepcopy(raw)
    for result in raw.results:
        result.result = _escaped(result.result)
    document = ValidationResultsPageRenderer(run_info_at_end=True).render(raw)
    view = DefaultJinjaSectionView()
    return [
        view.render({"section": section.to_json_dict(), "section_loop": {"index": place}})
        for place, section in enumerate(document.sections[1:-1])
    ]
