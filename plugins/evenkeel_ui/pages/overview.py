"""Show all tables on one page, those that need somebody first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from evenkeel.registry.epochs import Registry
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_ui.access import (
    REBALANCE,
    DagAccessEntity,
    User,
    form_token,
    may,
    nameable,
    readable_dags,
)
from evenkeel_ui.airflow_runs import misplaced, stuck, triage
from evenkeel_ui.airflow_runs.task_error import error_line, why_no_error
from evenkeel_ui.spec_folders import tables_with_dags
from evenkeel_ui.statuses import STATUSES, TableRow
from evenkeel_ui.web import page, sort
from partitioning.errors import EvenkeelError

#: Tables and runs shown at first.
TABLES_AT_FIRST, RUNS_AT_FIRST = 200, 10
#: Failed runs whose errors one page reads: those that need attention, and older ones.
FAILURES_READ, OLDER_READ = 5, 10
#: Every status that a table can have, worst first, with the tone in which it is shown.
STATES = {
    "half-moved": "bad",
    "maybe misplaced": "bad",
    "failed": "bad",
    "cannot be read": "bad",
    "waits for you": "warn",
    "spec wrong": "bad",
    "over trigger": "warn",
    "waits for somebody": "warn",
    "moving": "warn",
    "not read yet": "note",
    "not measured": "note",
    "fine": "good",
}
_WORST = {state: place for place, state in enumerate(STATES)}
router = APIRouter(tags=["pages"])


@dataclass(frozen=True)
class Line:
    """A line of the overview: a table, or a spec that is wrong.

    Parameters
    ----------
    state : one of `STATES`
    since : when the state began; for a table over the trigger, the end of its first such window
    row : figures of the table; None: its spec is wrong
    told : what is wrong with it, one text each
    next : time of its next rebalance, or why no time is known
    seen : `since` is when the state was first seen: it may have begun before
    """

    name: str
    state: str
    since: datetime | str | None
    row: TableRow | None
    told: tuple[str, ...] = ()
    next: datetime | str | None = None
    seen: bool = False

    @property
    def tone(self) -> str:
        """Tone in which the state is shown."""
        return STATES[self.state]


@router.get("/", response_class=HTMLResponse)
def overview(
    request: Request,
    user: User,
    session: SessionDep,
    q: str = "",
    state: str = "",
    every: bool = False,
    every_run: bool = False,
) -> HTMLResponse:
    """Show the tables that the user may read, worst first: state, balance, next run, checks."""
    found = tables_with_dags()
    dags = readable_dags(user, [f"{REBALANCE}{s.table}" for s in found.specs.values()])
    specs = [s for s in found.specs.values() if f"{REBALANCE}{s.table}" in dags]
    recent = triage.recent(session, user, [s.table for s in specs], 1, dags)
    pressing = triage.pressing(session, recent)
    rows = STATUSES.rows(specs, urgent={run.table for run in pressing})
    halves = [h for r in rows if (h := stuck.stuck_table(session, user, Table(r.spec), r.half))]
    shown_runs = pressing if every_run else pressing[:RUNS_AT_FIRST]
    errors = _errors(session, user, rows, pressing, recent)
    wandered = misplaced.misplaced_tables(session, rows, recent, errors)
    following = next_runs([row.spec for row in rows])
    # Errors of specs name files: show them only to users who may see DAGs, as Airflow does.
    wrong = found.problems if may(user, "GET", None) else ()
    lines = [*_lines(user, rows, pressing, halves, wandered, following), *map(_wrong, wrong)]
    counts = {s: sum(line.state == s for line in lines) for s in STATES}
    shown = [x for x in lines if q.lower() in x.name.lower() and state in ("", x.state)]
    shown = sort(request, sorted(shown, key=lambda x: x.name), COLUMNS, "state")
    return page(
        request,
        "overview.html.j2",
        stuck=halves,
        pressing=shown_runs,
        pressing_count=len(pressing),
        errors=errors,
        no_error=why_no_error(user, shown_runs, errors),
        today=datetime.now(UTC).date().isoformat(),
        scheduler=stuck.scheduler_alive(session),
        csrf=form_token(user),
        table=None,
        named={row.name: nameable(user, row.name, _failed_in(row)) for row in rows},
        lines=shown if every else shown[:TABLES_AT_FIRST],
        shown_count=len(shown),
        counts=counts,
        unread=sum(row.read is None for row in rows),
        q=q,
        state=state,
    )


def _lines(
    user: User,
    rows: Iterable[TableRow],
    pressing: Iterable[triage.RunRow],
    halves: Iterable[stuck.Stuck],
    wandered: Mapping[str, misplaced.Misplaced],
    following: Mapping[str, datetime | str],
) -> list[Line]:
    runs: dict[str, list[triage.RunRow]] = {}
    for run in pressing:
        runs.setdefault(run.table, []).append(run)
    half = {h.table: h for h in halves}
    return [
        Line(
            row.name,
            state,
            since,
            row,
            row.problems,
            following.get(row.name, "when asked"),
            state == "cannot be read",
        )
        for row in rows
        for state, since in [
            _state(user, row, half.get(row.name), wandered.get(row.name), runs.get(row.name, ()))
        ]
    ]


def _state(
    user: User,
    row: TableRow,
    half: stuck.Stuck | None,
    wandered: misplaced.Misplaced | None,
    runs: Sequence[triage.RunRow],
) -> tuple[str, datetime | str | None]:
    """Return the worst state that holds, and since when; None: not known.

    Parameters
    ----------
    half : the table is half moved, and no run works on it
    wandered : its rows may be misplaced
    runs : those that need attention
    """
    failed = [r for r in runs if r.state == "failed"]
    waiting = [r for r in runs if r.waits]
    movers = [r for r in runs if r.goes_on and r.dag.startswith(triage.MOVERS)]
    if half is not None:
        return "half-moved", half.since
    if wandered is not None:
        return "maybe misplaced", wandered.since
    if failed:
        return "failed", min((r.ended for r in failed if r.ended), default=None)
    if row.unreadable:
        return "cannot be read", row.since
    if waiting:
        yours = any(may(user, "PUT", r.dag, DagAccessEntity.HITL_DETAIL) for r in waiting)
        began = min((r.started for r in waiting if r.started), default=None)
        return "waits for you" if yours else "waits for somebody", began
    if movers:
        return "moving", min((r.started for r in movers if r.started), default=None)
    if row.imbalance is None:
        return "not measured" if row.read else "not read yet", None
    return ("over trigger", row.over_since) if row.over else ("fine", None)


def _errors(
    session: SessionDep,
    user: User,
    rows: Iterable[TableRow],
    pressing: Iterable[triage.RunRow],
    recent: Iterable[triage.RunRow],
) -> dict[tuple[str, str], str | None]:
    """Return (DAG, run) -> error line of the first runs that have one; logs can be slow.

    Besides those that need attention these are others that may tell of misplaced rows.
    """
    found = {row.name: row for row in rows}
    failed = [r for r in pressing if r.error_task is not None]
    first = {(r.dag, r.run) for r in failed}
    others = [
        r
        for r in recent
        if (r.dag, r.run) not in first
        and r.error_task is not None
        and misplaced.suspect_runs([r], found[r.table].gates)
    ]
    return {
        (r.dag, r.run): error_line(
            session, user, Registry(found[r.table].spec.registry), r.dag, r.run, r.error_task
        )
        for r in [*failed[:FAILURES_READ], *others[:OLDER_READ]]
    }


def _failed_in(row: TableRow) -> list[str]:
    """Return the runs whose checks failed, if these are the newest of their suite."""
    return [gate.run for gate in row.gates if not gate.passed]


def _wrong(problem: EvenkeelError) -> Line:
    """Return the line of a spec that is wrong: name of its file, and when that changed last."""
    file = Path(str(problem.where or "a spec"))
    try:
        changed = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except OSError:
        changed = None
    return Line(file.name, "spec wrong", changed, None, (str(problem),))


def _of(get: Callable[[TableRow], Any]) -> Callable[[Line], Any]:
    """Return a sort key of a line from one of its row; a line without a row has none."""
    return lambda line: None if line.row is None else get(line.row)


def _next(line: Line) -> tuple[bool, Any] | None:
    """Sort moments first, then runs without a schedule."""
    return None if line.next is None else (isinstance(line.next, str), line.next)


#: Column -> sort key.
COLUMNS: dict[str, Callable[[Line], Any]] = {
    "state": lambda line: _WORST[line.state],
    "table": lambda line: line.name,
    "epoch": _of(lambda row: row.epoch),
    "imbalance": _of(lambda row: row.imbalance),
    "trigger": _of(lambda row: row.spec.trigger),
    "floor": _of(lambda row: row.floor),
    "fullest": _of(lambda row: row.share),
    "rebalanced": _of(lambda row: row.published),
    "moved": _of(lambda row: row.planned),
    "size": _of(lambda row: row.state),
    "updated": _of(lambda row: row.updated),
    "next": _next,
    # Failed checks come first.
    "gates": _of(lambda row: all(gate.passed for gate in row.gates) if row.gates else None),
}


def next_runs(specs: Iterable[TableSpec]) -> dict[str, datetime | str]:
    """Return table -> time of its next rebalance, or why no time is known."""
    if not conf.getboolean("scheduler", "use_job_schedule", fallback=True):
        return {}
    dags = {f"{REBALANCE}{s.table}": s for s in specs}
    with create_session() as session:
        found = session.execute(
            select(DagModel.dag_id, DagModel.next_dagrun_create_after, DagModel.is_paused).where(
                DagModel.dag_id.in_(dags)
            )
        )
        return {
            dags[name].table: "paused" if paused else moment or _untimed(dags[name])
            for name, moment, paused in found
        }


def _untimed(spec: TableSpec) -> str:
    asked = spec.schedule is None or isinstance(spec.schedule, str)
    return "when asked" if asked else "when its assets are updated"
