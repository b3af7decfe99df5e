"""Half-moved tables: what blocks a run, and who may recover or repair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.jobs.job import Job, most_recent_job
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from sqlalchemy import select
from sqlalchemy.orm import Session

from evenkeel.inspect.half_moved import HalfMoved, half_moved
from evenkeel.registry.profiles import run_names
from evenkeel.registry.run_folder import dag_of, folder_name, safe_name
from evenkeel.table import Table
from evenkeel_ui.access import PAGED, REBALANCE, REPAIR, ROLL_BACK, DagAccessEntity, may
from evenkeel_ui.airflow_runs import runs
from evenkeel_ui.airflow_runs.runs import ENDED
from evenkeel_ui.airflow_runs.triage import MOVERS
from partitioning.errors import EvenkeelError

#: Table -> lock of this process. SQLite ignores the lock of a row.
_LOCKS: dict[str, Lock] = {}


@contextmanager
def one_press(session: Session, table: str) -> Iterator[None]:
    """Let no other press start or clear a run of the table until this one is committed.

    Read what decides inside: what was read before may be older than the press before.
    """
    with _LOCKS.setdefault(table, Lock()):
        row = select(DagModel.dag_id).where(DagModel.dag_id == f"{REBALANCE}{table}")
        session.execute(row.with_for_update())
        session.expire_all()
        yield
        session.commit()


def blocked(
    session: Session, user: BaseUser, found: Table, dag: str, *, recovers: bool = False
) -> list[str]:
    """Return why a run of the DAG cannot start or go on now, one sentence each; empty if it can.

    Parameters
    ----------
    recovers : a repair, or the run that left the table half moved: a half-moved table does not
        block these
    """
    why = [] if recovers else _half_moved(session, user, found)
    table = found.spec.table
    seen = session.scalar(select(DagModel).where(DagModel.dag_id == dag))
    if seen is None or seen.is_stale:
        why.append(
            f"Airflow does not know the DAG {dag}. It reads the DAGs folder every few minutes; if "
            "the DAG stays away, look at Airflow's import errors."
        )
    elif recovers and seen.is_paused:
        # A run that waits in its queue would also block all other ways out.
        why.append(f"The DAG {dag} is paused, so nothing would start. Turn it on in Airflow first.")
    movers = [f"{kind}{table}" for kind in MOVERS]
    # A task group in a DAG of the team's own moves state, too.
    with suppress(EvenkeelError):
        if (half := half_moved(found.registry, run_names(found.registry))) is not None:
            movers.append(dag_of(half.run))
    query = select(DagRun).where(DagRun.dag_id.in_(movers), DagRun.state.not_in(ENDED))
    for run in session.scalars(query):
        readable = may(user, "GET", run.dag_id)
        name = folder_name(run.dag_id, run.run_id)
        which = f"Run {name}" if readable else "A run that you may not read"
        why.append(f"{which} is under way. Wait for its end, or stop it.")
    if not scheduler_alive(session):
        why.append("Airflow's scheduler does not run, so nothing would start. Start it first.")
    return why


def _half_moved(session: Session, user: BaseUser, found: Table) -> list[str]:
    """Return why the half-moved table blocks a run, also if its files cannot say whether it is."""
    registry = found.registry
    try:
        half = half_moved(registry, run_names(registry))
    except EvenkeelError as error:
        return [f"Nobody knows whether the table is half moved: {error}."]
    if half is None:
        return []
    known = runs.visible(session, user, found, [half.run])
    which = f"run {known[0]}" if known else "a run that you may not read"
    return [f"The table is half moved by {which}. Let that run go on, or undo it, first."]


@dataclass(frozen=True)
class Stuck:
    """A half-moved table, and the user's rights to recover it.

    Parameters
    ----------
    dag, run : ids of the run in Airflow; None if no DAG of the table has it
    visible : the user may read that run
    may : the user may let it go on, or undo it
    may_repair : the user may start the repair DAG
    since : when its run ended; None as for `run`
    blocked : why it can neither go on nor be undone now, one sentence each
    """

    table: str
    half: HalfMoved
    dag: str | None
    run: str | None
    visible: bool
    may: bool
    may_repair: bool = False
    since: datetime | None = None
    blocked: tuple[str, ...] = ()


def stuck_table(
    session: Session, user: BaseUser, found: Table, half: HalfMoved | None
) -> Stuck | None:
    """Return the state of a half-moved table that no run works on.

    None: the table is not half moved, or its run or a repair is active.
    """
    if half is None:
        return None
    table = found.spec.table
    repair = may_repair(user, table)
    dags = [f"{kind}{table}" for kind in PAGED]
    repairs = select(DagRun.id).where(
        DagRun.dag_id == f"{REPAIR}{table}", DagRun.state.not_in(ENDED)
    )
    query = select(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.end_date)
    query = query.where(DagRun.dag_id.in_(dags))
    for dag, run, state, end in session.execute(query.order_by(DagRun.id.desc())):
        if half.run not in (folder_name(dag, run), safe_name(run)):
            continue
        if str(state) not in ENDED or session.scalars(repairs).first() is not None:
            return None
        visible = may(user, "GET", dag)
        allowed = visible and may(user, "PUT", dag, DagAccessEntity.TASK_INSTANCE)
        why = why_unrecoverable(session, user, found, dag, half) if allowed else []
        return Stuck(table, half, dag, run, visible, allowed, repair, end, tuple(why))
    own = select(DagRun.run_id).where(DagRun.dag_id == dag_of(half.run))
    for run in session.scalars(own.where(DagRun.state.not_in(ENDED))):
        if half.run == folder_name(dag_of(half.run), run):
            return None
    readable = may(user, "GET", f"{ROLL_BACK}{table}")
    return Stuck(table, half, None, None, readable, False, repair)


def why_unrecoverable(
    session: Session, user: BaseUser, found: Table, dag: str, half: HalfMoved
) -> list[str]:
    """Return why the half-moved run of the DAG can neither go on nor be undone now."""
    why = blocked(session, user, found, dag, recovers=True)
    if half.damaged is not None:
        why.append(f"Nobody knows whether it was rolled back: {half.damaged}.")
    return why


def may_repair(user: BaseUser, table: str) -> bool:
    """Return whether the user may start the table's repair DAG."""
    return may(user, "POST", f"{REPAIR}{table}", DagAccessEntity.RUN)


def scheduler_alive(session: Session) -> bool:
    """Return whether a scheduler has sent a heartbeat recently."""
    job: Job | None = most_recent_job("SchedulerJob", session=session)
    return job is not None and job.is_alive()
