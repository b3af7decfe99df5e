"""Show data quality: a run's expectations, their history over epochs, and Data Docs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from evenkeel.quality.data_docs import Page, pages
from evenkeel.quality.history import History, gates, over_epochs
from evenkeel.registry.files.outcome_records import ExpectationRecord, GateRecord
from evenkeel.registry.files.run_files import DATA_DOCS
from evenkeel.registry.profiles import run_names
from evenkeel_ui.access import ReadableTable, User
from evenkeel_ui.airflow_runs import runs
from evenkeel_ui.web import document, page, sort
from partitioning.errors import EvenkeelError

#: Most epochs side by side, runs to choose from, and validations in the list.
EPOCHS_COMPARED, RUNS, VALIDATIONS_LISTED = 8, 50, 50
router = APIRouter(prefix="/tables/{table}", tags=["pages"])


@router.get("/quality", response_class=HTMLResponse)
def quality(
    request: Request,
    found: ReadableTable,
    user: User,
    session: SessionDep,
    run: str = "",
    every: bool = False,
) -> HTMLResponse:
    """Show a run's expectations with observed values, and each expectation over epochs."""
    registry = found.registry
    there = run_names(registry)
    if run and run not in there:
        raise HTTPException(404, f"There is no run {run!r} of {found.spec.table}.")
    names = runs.visible(session, user, found, there)
    if run and run not in names:
        raise HTTPException(403, "You may not see this run. Airflow's rights decide.")
    problems: list[str] = []
    shown: dict[str, GateRecord] = {}
    for name in [run] if run else names[:RUNS]:
        try:
            shown, run = gates(registry.run(name)), name
        except EvenkeelError as error:
            problems.append(str(error))
        if shown:
            break
    try:
        numbers = registry.numbers()[::-1]
    except EvenkeelError as error:
        numbers = []
        problems.append(str(error))
    shown_numbers = numbers if every else numbers[:EPOCHS_COMPARED]
    history, missing = over_epochs(registry, shown_numbers)
    every_doc = pages(registry.store)
    told = {*runs.visible(session, user, found, {doc.run for doc in every_doc})}
    docs = [doc for doc in every_doc if doc.run in told]
    return page(
        request,
        "quality.html.j2",
        table=found.spec.table,
        run=run,
        runs=names[:RUNS],
        gates={
            suite: gate.model_copy(
                update={"results": sort(request, gate.results, RESULTS, "", suite)}
            )
            for suite, gate in shown.items()
        },
        numbers=shown_numbers,
        numbers_count=len(numbers),
        history=sort(request, history, _history_by(shown_numbers), "", "epochs"),
        problems=[*problems, *missing],
        docs=sort(request, docs, DOCS, "-when", "docs")[:VALIDATIONS_LISTED],
        docs_count=len(docs),
        every_doc=len(docs) == len(every_doc),
    )


def _verdict(result: ExpectationRecord) -> int:
    """Return the rank of a result: failures first, then warnings."""
    return 2 if result.success else int(not result.fails_gate)


def _observed(result: ExpectationRecord) -> tuple[bool, Any]:
    """Return a sort key: numbers by value, then other values as text."""
    seen = result.observed
    number = isinstance(seen, int | float)
    return (not number, seen if number else str(seen))


#: Column -> sort key; "" keeps the order of the gate.
RESULTS: dict[str, Callable[[ExpectationRecord], Any]] = {
    "": lambda result: 0,
    "verdict": _verdict,
    "what": lambda result: result.what,
    "observed": _observed,
}
DOCS: dict[str, Callable[[Page], Any]] = {
    "when": lambda doc: (doc.when, doc.name),
    "suite": lambda doc: doc.suite,
    "verdict": lambda doc: doc.passed,
    "run": lambda doc: doc.run,
}


def _history_by(numbers: Sequence[int]) -> dict[str, Callable[[History], Any]]:
    def of_epoch(place: int) -> Callable[[History], Any]:
        return lambda row: (found := row.results[place]) and (_verdict(found), _observed(found))

    first: dict[str, Callable[[History], Any]] = {"": lambda row: 0, "what": lambda row: row.what}
    return first | {str(n): of_epoch(place) for place, n in enumerate(numbers)}


@router.get(f"/{DATA_DOCS}/{{name}}", response_class=HTMLResponse)
def data_docs(
    request: Request, found: ReadableTable, user: User, session: SessionDep, name: str
) -> HTMLResponse:
    """Return a page of Great Expectations' Data Docs; only names in the index are read."""
    store = found.registry.store
    known = {p.name: p.run for p in pages(store)}
    if name != "index.html" and name not in known:
        raise HTTPException(404, f"There is no page {name!r} in the Data Docs.")
    # The index page names all runs.
    about = {*known.values()} if name == "index.html" else {known[name]}
    if len(runs.visible(session, user, found, about)) < len(about):
        raise HTTPException(
            403, "This page names runs that you may not see. Airflow's rights decide."
        )
    try:
        home = request.url.path.rsplit(f"/{DATA_DOCS}/", 1)[0]
        links = {found.spec.table: home, "Data quality": f"{home}/quality"}
        return document(request, store.read(f"{DATA_DOCS}/{name}"), links)
    except FileNotFoundError:
        raise HTTPException(404, "There are no Data Docs yet: no checks have run.") from None
