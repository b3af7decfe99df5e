"""Sort a table's runs: failed, waiting for a person, under way, others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.configuration import conf
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import case, or_, select
from sqlalchemy.orm import Session

from evenkeel.registry.run_folder import folder_name, safe_name
from evenkeel.render.formatting import seconds_text
from evenkeel_ui.access import (
    ADOPT,
    KINDS,
    PAGED,
    RELEASE,
    REPAIR,
    WATCH,
    readable_dags,
)
from evenkeel_ui.airflow_runs.newest import newest_successes, published_since, ranked_runs
from evenkeel_ui.airflow_runs.runs import ENDED, ORDER, AirflowRun
from evenkeel_ui.airflow_runs.windows import failed_windows
from evenkeel_ui.airflow_versions import WAITING
from evenkeel_ui.statuses import NEVER

#: Kinds of runs that move state: while one goes on, no other can start.
MOVERS = (*PAGED, REPAIR, ADOPT, RELEASE)
#: Runs of each DAG that a table's page lists; of every table, the overview asks for the newest.
RUNS_LISTED = 5
#: Newest failed runs of each DAG that are always asked for: the error of one that is not the newest
#: may still hold.
FAILED_LISTED = 3
#: State of roll_back -> what it adds to the result of a run that failed.
_UNDO = {"success": ", then roll_back ran", "failed": ", and rolling back failed"}


@dataclass(frozen=True)
class RunRow:
    """A run in Airflow.

    Parameters
    ----------
    tasks : task's id -> its state
    dry : it was asked to move nothing
    number : Airflow's, higher for newer runs
    """

    dag: str
    table: str
    run: str
    state: str
    started: datetime | None
    ended: datetime | None
    by: str | None
    tasks: Mapping[str, str | None]
    dry: bool = False
    number: int = 0

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return folder_name(self.dag, self.run)

    @property
    def names(self) -> set[str]:
        """Names that the folder may have: release 0.1.0 named it by the run alone."""
        return {self.name, safe_name(self.run)}

    @property
    def ours(self) -> bool:
        """Whether Evenkeel has a page for the run."""
        return self.dag.startswith(PAGED)

    @property
    def goes_on(self) -> bool:
        """Whether the run has not ended."""
        return self.state not in ENDED

    @property
    def only_tried(self) -> bool:
        """Whether it was a dry run that went well: it says nothing about runs before it."""
        return self.dry and self.state == "success"

    @property
    def waits(self) -> bool:
        """Whether the run waits for a person's approval."""
        return self.goes_on and self.tasks.get("approve") in WAITING

    @property
    def failed_task(self) -> str | None:
        """The task that failed first; `report` fails because another one did."""
        return self._first("failed")

    @property
    def retrying(self) -> str | None:
        """The task that failed and that Airflow will try again."""
        return self._first("up_for_retry")

    @property
    def error_task(self) -> str | None:
        """The task whose error says what to mend: roll_back, if that went wrong after another."""
        undo = self.tasks.get("roll_back") in ("failed", "up_for_retry")
        return "roll_back" if undo else self.failed_task or self.retrying

    def _first(self, state: str) -> str | None:
        order = [*ORDER, *(t for t in self.tasks if t not in ORDER)]
        return next((t for t in order if self.tasks.get(t) == state), None)

    @property
    def took(self) -> str:
        """Time that the run took so far, as text."""
        if self.started is None:
            return "–"
        return seconds_text(((self.ended or datetime.now(UTC)) - self.started).total_seconds())

    @property
    def result(self) -> str:
        """Result of the run by the states of its tasks, as text."""
        if self.waits:
            return "waits for approval"
        if self.goes_on:
            wrong = " and ".join(reversed(self.logs))
            after = f", after {wrong} failed" if self.failed_task else ""
            if (now := self._first("running")) is not None:
                return f"at {now}{after}"
            if self.retrying is not None:
                return f"retries {self.retrying} after an error"
            return f"waits for its turn{after}"
        if self.state == "failed":
            at = f"failed at {self.failed_task}" if self.failed_task else "was stopped"
            return at + _UNDO.get(self.tasks.get("roll_back") or "", "")
        if self.tasks.get("publish") == "success":
            return "published an epoch"
        if self.tasks.get("publish") == "skipped":
            return "nothing moved"
        return "done"

    @property
    def link(self) -> str:
        """URL of Airflow's page of the run."""
        return f"{airflow_home()}/dags/{quote(self.dag)}/runs/{quote(self.run, safe='')}"

    @property
    def logs(self) -> dict[str, str]:
        """URL of the log of each task that went wrong, that with the error first."""
        wrong = dict.fromkeys(t for t in (self.error_task, self.failed_task) if t)
        return {task: f"{self.link}/tasks/{task}" for task in wrong}


