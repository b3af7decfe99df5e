"""The two forms that move state: rebalance and roll back. Each shows first what it would do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from evenkeel.history import past
from evenkeel.pages import read_bytes
from evenkeel.params import Params
from evenkeel.planning import decision_for, plan_back, plan_next
from evenkeel.standing import Learned, newest_profile
from evenkeel.table import Table
from partitioning.errors import EvenkeelError, InputError
from partitioning.plan import Plan
from partitioning.strategies import WHOLE
from plugins import runs
from plugins.access import (
    REBALANCE,
    ROLL_BACK,
    DagAccessEntity,
    ReadableTable,
    User,
    form_token,
    may,
    own_form,
    table_to_run,
)
from plugins.plans import MOST, NUMBERED, told
from plugins.tables import EPOCHS_BY
from plugins.web import page, sort

#: Moves and epochs at first sight.
LISTED, EPOCHS = 20, 12
#: What a page may be asked for beside: by what it sorts, and whether it shows all.
SHOWN = ("moves", "epochs", "every")
SWITCHES = ("relearn", "dry_run", "force")
#: What a form may say of a switch; a typing error must not make a dry run a real one.
SAID = dict.fromkeys(("true", "on", "yes"), True) | dict.fromkeys(("false", "off", "no", ""), False)
router = APIRouter(prefix="/tables/{table}", tags=["forms"])


async def fields(request: Request) -> dict[str, str]:
    """What the form says: of the query where it asks for a preview, else of the body."""
    given = request.query_params if request.method == "GET" else await request.form()
    values = {n: value if isinstance(value, str) else "a file" for n, value in given.items()}
    request.state.asked = {n: v for n, v in values.items() if n not in ("csrf", "sure")}
    return values


Fields = Annotated[dict[str, str], Depends(fields)]


@router.get("/rebalance", response_class=HTMLResponse)
def rebalance_form(
    request: Request, found: ReadableTable, user: User, session: SessionDep, given: Fields
) -> HTMLResponse:
    """The form, and what a run with these fields would do, from the stored profile."""
    return _rebalance(request, found, user, session, given)


@router.post("/rebalance", dependencies=[Depends(own_form)], response_class=HTMLResponse)
def rebalance(
    request: Request,
    found: Annotated[Table, Depends(table_to_run(REBALANCE))],
    user: User,
    session: SessionDep,
    given: Fields,
) -> Response:
    """Start the table's rebalance DAG with these Params."""
    params, problems = read_params(given)
    if params is None:
        return _rebalance(request, found, user, session, given, problems)
    asked = params.model_dump(mode="json", exclude_defaults=True)
    return _started(session, request, user, f"{REBALANCE}{found.spec.table}", asked)


@router.get("/rollback", response_class=HTMLResponse)
def roll_back_form(
    request: Request, found: ReadableTable, user: User, session: SessionDep, given: Fields
) -> HTMLResponse:
    """Which epochs there are to go back to; of the one asked for, what would move."""
    return _roll_back(request, found, user, session, given)


@router.post("/rollback", dependencies=[Depends(own_form)], response_class=HTMLResponse)
def roll_back(
    request: Request,
    found: Annotated[Table, Depends(table_to_run(ROLL_BACK))],
    user: User,
    session: SessionDep,
    given: Fields,
) -> Response:
    """Start the table's roll back DAG, once it is asked for twice."""
    epoch = found.registry.epoch(_number(given.get("epoch", "")))
    values, wrong = _read_way_back(given)
    if epoch.number == found.registry.current().number:
        raise InputError(f"epoch {epoch.number} is the current one", found.spec.table)
    if not wrong and not values["sure"]:
        wrong = {"sure": "Say that you have read what moves."}
    if wrong:
        return _roll_back(request, found, user, session, given, wrong)
    asked = {"epoch": epoch.number, "dry_run": values["dry_run"]}
    return _started(session, request, user, f"{ROLL_BACK}{found.spec.table}", asked)


