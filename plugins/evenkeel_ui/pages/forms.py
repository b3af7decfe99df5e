"""Serve the two forms that move state: rebalance and roll back. Each shows a preview first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from evenkeel.inspect.key_history import past
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.profiles import Learned, newest_profile
from evenkeel.runs.params import Throttling, requested_throttling
from evenkeel.runs.planning import decision_for, plan_back, plan_next
from evenkeel.spec.run_params import Params
from evenkeel.table import Table
from evenkeel_ui.access import (
    REBALANCE,
    ROLL_BACK,
    DagAccessEntity,
    OwnForm,
    ReadableTable,
    User,
    form_token,
    may,
    table_to_run,
)
from evenkeel_ui.airflow_runs import runs, stuck, undoers
from evenkeel_ui.pages.fields import fields, read_form, read_params
from evenkeel_ui.pages.plans import MAX_MOVES, NUMBERED, plan_values
from evenkeel_ui.pages.preview_stamp import identity, mismatch, stamp
from evenkeel_ui.pages.tables import EPOCHS_BY
from evenkeel_ui.web import page, sort
from partitioning.errors import DamagedError, EvenkeelError, InputError
from partitioning.planning.plan import Plan
from partitioning.strategies import PRODUCTION

#: Moves and epochs at first sight.
FORM_MOVES, FORM_EPOCHS = 20, 12
router = APIRouter(prefix="/tables/{table}", tags=["forms"])
Fields = Annotated[dict[str, str], Depends(fields)]


@router.get("/rebalance", response_class=HTMLResponse)
def rebalance_form(
    request: Request, found: ReadableTable, user: User, session: SessionDep, given: Fields
) -> HTMLResponse:
    """Show the form, and a preview of a run with these fields from the stored profile."""
    return _rebalance(request, found, user, session, given)


@router.post("/rebalance", response_class=HTMLResponse)
def rebalance(
    request: Request,
    found: Annotated[Table, Depends(table_to_run(REBALANCE))],
    user: User,
    session: SessionDep,
    given: Fields,
    _: OwnForm,
) -> Response:
    """Start the table's rebalance DAG with these Params."""
    params, problems = read_params(given)
    if params is None:
        return _rebalance(request, found, user, session, given, problems)
    asked = _changed_params(params)
    preview = _next_preview(found, params, [])
    dag, move = f"{REBALANCE}{found.spec.table}", stuck.open_move(session, user, found)
    with stuck.one_press(session, move.table):
        stale = _cannot(session, user, dag, move) or mismatch(
            _sent(request), asked, preview and preview["identity"], params.dry_run
        )
        if not stale:
            return _started(session, request, user, dag, asked)
    return _rebalance(request, found, user, session, given, stale=stale)


@router.get("/rollback", response_class=HTMLResponse)
def roll_back_form(
    request: Request, found: ReadableTable, user: User, session: SessionDep, given: Fields
) -> HTMLResponse:
    """Show the earlier epochs, and a preview of going back to the chosen one."""
    return _roll_back(request, found, user, session, given)


@router.post("/rollback", response_class=HTMLResponse)
def roll_back(
    request: Request,
    found: Annotated[Table, Depends(table_to_run(ROLL_BACK))],
    user: User,
    session: SessionDep,
    given: Fields,
    _: OwnForm,
) -> Response:
    """Start the table's roll-back DAG, if the user has confirmed it."""
    epoch = found.registry.epoch(_number(given.get("epoch", "")))
    values, wrong = _read_way_back(given)
    if epoch.number == found.registry.current().number:
        raise InputError(
            f"epoch {epoch.number} is the current one", found.spec.table, "Name an earlier one"
        )
    # Without a preview there is nothing to have read, and only a dry run may start.
    preview = _back_preview(found, epoch, [])
    if not wrong and preview and not values["sure"]:
        wrong = {"sure": "Say that you have read what moves."}
    if wrong:
        return _roll_back(request, found, user, session, given, wrong)
    asked = {"epoch": epoch.number, "dry_run": values["dry_run"]}
    seen = {"epoch": epoch.number}  # The switches are on the posted form, not in its preview.
    dag, move = f"{ROLL_BACK}{found.spec.table}", stuck.open_move(session, user, found)
    with stuck.one_press(session, move.table):
        stale = _cannot(session, user, dag, move) or mismatch(
            _sent(request), seen, preview and preview["identity"], values["dry_run"]
        )
        if not stale:
            if values["pause"] and not values["dry_run"]:
                undoing = undoers.undoers(session, user, found.spec, preview)
                undoers.pause_offered(session, user, undoing)
            return _started(session, request, user, dag, asked)
    return _roll_back(request, found, user, session, given, stale=stale)


def _rebalance(
    request: Request,
    found: Table,
    user: User,
    session: Session,
    given: Mapping[str, str],
    problems: dict[str, str] | None = None,
    stale: str | None = None,
) -> HTMLResponse:
    params, wrong = read_params(given)
    wrong = problems or wrong
    missing: list[str] = []
    preview = None if params is None else _next_preview(found, params, missing)
    dag = f"{REBALANCE}{found.spec.table}"
    return page(
        request,
        "rebalance.html.j2",
        422 if wrong else 409 if stale else 200,
        table=found.spec.table,
        spec=found.spec,
        stale=stale,
        stamp=params and stamp(_changed_params(params), preview and preview["identity"]),
        given=given,
        wrong=wrong,
        problems=missing,
        strategies=PRODUCTION,
        preview=preview and _listed(request, preview),
        source=runs.source(session, user, found, preview and preview["learned"]),
        params=params,
        allowed=may(user, "POST", dag, DagAccessEntity.RUN),
        blocked=stuck.why_no_start(session, user, found, dag),
        paused=runs.paused(session, dag),
        csrf=form_token(user),
        today=datetime.now(UTC).date().isoformat(),
    )


