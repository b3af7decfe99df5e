"""Show a run's plan: its moves, reasons and price; and take a person's answer to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from evenkeel.inspect.half_moved import HalfMoved, find_half_moved
from evenkeel.pipeline import steps
from evenkeel.registry.files.migration_records import Prediction
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.runs.figures import break_even, figures, numbers
from evenkeel.runs.params import Throttling, throttle_for
from evenkeel.runs.prediction import predict
from evenkeel.runs.record import RunParts, headline, read_run
from evenkeel.runs.report import channel_names, pictures, plan_facts
from evenkeel.table import Table
from evenkeel_ui.access import (
    REBALANCE,
    DagAccessEntity,
    ReadableTable,
    Token,
    User,
    form_token,
    may,
    own_form,
    require,
)
from evenkeel_ui.airflow_runs import runs, stuck, triage
from evenkeel_ui.airflow_runs.task_error import error_line, why_no_error
from evenkeel_ui.pages.fields import check_known
from evenkeel_ui.web import document, page, sort
from partitioning.errors import EvenkeelError
from partitioning.planning.plan import Plan
from partitioning.planning.rejected_moves import rejected
from partitioning.workload.profile import Profile

#: Moves shown at first, and most moves of a page.
MOVES_SHOWN, MAX_MOVES = 100, 20_000
#: By what moves are sorted; those of a plan also by their place in it, which stands before each.
MOVED = {name: attrgetter(name) for name in ("name", "source", "target", "load", "bytes")}
NUMBERED = {"order": itemgetter(0)} | {
    n: partial(lambda get, row: get(row[1]), get) for n, get in MOVED.items()
}
#: Fields that an answer may have.
ANSWER = {"csrf", "digest", "decision"}
router = APIRouter(prefix="/tables/{table}/runs/{run}", tags=["pages"])


async def sent(request: Request) -> set[str]:
    """Return the names of the fields that a form sends."""
    return {*await request.form()}


@router.get("", response_class=HTMLResponse)
def plan_page(
    request: Request,
    run: str,
    found: ReadableTable,
    user: User,
    session: SessionDep,
    every: bool = False,
) -> HTMLResponse:
    """Show moves with reasons, rejected moves, the price, the digest and the answer."""
    table = found.spec.table
    known = runs.find(session, user, found, run)
    folder = _folder(found, run, known)
    problems: list[str] = []
    parts = RunParts(table=table, run=run)
    try:
        parts = read_run(table, found.registry, folder, problems)
    except EvenkeelError as error:
        problems.append(str(error))
    if known and known.asked is not None:
        # The run asks again, so an earlier answer no longer counts.
        parts = replace(parts, approval=None)
    shown = _shown(request, found, folder, parts, problems, MAX_MOVES if every else MOVES_SHOWN)
    title, sentence, tone = headline(parts, ended=known is None or not known.goes_on)
    half, known_half = _half(found, folder, problems)
    halted = stuck.stuck_table(session, user, found, half)
    if halted is not None and parts.plan is not None:
        way = f"from epoch {parts.plan.parent_epoch} to epoch {parts.plan.function.epoch}"
        title, tone = f"{table} is half moved {way}", "bad"
    errors = {}
    if row := triage.row_of(table, known):
        errors[row.dag, row.run] = error_line(
            session, user, found.registry, row.dag, row.run, row.error_task
        )
    return page(
        request,
        "plan.html.j2",
        table=table,
        run=run,
        known=known,
        parts=parts,
        problems=list(dict.fromkeys(problems)),
        title=title,
        sentence=sentence,
        tone=tone,
        may_answer=known is not None and may(user, "PUT", known.dag, DagAccessEntity.HITL_DETAIL),
        csrf=form_token(user),
        limit=found.spec.approve_over or 0,
        stuck=halted,
        left=_left(parts, half, known_half),
        row=row,
        error=row and errors[row.dag, row.run],
        no_error="".join(why_no_error(user, [row] if row else [], errors).values()),
        may_stop=bool(known) and may(user, "PUT", known.dag, DagAccessEntity.RUN),
        # A report with an earlier answer would be wrong.
        has_report=folder.report.exists() and not (known and known.asked is not None),
        spec=found.spec,
        **shown,
    )


@router.get("/report", response_class=HTMLResponse)
def report(
    request: Request, run: str, found: ReadableTable, user: User, session: SessionDep
) -> HTMLResponse:
    """Return the report that the run wrote."""
    known = runs.find(session, user, found, run)
    page_of_run = request.url.path.removesuffix("/report")
    table = page_of_run.rsplit("/runs/", 1)[0]
    links = {found.spec.table: table, f"Run {run}": page_of_run}
    written = _folder(found, run, known).report.read().to_bytes()
    return document(request, written, links)


@router.get("/figures.json")
def figures_json(run: str, found: ReadableTable, user: User, session: SessionDep) -> JSONResponse:
    """Return what the run was predicted to cost, and what it cost, as numbers."""
    known = runs.find(session, user, found, run)
    parts = read_run(found.spec.table, found.registry, _folder(found, run, known))
    digest = parts.plan.digest if parts.plan else None
    return JSONResponse({"plan": digest, "figures": numbers(parts.figures)})


@router.post("/answer", response_class=HTMLResponse)
def answer(
    request: Request,
    run: str,
    found: ReadableTable,
    user: User,
    session: SessionDep,
    names: Annotated[set[str], Depends(sent)],
    csrf: Token = "",
    digest: Annotated[str, Form()] = "",
    decision: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """Approve or refuse the plan of that digest, and no other."""
    known = runs.find(session, user, found, run)
    # Check the right before the answer says anything about the run.
    dag = known.dag if known else f"{REBALANCE}{found.spec.table}"
    require(user, "PUT", dag, DagAccessEntity.HITL_DETAIL)
    own_form(request, user, csrf)
    check_known(names, ANSWER)
    if known is None or known.asked is None:
        raise HTTPException(
            409, "This run is not waiting for approval: it was answered, or has ended."
        )
    if decision not in ("approve", "refuse"):
        raise HTTPException(422, "decision: allowed are approve and refuse.")
    made = steps.read_plan(_folder(found, run, known))
    # The page that was answered, the plan that is there, and what Airflow asks: one plan.
    if digest != made.digest or digest not in known.asked:
        raise HTTPException(
            409, "The plan is another one than on the page that you answered. Look at it again."
        )
    runs.answer(session, user, known, decision == "approve")
    return RedirectResponse(request.url.path.removesuffix("/answer"), 303)


def plan_values(
    found: Table,
    plan: Plan,
    profile: Profile | None,
    limits: Throttling,
    problems: list[str],
    parts: RunParts | None = None,
    footer: float | None = None,
) -> dict[str, Any]:
    """Return what every page shows of a plan, in a preview and after a run.

    Parameters
    ----------
    parts : what the run has left, with the prediction that it kept; None: a preview
    footer : bytes that a file of state takes beside its rows, for a preview; None: not known
    """
    kept = parts and parts.prediction
    cost: Prediction | None = kept
    try:
        cost = kept or predict(found.registry, plan, profile, limits, footer)
    except EvenkeelError as error:
        problems.append(str(error))
    return {
        "plan": plan,
        "facts": plan_facts(plan, found.spec.split is not None),
        "price": cost,
        "is_frozen": kept is not None,
        "figures": figures(plan, cost, parts and parts.migration),
        "pays": break_even(cost, found.spec.horizon),
        "pictures": pictures(plan),
        "names": channel_names(plan)[0],
    }


def _folder(found: Table, run: str, known: runs.AirflowRun | None) -> RunFiles:
    """Return the run's folder; raise 404 if neither the registry nor Airflow has such a run.

    Airflow may have a run that has written nothing yet. The name is compared, never used as a path.
    """
    if known is None and run not in found.registry.store.names("runs"):
        raise HTTPException(404, f"There is no run {run!r} of {found.spec.table}.")
    return found.registry.run(known.folder if known is not None else run)


def _limits(found: Table, folder: RunFiles, problems: list[str]) -> Throttling:
    try:
        return throttle_for(found.spec, folder)
    except EvenkeelError as error:
        problems.append(str(error))
        return Throttling()


def _shown(
    request: Request,
    found: Table,
    folder: RunFiles,
    parts: RunParts,
    problems: list[str],
    most: int,
) -> dict[str, Any]:
    """Return what the page shows of the plan: its price, moves and rejected moves."""
    profile, plan = _profile(folder, problems), parts.plan
    if plan is None:
        return {"plan": None}
    return {
        **plan_values(found, plan, profile, _limits(found, folder, problems), problems, parts),
        "moves": sort(request, enumerate(plan.moves, 1), NUMBERED, "order", "moves")[:most],
        "rejected": None
        if profile is None
        else sort(request, rejected(plan, profile), MOVED, "-load", "rejected"),
    }


def _half(found: Table, folder: RunFiles, problems: list[str]) -> tuple[HalfMoved | None, bool]:
    """Return what the run has half moved, and whether its files can say that."""
    try:
        return find_half_moved(found.registry, folder), True
    except EvenkeelError as error:
        problems.append(str(error))
        return None, False


def _left(parts: RunParts, half: HalfMoved | None, known: bool) -> str:
    """Say what the run leaves if it is stopped now."""
    if parts.published is not None:
        return f"Epoch {parts.published} is published: to stop the run does not take it back."
    if not known:
        return "Nobody knows whether rows have moved: a file of the run cannot be read."
    if half is not None:
        return "It leaves the table half moved: then undo it here, or let it go on."
    if parts.rolled_back and parts.started:
        return "All rows are moved back: to stop the run changes none of them."
    return "Nothing has moved yet."


def _profile(folder: RunFiles, problems: list[str]) -> Profile | None:
    try:
        return folder.profile.find()
    except EvenkeelError as error:
        problems.append(str(error))
    return None