def airflow_home() -> str:
    """Return the path prefix of Airflow's own pages."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def recent(
    session: Session,
    user: BaseUser,
    tables: Iterable[str],
    count: int = RUNS_LISTED,
    known: Set[str] = frozenset(),
) -> list[RunRow]:
    """Return the newest `count` runs of each DAG that the user may read, and all active ones.

    However many came later, the newest `FAILED_LISTED` failed runs of each DAG are among them. So
    is the newest of the others that was no dry run, if `LATER` runs go back to it.
    Runs of the team's own DAGs are among them if a window of one of the tables failed there.
    Failed runs come first, then waiting ones, active ones and others; the newest first in each.

    Parameters
    ----------
    known : DAGs that the user may read, as is known already
    """
    tables = [*tables]
    dags = {f"{kind}{table}": table for table in tables for kind in KINDS}
    windows = failed_windows(session, tables)
    unknown = {*dags, *(dag for dag, _, _ in windows)} - known
    readable = known | readable_dags(user, [*unknown])
    dags = {dag: table for dag, table in dags.items() if dag in readable}
    ranked = ranked_runs(dags)
    least = case((ranked.c.kind == 1, FAILED_LISTED), (ranked.c.kind == 2, 0), else_=1)
    newest = or_(ranked.c.place <= count, ranked.c.among <= least, DagRun.state.not_in(ENDED))
    query = select(DagRun).join(ranked, ranked.c.id == DagRun.id).where(newest)
    found = session.scalars(query.order_by(DagRun.id.desc())).all()
    states: dict[tuple[str, str], dict[str, str | None]] = {}
    if found:
        asked = select(
            TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.state
        ).where(
            TaskInstance.dag_id.in_({r.dag_id for r in found}),
            TaskInstance.run_id.in_({r.run_id for r in found}),
        )
        for dag, run, task, state in session.execute(asked):
            states.setdefault((dag, run), {})[task] = str(state) if state else None
    rows = [_window(session, *window) for window in windows.items() if window[0][0] in readable]
    rows += [
        RunRow(
            r.dag_id,
            dags[r.dag_id],
            r.run_id,
            str(r.state),
            r.start_date,
            r.end_date,
            r.triggering_user_name,
            states.get((r.dag_id, r.run_id), {}),
            bool((r.conf or {}).get("dry_run")),
            r.id,
        )
        for r in found
    ]
    return sorted(rows, key=lambda r: (r.state != "failed", not r.waits, not r.goes_on))


def _window(session: Session, window: tuple[str, str, str], table: str) -> RunRow:
    """Return the row of a failed window in a DAG of the team, without other tasks of the run."""
    dag, run, task = window
    known = session.scalars(select(DagRun).where(DagRun.dag_id == dag, DagRun.run_id == run)).one()
    when = known.start_date, known.end_date
    by = known.triggering_user_name
    return RunRow(dag, table, run, "failed", *when, by, {task: "failed"}, number=known.id)


def row_of(table: str, known: AirflowRun | None) -> RunRow | None:
    """Return the row of one run of the table; None if Airflow does not know it."""
    if known is None:
        return None
    when = known.started, known.ended
    return RunRow(known.dag, table, known.run, known.state, *when, known.by, known.tasks)


def pressing(session: Session, rows: list[RunRow]) -> list[RunRow]:
    """Return the runs that need attention.

    These are all active runs, and the newest run of each DAG if it failed. A failed run that moves
    state no longer needs any once a later one of the table has succeeded. Dry runs that succeeded
    do not count.
    """
    newest: dict[tuple[str, str], RunRow] = {}
    for row in (r for r in rows if not r.only_tried):
        best = newest.get((row.table, row.dag))
        if best is None or row.number > best.number:
            newest[row.table, row.dag] = row
    failed = [r for r in newest.values() if r.state == "failed"]
    history = _history(session, [r for r in failed if r.dag.startswith(MOVERS)])
    now = {(r.dag, r.run) for r in failed} - history
    return [r for r in rows if r.goes_on or (r.dag, r.run) in now]


def _history(session: Session, failed: list[RunRow]) -> set[tuple[str, str]]:
    """Return (DAG, run) of those of the failed runs after which a run of the table has moved state.

    Dry runs move nothing. The watch runs every few minutes, so it counts only if it published, and
    is asked last.
    """
    found: set[tuple[str, str]] = set()
    for kinds in ([k for k in MOVERS if k != WATCH], [WATCH]):
        left = [r for r in failed if (r.dag, r.run) not in found]
        dags = {f"{kind}{row.table}": row.table for row in left for kind in kinds}
        if not dags:
            break
        moved: dict[str, datetime] = {}
        ends = [row.ended or NEVER for row in left]
        moves = published_since(dags, min(ends)) if kinds == [WATCH] else newest_successes(dags)
        for dag, started, asked in session.execute(moves):
            if started is not None and not (asked or {}).get("dry_run"):
                moved[dags[dag]] = max(started, moved.get(dags[dag], NEVER))
        found |= {(r.dag, r.run) for r in left if moved.get(r.table, NEVER) > (r.ended or NEVER)}
    return found