def _next_preview(found: Table, params: Params, missing: list[str]) -> dict[str, Any] | None:
    """Return a preview of a run, or None and the reason in `missing`."""
    spec, registry = found.spec, found.registry
    try:
        epoch, learned = registry.current(), newest_profile(registry)
        profile, tables, row = learned.profile, learned.tables, learned.row
        decision = decision_for(spec, registry, epoch, profile, params)
        plan = plan_next(spec, registry, epoch, profile, params, tables, row, decision.worth)
        limits = requested_throttling(spec, params)
        return {**_shown(found, plan, learned, limits, missing), "decision": decision}
    except EvenkeelError as error:
        missing.append(str(error))
        return None


def _back_preview(found: Table, target: Epoch, missing: list[str]) -> dict[str, Any] | None:
    """Return a preview of going back to an epoch, or None and the reason in `missing`."""
    registry = found.registry
    try:
        learned = newest_profile(registry)
        profile, tables, row = learned.profile, learned.tables, learned.row
        plan = plan_back(found.spec, registry.current(), profile, target, tables, row)
        return _shown(found, plan, learned, requested_throttling(found.spec, Params()), missing)
    except EvenkeelError as error:
        missing.append(str(error))
        return None


def _cannot(session: Session, user: User, dag: str, move: stuck.OpenMove) -> str | None:
    why = stuck.blocked(session, user, dag, move)
    return f"Nothing was started: {' '.join(why)}" if why else None


def _changed_params(params: Params) -> dict[str, Any]:
    """Return the Params of a run that differ from their defaults, as JSON values."""
    return params.model_dump(mode="json", exclude_defaults=True)


def _sent(request: Request) -> str:
    """Return the stamp of the preview that the Start button belonged to."""
    return request.query_params.get("previewed", "")


def _roll_back(
    request: Request,
    found: Table,
    user: User,
    session: Session,
    given: Mapping[str, str],
    wrong: dict[str, str] | None = None,
    stale: str | None = None,
) -> HTMLResponse:
    registry = found.registry
    wrong = wrong or _read_way_back(given)[1]
    preview = target = None
    missing: list[str] = []
    newest = (registry.numbers() or [registry.current().number])[-1]
    current = _whole(registry, newest, missing)
    if given.get("epoch"):
        target = _whole(registry, _number(given["epoch"]), missing)
        if target and target.number == newest:
            missing.append(f"Epoch {target.number} is the current one.")
        if target is None or current is None or target.number == newest:
            target = None
        else:
            preview = _back_preview(found, target, missing)
    known = past(registry, None if _every(request) else FORM_EPOCHS)
    earlier = [e for e in known if e.number != newest]
    dag = f"{ROLL_BACK}{found.spec.table}"
    return page(
        request,
        "rollback.html.j2",
        422 if wrong else 409 if stale else 200,
        table=found.spec.table,
        spec=found.spec,
        stale=stale,
        stamp=target and stamp({"epoch": target.number}, preview and preview["identity"]),
        current=newest,
        target=target,
        epochs=sort(request, earlier, EPOCHS_BY, "-number", "epochs"),
        epochs_count=newest,
        undoers=undoers.undoers(session, user, found.spec, preview),
        preview=preview and _listed(request, preview),
        source=runs.source(session, user, found, preview and preview["learned"]),
        problems=missing,
        wrong=wrong,
        given=given,
        allowed=may(user, "POST", dag, DagAccessEntity.RUN),
        blocked=stuck.why_no_start(session, user, found, dag),
        paused=runs.paused(session, dag),
        csrf=form_token(user),
    )


def _whole(registry: Registry, number: int, missing: list[str]) -> Epoch | None:
    """Return the epoch; None if its file is damaged, with the way out in `missing`."""
    try:
        return registry.epoch(number)
    except DamagedError as error:
        way = "choose another epoch, or bring the file back"
        if number == registry.numbers()[-1]:
            way = "it is the current one, so no way back can be planned until the file is back"
        missing.append(f"epoch {number} is torn ({error}): {way}")
        return None


def _read_way_back(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    return read_form(given, ("epoch", "sure", "dry_run", "pause"), ("sure", "dry_run", "pause"))


def _shown(
    found: Table, plan: Plan, learned: Learned, limits: Throttling, problems: list[str]
) -> dict[str, Any]:
    shown = plan_values(found, plan, learned.profile, limits, problems, footer=learned.footer)
    return {**shown, "learned": learned, "identity": identity(found.spec, plan, learned.profile)}


def _listed(request: Request, preview: dict[str, Any]) -> dict[str, Any]:
    moves = sort(request, enumerate(preview["plan"].moves, 1), NUMBERED, "order", "moves")
    return {**preview, "moves": moves[: MAX_MOVES if _every(request) else FORM_MOVES]}


def _every(request: Request) -> bool:
    return request.query_params.get("every") == "true"


def _started(
    session: Session, request: Request, user: User, dag: str, asked: Mapping[str, Any]
) -> Response:
    run = runs.start(session, request, user, dag, asked)
    home = request.url.path.rsplit("/", 1)[0]
    return RedirectResponse(f"{home}/runs/{run}", 303)


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 8:
        raise HTTPException(404, f"There is no epoch {text!r}.")
    return int(text)