def read_form(
    given: Mapping[str, str], known: Iterable[str], switches: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The `known` fields of a form, its switches as booleans; and what is wrong with each field, ""
    for fields that there are not."""
    values: dict[str, Any] = {n: given[n].strip() for n in known if n in given}
    problems: dict[str, str] = {}
    for name in switches:
        said = values.get(name, "")
        values[name] = SAID.get(said, False)
        if said not in SAID:
            problems[name] = f"allowed: {', '.join(filter(None, SAID))} (got {said!r})"
    if others := sorted({*given} - {*known, *SHOWN, "csrf"}):
        problems[""] = f"There is no such field: {', '.join(map(repr, others))}."
    return values, problems


def read_params(given: Mapping[str, str]) -> tuple[Params | None, dict[str, str]]:
    """The Params that a form asks for, or what is wrong with each field."""
    values, problems = read_form(given, Params.model_fields, SWITCHES)
    for name in ("budget", "batch", "rate"):
        if values.get(name):
            try:
                values[name] = read_bytes(values[name])
            except InputError as error:
                problems[name] = f"{error.what} (got {values.pop(name)!r})"
    if weights := values.get("capacities"):
        values["capacities"] = [w for w in weights.replace(",", " ").split() if w]
    problems = {**Params.problems(values), **problems}
    return (None, problems) if problems else (Params.of(values), {})


def _rebalance(
    request: Request,
    found: Table,
    user: User,
    session: Session,
    given: Mapping[str, str],
    problems: dict[str, str] | None = None,
) -> HTMLResponse:
    params, wrong = read_params(given)
    wrong = problems or wrong
    preview: dict[str, Any] | None = None
    missing: list[str] = []
    if params is not None:
        try:
            preview = _listed(request, _preview(found, params, missing))
        except EvenkeelError as error:
            missing.append(str(error))
    dag = f"{REBALANCE}{found.spec.table}"
    return page(
        request,
        "rebalance.html.j2",
        422 if wrong else 200,
        table=found.spec.table,
        spec=found.spec,
        given=given,
        wrong=wrong,
        problems=missing,
        strategies=WHOLE,
        preview=preview,
        source=runs.source(session, user, found, preview and preview["learned"]),
        params=params,
        allowed=may(user, "POST", dag, DagAccessEntity.RUN),
        paused=runs.paused(session, dag),
        csrf=form_token(user),
        today=date.today().isoformat(),
    )


def _preview(found: Table, params: Params, problems: list[str]) -> dict[str, Any]:
    spec, registry = found.spec, found.registry
    epoch, learned = registry.current(), newest_profile(registry)
    profile, tables, row = learned.profile, learned.tables, learned.row
    decision = decision_for(spec, registry, epoch, profile, params)
    plan = plan_next(spec, registry, epoch, profile, params, tables, row, decision.worth)
    return {**_shown(found, plan, learned, problems), "decision": decision}


def _roll_back(
    request: Request,
    found: Table,
    user: User,
    session: Session,
    given: Mapping[str, str],
    wrong: dict[str, str] | None = None,
) -> HTMLResponse:
    registry = found.registry
    current = registry.current()
    wrong = wrong or _read_way_back(given)[1]
    preview = target = None
    missing: list[str] = []
    if given.get("epoch"):
        target = registry.epoch(_number(given["epoch"]))
        if target.number == current.number:
            missing.append(f"Epoch {target.number} is the current one.")
            target = None
        else:
            try:
                learned = newest_profile(registry)
                plan = plan_back(found.spec, current, learned.profile, target, learned.tables)
                preview = _listed(request, _shown(found, plan, learned, missing))
            except EvenkeelError as error:
                missing.append(str(error))
    earlier = [
        e for e in past(registry, None if _every(request) else EPOCHS) if e.number != current.number
    ]
    dag = f"{ROLL_BACK}{found.spec.table}"
    return page(
        request,
        "rollback.html.j2",
        422 if wrong else 200,
        table=found.spec.table,
        spec=found.spec,
        current=current,
        target=target,
        epochs=sort(request, earlier, EPOCHS_BY, "-number", "epochs"),
        epochs_count=current.number,
        preview=preview,
        source=runs.source(session, user, found, preview and preview["learned"]),
        problems=missing,
        wrong=wrong,
        given=given,
        allowed=may(user, "POST", dag, DagAccessEntity.RUN),
        paused=runs.paused(session, dag),
        csrf=form_token(user),
    )


def _read_way_back(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    return read_form(given, ("epoch", "sure", "dry_run"), ("sure", "dry_run"))


def _shown(found: Table, plan: Plan, learned: Learned, problems: list[str]) -> dict[str, Any]:
    return {**told(found.registry, plan, learned.profile, problems), "learned": learned}


def _listed(request: Request, preview: dict[str, Any]) -> dict[str, Any]:
    moves = sort(request, enumerate(preview["plan"].moves, 1), NUMBERED, "order", "moves")
    return {**preview, "moves": moves[: MOST if _every(request) else LISTED]}


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
