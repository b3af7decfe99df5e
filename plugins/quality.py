"""Data-quality reports: a run's expectations, their history over epochs, and Data Docs."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from evenkeel.data_docs import FOLDER, pages
from evenkeel.quality import gates, over_epochs
from evenkeel.standing import run_names
from partitioning.errors import EvenkeelError
from plugins.access import ReadableTable
from plugins.web import document, page

#: Epochs side by side, runs to choose from, validations that are listed.
EPOCHS, RUNS, LISTED = 8, 50, 50
router = APIRouter(prefix="/tables/{table}", tags=["pages"])


@router.get("/quality", response_class=HTMLResponse)
def quality(
    request: Request, found: ReadableTable, run: str = "", every: bool = False
) -> HTMLResponse:
    """A run's expectations with observed values, and each expectation over epochs."""
    registry = found.registry
    names = run_names(registry)
    if run and run not in names:
        raise HTTPException(404, f"There is no run {run!r} of {found.spec.table}.")
    problems: list[str] = []
    shown: dict[str, object] = {}
    for name in [run] if run else names[:RUNS]:
        try:
            shown, run = gates(registry.store, f"runs/{name}"), name
        except EvenkeelError as error:
            problems.append(str(error))
        if shown:
            break
    try:
        numbers = registry.numbers()[::-1]
    except EvenkeelError as error:
        numbers = []
        problems.append(str(error))
    shown_numbers = numbers if every else numbers[:EPOCHS]
    history, missing = over_epochs(registry, shown_numbers)
    docs = pages(registry.store)
    return page(
        request,
        "quality.html.j2",
        table=found.spec.table,
        run=run,
        runs=names[:RUNS],
        gates=shown,
        numbers=shown_numbers,
        numbers_count=len(numbers),
        history=history,
        problems=[*problems, *missing],
        docs=docs[:LISTED],
        docs_count=len(docs),
    )


@router.get(f"/{FOLDER}/{{name}}", response_class=HTMLResponse)
def data_docs(found: ReadableTable, name: str) -> HTMLResponse:
    """A page of Great Expectations' Data Docs. Only names that the index knows are read."""
    store = found.registry.store
    if name != "index.html" and name not in {p.name for p in pages(store)}:
        raise HTTPException(404, f"There is no page {name!r} in the Data Docs.")
    try:
        return document(store.read(f"{FOLDER}/{name}"))
    except FileNotFoundError:
        raise HTTPException(404, "There are no Data Docs yet: no gate has run.") from None
