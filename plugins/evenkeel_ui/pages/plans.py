"""Show a run's plan: its moves, reasons and price; and take a person's answer to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from evenkeel.inspect.half_moved import HalfMoved, half_moved_in
from evenkeel.pipeline import steps
from evenkeel.registry.epochs import Registry
from evenkeel.registry.run_folder import RunFolder
from evenkeel.runs.params import Throttling, throttle_for
from evenkeel.runs.record import RunParts, headline, read_run
from evenkeel.runs.report import channel_names, pictures, plan_facts
from evenkeel.runs.timings import Price, price
from evenkeel.table import Table
from evenkeel_ui.access import (
    REBALANCE,
    DagAccessEntity,
    ReadableTable,
    User,
    form_token,
    may,
    own_form,
    require,
)
from evenkeel_ui.pages import runs, triage
from evenkeel_ui.web import document, page, sort
from partitioning.errors import EvenkeelError
from partitioning.planning.plan import Plan
from partitioning.planning.rejected_moves import rejected
from partitioning.workload.profile import Profile

#: Moves shown at first, and most moves of a page.
FIRST, MOST = 100, 20_000
#: By what moves are sorted; those of a plan also by their place in it, which stands before each.
MOVED = {name: attrgetter(name) for name in ("name", "source", "target", "load", "bytes")}
NUMBERED = {"order": itemgetter(0)} | {
    n: partial(lambda get, row: get(row[1]), get) for n, get in MOVED.items()
}
#: What an answer may hold.
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
    shown = _shown(request, found, folder, parts.plan, problems, MOST if every else FIRST)
    title, sentence, tone = headline(parts)
    half = _half(found, folder, problems)
    stuck = triage.stuck(session, user, table, half)
    if stuck is not None and parts.plan is not None:
        way = f"from epoch {parts.plan.parent_epoch} to epoch {parts.plan.function.epoch}"
        title, tone = f"{table} is half moved {way}", "bad"
    row = triage.row_of(table, known)
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
        stuck=stuck,
        moving=half,
        row=row,
        error=row and triage.error_line(session, user, row.dag, row.run, row.failed_task),
        may_stop=bool(known) and may(user, "PUT", known.dag, DagAccessEntity.RUN),
        # A report with an earlier answer would be wrong.
        has_report=folder.exists("report.html") and not (known and known.asked is not None),
        spec=found.spec,
        written=_written(parts),
        **shown,
    )


@router.get("/report", response_class=HTMLResponse)
def report(run: str, found: ReadableTable, user: User, session: SessionDep) -> HTMLResponse:
    """Return the report that the run wrote."""
    runs.find(session, user, found, run)
    return document(_folder(found, run, None).read("report.html"))


@router.post("/answer", dependencies=[Depends(own_form)], response_class=HTMLResponse)
def answer(
    request: Request,
    run: str,
    found: ReadableTable,
    user: User,
    session: SessionDep,
    names: Annotated[set[str], Depends(sent)],
    digest: Annotated[str, Form()] = "",
    decision: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """Approve or refuse the plan of that digest, and no other."""
    known = runs.find(session, user, found, run)
    # Check the right before the answer says anything about the run.
    dag = known.dag if known else f"{REBALANCE}{found.spec.table}"
    require(user, "PUT", dag, DagAccessEntity.HITL_DETAIL)
    if others := sorted(names - ANSWER):
        raise HTTPException(422, f"Unknown fields: {', '.join(map(repr, others))}.")
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


def told(
    registry: Registry,
    plan: Plan,
    profile: Profile | None,
    limits: Throttling,
    problems: list[str],
) -> dict[str, Any]:
    """Return what every page shows of a plan, in a preview and after a run."""
    cost = Price()
    try:
        cost = price(registry, plan, profile, limits)
    except EvenkeelError as error:
        problems.append(str(error))
    return {
        "plan": plan,
        "facts": plan_facts(plan),
        "price": cost,
        "pictures": pictures(plan),
        "names": channel_names(plan)[0],
    }


def _folder(found: Table, run: str, known: runs.AirflowRun | None) -> RunFolder:
    """Return the run's folder; raise 404 if neither the registry nor Airflow has such a run.

    Airflow may have a run that has written nothing yet. The name is compared, never used as a path.
    """
    if known is None and run not in found.registry.store.names("runs"):
        raise HTTPException(404, f"There is no run {run!r} of {found.spec.table}.")
    return found.registry.run(run)


def _limits(found: Table, folder: RunFolder, problems: list[str]) -> Throttling:
    try:
        return throttle_for(found.spec, folder)
    except EvenkeelError as error:
        problems.append(str(error))
        return Throttling()


def _shown(
    request: Request,
    found: Table,
    folder: RunFolder,
    plan: Plan | None,
    problems: list[str],
    most: int,
) -> dict[str, Any]:
    """Return what the page shows of the plan: its price, moves and rejected moves."""
    profile = _profile(folder, problems)
    if plan is None:
        return {"plan": None}
    return {
        **told(found.registry, plan, profile, _limits(found, folder, problems), problems),
        "moves": sort(request, enumerate(plan.moves, 1), NUMBERED, "order", "moves")[:most],
        "rejected": None
        if profile is None
        else sort(request, rejected(plan, profile), MOVED, "-load", "rejected"),
    }


def _written(parts: RunParts) -> dict[str, float] | None:
    """Return rows, bytes and seconds of all commits that moved rows; None if there are none."""
    tables = (parts.migration or {}).get("tables", {}).values()
    if not tables:
        return None
    return {n: sum(float(t.get(n) or 0) for t in tables) for n in ("rows", "bytes", "seconds")}


def _half(found: Table, folder: RunFolder, problems: list[str]) -> HalfMoved | None:
    try:
        return half_moved_in(found.registry, folder)
    except EvenkeelError as error:
        problems.append(str(error))
        return None


def _profile(folder: RunFolder, problems: list[str]) -> Profile | None:
    try:
        if folder.exists("profile.npz"):
            return Profile.from_bytes(folder.read("profile.npz"), f"{folder.url}/profile.npz")
    except EvenkeelError as error:
        problems.append(str(error))
    return None
