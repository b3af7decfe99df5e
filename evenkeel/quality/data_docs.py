"""Data Docs: one page for each validation and an index of all pages, in the registry's store.

Great Expectations renders the content. The page around it is our own, because theirs loads
styles, scripts and a logo from five other hosts. A page is never replaced: a retry adds another
page, so the index is the history of the gates. The job maintain removes old pages. A page's name
carries all that the index shows, so the index needs one listing and reads no page.
"""

from __future__ import annotations

import re
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from markupsafe import escape

from evenkeel.quality.expectations import GateResult
from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.html import Html
from evenkeel.registry.files.run_files import DATA_DOCS, RegistryFiles
from evenkeel.registry.pruning import prune_files
from evenkeel.registry.store import Store
from evenkeel.render.formatting import template
from partitioning.errors import DamagedError
from partitioning.planning.plan import Plan

#: Pages that the index lists, newest first. More of them make a longer page; the others stay, too.
LISTED_PAGES = 1000
_NAME = re.compile(r"(\d{8}T\d{6})Z\.(.*)\.(before|after)\.(passed|failed)\.html")
# Text from data is escaped, so a tag is one of Great Expectations' own.
_HEADING = re.compile(r"(</?)h5\b")


@dataclass(frozen=True)
class Page:
    """A validation as the index lists it.

    Parameters
    ----------
    name : of the page's file in DATA_DOCS
    when : time of the validation, UTC, in whole seconds
    run : name of the run's folder
    suite : "before" (the plan) or "after" (the tables)
    passed : whether every critical expectation held
    """

    name: str
    when: datetime
    run: str
    suite: str
    passed: bool


def leave_docs(result: GateResult, store: Store | None, run: str, plan: Plan) -> GateResult:
    """Write the page of a result, and the index again.

    Parameters
    ----------
    result : of the gate
    store : the registry's; None: write nothing
    run : name of the run's folder
    plan : that the gate is about

    Returns
    -------
    The result with the name of its page.
    """
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
    files = RegistryFiles(store)
    files.docs_page(name).write(Html(page))
    files.docs_index.write(_index(plan.table, store))
    return replace(result, docs=files.docs_page(name).name)


def prune_docs(registry: Registry, table: str, since: datetime) -> int:
    """Remove pages that are older than a moment, and write the index again; return how many went.

    A page stays while a report leads to it: of a run that is there, or of the current epoch. Call
    it after `prune`, which removes runs.

    Raises
    ------
    StoreError : the store cannot be reached
    """
    store = registry.store
    if not registry.numbers():
        return 0
    runs, linked = set(store.names("runs")), set[str]()
    kept = registry.archive(registry.current().number)
    for gate in (kept.gate_plan, kept.gate_tables):
        with suppress(DamagedError):
            found = gate.find()
            linked.add(PurePosixPath(found.docs or "").name if found else "")
    old = {page.name for page in pages(store) if page.run not in runs} - linked
    count = prune_files(store, DATA_DOCS, since, old)
    # Also where no page went now: an earlier call may have been killed between the two.
    files, listed = RegistryFiles(store), _index(table, store)
    if files.find(files.docs_index.name) not in (None, listed.to_bytes()):
        files.docs_index.write(listed)
    return count


def _index(table: str, store: Store) -> Html:
    listed = pages(store)[:LISTED_PAGES]
    return Html(template("data_docs_index.html.j2").render(table=table, pages=listed))


def pages(store: Store) -> list[Page]:
    """List every validation that has a page, newest first."""
    found = []
    for name in store.names(DATA_DOCS):
        if match := _NAME.fullmatch(name):
            when, run, suite, verdict = match.groups()
            moment = datetime.strptime(when, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
            found.append(Page(name, moment, run, suite, verdict == "passed"))
    return sorted(found, key=lambda p: (p.when, p.name), reverse=True)


def _escaped(value: Any) -> Any:
    """Escape every text in JSON values for HTML."""
    if isinstance(value, dict):
        return {key: _escaped(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_escaped(v) for v in value]
    return str(escape(value)) if isinstance(value, str) else value


def _sections(raw: Any) -> list[str]:
    """Render one frame's results as HTML, one section for each column."""
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaSectionView

    # Great Expectations escapes the bounds of expectations, but not values found in the data.
    raw = deepcopy(raw)
    for result in raw.results:
        result.result = _escaped(result.result)
    # Great Expectations before 1.22 asks for one. It shows in the parts that are left out below.
    raw.meta.setdefault("run_id", "")
    document = ValidationResultsPageRenderer(run_info_at_end=True).render(raw)
    view = DefaultJinjaSectionView()
    drawn = (
        view.render({"section": section.to_json_dict(), "section_loop": {"index": place}})
        for place, section in enumerate(document.sections[1:-1])
    )
    # A section follows our heading of level 2, and Great Expectations gives its own level 5.
    return [_HEADING.sub(r"\1h3", html) for html in drawn]
