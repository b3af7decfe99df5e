"""Show all tables on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from evenkeel.inspect.status import TableStatus, table_status
from evenkeel.table import Table
from evenkeel_ui.access import REBALANCE, User, catalog, form_token, may
from evenkeel_ui.pages import triage
from evenkeel_ui.web import page, sort

router = APIRouter(tags=["pages"])


@router.get("/", response_class=HTMLResponse)
def overview(request: Request, user: User, session: SessionDep) -> HTMLResponse:
    """Show the tables that the user may read: epoch, imbalance, last rebalance, next run, gates."""
    found = catalog()
    rows = [
        table_status(Table(spec))
        for spec in found.specs.values()
        if may(user, "GET", f"{REBALANCE}{spec.table}")
    ]
    following = next_runs([row.table.spec.table for row in rows])
    rows = sort(request, rows, columns(following), "table")
    # Errors of specs name files: show them only to users who may see DAGs, as Airflow does.
    wrong = found.problems if may(user, "GET", None) else ()
    recent = triage.recent(session, user, (row.table.spec.table for row in rows), 1)
    halves = (triage.stuck(session, user, r.table.spec.table, r.half) for r in rows if r.half)
    return page(
        request,
        "overview.html.j2",
        stuck=[half for half in halves if half],
        pressing=triage.pressing(recent),
        scheduler=triage.scheduler_alive(session),
        csrf=form_token(user),
        table=None,
        rows=rows,
        next_runs=following,
        problems=[*map(str, wrong), *(p for row in rows for p in row.problems)],
    )


#: Column -> sort key.
COLUMNS: dict[str, Callable[[TableStatus], Any]] = {
    "table": lambda row: row.table.spec.table,
    "epoch": lambda row: row.epoch and row.epoch.number,
    "imbalance": lambda row: row.imbalance,
    "trigger": lambda row: row.table.spec.trigger,
    "floor": lambda row: row.floor,
    "hottest": lambda row: row.shares and row.shares[row.hottest],
    "rebalanced": lambda row: row.epoch and row.epoch.published,
    "moved": lambda row: row.plan and row.plan.bytes,
    "state": lambda row: row.learned and float(row.learned.profile.bytes.sum()),
    # Failed gates come first.
    "gates": lambda row: all(gate.passed for gate in row.gates) if row.gates else None,
}


def columns(following: Mapping[str, datetime | str]) -> dict[str, Callable[[TableStatus], Any]]:
    """Return column -> sort key, with next runs: moments first, then runs without a schedule."""

    def run(row: TableStatus) -> tuple[bool, Any] | None:
        told = following.get(row.table.spec.table)
        return None if told is None else (isinstance(told, str), told)

    return {**COLUMNS, "next": run}


def next_runs(tables: list[str]) -> dict[str, datetime | str]:
    """Return table -> time of its next rebalance, or why none is scheduled."""
    if not conf.getboolean("scheduler", "use_job_schedule", fallback=True):
        return {}
    dags = {f"{REBALANCE}{table}": table for table in tables}
    with create_session() as session:
        found = session.execute(
            select(DagModel.dag_id, DagModel.next_dagrun_create_after, DagModel.is_paused).where(
                DagModel.dag_id.in_(dags)
            )
        )
        return {
            dags[name]: "paused" if paused else moment or "when asked"
            for name, moment, paused in found
        }
