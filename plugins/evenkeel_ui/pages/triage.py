"""Sort a table's runs: failed, waiting for a person, under way; and say what blocks a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.configuration import conf
from airflow.jobs.job import Job, most_recent_job
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.log.log_reader import TaskLogReader
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, joinedload

from evenkeel.inspect.half_moved import HalfMoved
from evenkeel.registry.run_folder import safe_name
from evenkeel.render.formatting import seconds_text
from evenkeel_ui.access import REBALANCE, ROLL_BACK, WATCH, DagAccessEntity, may
from evenkeel_ui.pages.runs import ENDED, ORDER, AirflowRun

MAINTAIN, REPAIR = "maintain_", "repair_"
KINDS = (REBALANCE, ROLL_BACK, REPAIR, WATCH, MAINTAIN)
#: Kinds of runs that move state: while one goes on, no other can start.
MOVERS = (REBALANCE, ROLL_BACK, REPAIR)
#: Runs of each DAG that a table's page lists; of every table, the overview asks for the newest.
LISTED = 5
#: Messages of a log that are read for the error line: enough for hours of a Spark job.
MESSAGES = 50_000
_MARK = "evenkeel: error: "


@dataclass(frozen=True)
class RunRow:
    """A run in Airflow; `tasks` maps each task's id to its state."""

    dag: str
    table: str
    run: str
    state: str
    started: datetime | None
    ended: datetime | None
    by: str | None
    tasks: Mapping[str, str | None]

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return safe_name(self.run)

    @property
    def ours(self) -> bool:
        """Whether Evenkeel has a page for the run."""
        return self.dag.startswith((REBALANCE, ROLL_BACK, WATCH))

    @property
    def goes_on(self) -> bool:
        """Whether the run has not ended."""
        return self.state not in ENDED

    @property
    def waits(self) -> bool:
        """Whether the run waits for a person's approval."""
        return self.goes_on and self.tasks.get("approve") == "awaiting_input"

    @property
    def failed_task(self) -> str | None:
        """The task that failed first; `report` fails because another one did."""
        order = [*ORDER, *(t for t in self.tasks if t not in ORDER)]
        return next((t for t in order if self.tasks.get(t) == "failed"), None)

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
            now = [t for t, state in self.tasks.items() if state == "running"]
            return f"at {now[0]}" if now else "waits for its turn"
        if self.state == "failed":
            at = f"failed at {self.failed_task}" if self.failed_task else "was stopped"
            return at + (", rolled back" if self.tasks.get("roll_back") == "success" else "")
        if self.tasks.get("publish") == "success":
            return "published an epoch"
        if self.tasks.get("publish") == "skipped":
            return "nothing moved"
        return "done"

    @property
    def links(self) -> tuple[str, str | None]:
        """URLs of Airflow's page of the run, and of the log of the failed task."""
        run = f"{airflow_home()}/dags/{quote(self.dag)}/runs/{quote(self.run, safe='')}"
        return run, self.failed_task and f"{run}/tasks/{self.failed_task}"


def airflow_home() -> str:
    """Return the path prefix of Airflow's own pages."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def recent(
    session: Session, user: BaseUser, tables: Iterable[str], count: int = LISTED
) -> list[RunRow]:
    """Return the newest `count` runs of each DAG that the user may read, and all active ones.

    Failed runs come first, then waiting ones, active ones and others; the newest first in each.
    """
    dags = {f"{kind}{table}": table for table in tables for kind in KINDS}
    dags = {dag: table for dag, table in dags.items() if may(user, "GET", dag)}
    place = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.id.desc())
    ranked = select(DagRun.id, place.label("place")).where(DagRun.dag_id.in_(dags)).subquery()
    newest = or_(ranked.c.place <= count, DagRun.state.not_in(ENDED))
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
    rows = [
        RunRow(
            r.dag_id,
            dags[r.dag_id],
            r.run_id,
            str(r.state),
            r.start_date,
            r.end_date,
            r.triggering_user_name,
            states.get((r.dag_id, r.run_id), {}),
        )
        for r in found
    ]
    return sorted(rows, key=lambda r: (r.state != "failed", not r.waits, not r.goes_on))


def row_of(table: str, known: AirflowRun | None) -> RunRow | None:
    """Return the row of one run of the table; None if Airflow does not know it."""
    if known is None:
        return None
    when = known.started, known.ended
    return RunRow(known.dag, table, known.run, known.state, *when, known.by, known.tasks)


def pressing(rows: list[RunRow]) -> list[RunRow]:
    """Return the runs that need attention.

    These are all active runs, and the newest run of each DAG if it failed.
    """
    newest: dict[str, RunRow] = {}
    for row in rows:
        best = newest.get(row.dag)
        if best is None or (row.started or _NEVER) > (best.started or _NEVER):
            newest[row.dag] = row
    return [r for r in rows if r.goes_on or (r.state == "failed" and newest[r.dag] is r)]


_NEVER = datetime.min.replace(tzinfo=UTC)


def error_line(
    session: Session, user: BaseUser, dag: str, run: str, task: str | None
) -> str | None:
    """Return the error line in the log of a failed task.

    None: the log has no error line, or the user may not read it.
    """
    if task is None or not may(user, "GET", dag, DagAccessEntity.TASK_LOGS):
        return None
    query = (
        select(TaskInstance)
        .where(TaskInstance.dag_id == dag, TaskInstance.run_id == run)
        .where(TaskInstance.task_id == task)
        .options(joinedload(TaskInstance.dag_model), joinedload(TaskInstance.trigger))
    )
    found = session.scalar(query)
    if found is None:
        return None
    said = last = None
    try:
        stream, _ = TaskLogReader().read_log_chunks(found, found.try_number, {})
        for count, message in enumerate(stream):
            text = str(getattr(message, "event", message))
            if _MARK in text:
                said = text.split(_MARK, 1)[1]
            elif (getattr(message, "level", None) or "") in ("error", "critical"):
                detail = getattr(message, "error_detail", None) or []
                last = str(detail[0].get("exc_value") or text) if detail else text
            if count >= MESSAGES:
                break
    except Exception as error:  # a log may be on any store, and no error of it may break the page
        return f"the log cannot be read ({type(error).__name__})"
    text = (said or last or "").strip()
    return text.splitlines()[0][:500] if text else None


def blocked(
    session: Session, user: BaseUser, table: str, dag: str, half: HalfMoved | None
) -> list[str]:
    """Return why a run of the DAG cannot start now, one sentence each; empty if it can."""
    why = []
    if half is not None:
        why.append(
            f"The table is half moved by run {half.run}. Let that run go on, or undo it, first."
        )
    seen = session.scalar(select(DagModel).where(DagModel.dag_id == dag))
    if seen is None or seen.is_stale:
        why.append(
            f"Airflow does not know the DAG {dag}. It reads the DAGs folder every few minutes; if "
            "the DAG stays away, look at Airflow's import errors."
        )
    movers = [f"{kind}{table}" for kind in MOVERS]
    query = select(DagRun).where(DagRun.dag_id.in_(movers), DagRun.state.not_in(ENDED))
    for run in session.scalars(query):
        readable = may(user, "GET", run.dag_id)
        which = f"Run {safe_name(run.run_id)}" if readable else "A run that you may not read"
        why.append(f"{which} is under way. Wait for its end, or stop it.")
    if not scheduler_alive(session):
        why.append("Airflow's scheduler does not run, so nothing would start. Start it first.")
    return why


@dataclass(frozen=True)
class Stuck:
    """A half-moved table, and the user's rights to recover it.

    Parameters
    ----------
    dag, run : ids of the run in Airflow; None if Airflow has forgotten it
    visible : the user may read that run
    may : the user may let it go on, or undo it
    paused : its DAG is paused, so no task starts
    """

    table: str
    half: HalfMoved
    dag: str | None
    run: str | None
    visible: bool
    may: bool
    paused: bool


def stuck(session: Session, user: BaseUser, table: str, half: HalfMoved | None) -> Stuck | None:
    """Return the state of a half-moved table that no run works on.

    None: the table is not half moved, or its run or a repair is active.
    """
    if half is None:
        return None
    dags = [f"{kind}{table}" for kind in (REBALANCE, ROLL_BACK, WATCH)]
    repairs = select(DagRun.id).where(
        DagRun.dag_id == f"{REPAIR}{table}", DagRun.state.not_in(ENDED)
    )
    query = select(DagRun.dag_id, DagRun.run_id, DagRun.state).where(DagRun.dag_id.in_(dags))
    for dag, run, state in session.execute(query.order_by(DagRun.id.desc())):
        if safe_name(run) != half.run:
            continue
        if str(state) not in ENDED or session.scalars(repairs).first() is not None:
            return None
        visible = may(user, "GET", dag)
        allowed = visible and may(user, "PUT", dag, DagAccessEntity.TASK_INSTANCE)
        paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag))
        return Stuck(table, half, dag, run, visible, allowed, bool(paused))
    return Stuck(table, half, None, None, may(user, "GET", f"{ROLL_BACK}{table}"), False, False)


def scheduler_alive(session: Session) -> bool:
    """Return whether a scheduler has sent a heartbeat recently."""
    job: Job | None = most_recent_job("SchedulerJob", session=session)
    return job is not None and job.is_alive()
