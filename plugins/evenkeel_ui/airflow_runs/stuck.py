"""Half-moved tables: what blocks a run, and who may recover or repair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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

    Ask Airflow's database inside: what was read before may be older than the press before. Read no
    file inside: Airflow's DAG processor waits for the row, and a store may be slow.
    """
    with _LOCKS.setdefault(table, Lock()):
        row = select(DagModel.dag_id).where(DagModel.dag_id == f"{REBALANCE}{table}")
        session.execute(row.with_for_update())
        session.expire_all()
        yield
        session.commit()


@dataclass(frozen=True)
class OpenMove:
    """A migration that has not ended, by the table's files, as a press needs to know it.

    Parameters
    ----------
    dag : of the run that left the table half moved; None: none did, or nobody knows
    why : why no other run may start, one sentence each
    under_way : runs that went on before the files were read, one sentence each: their ends may have
        changed the files since
    """

    table: str
    dag: str | None = None
    why: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()


def open_move(session: Session, user: BaseUser, found: Table) -> OpenMove:
    """Read from the table's files whether a run has left it half moved."""
    registry, table = found.registry, found.spec.table
    under_way = _under_way(session, user, table)
    try:
        half = half_moved(registry, run_names(registry))
    except EvenkeelError as error:
        why = f"Nobody knows whether the table is half moved: {error}."
        return OpenMove(table, None, (why,), under_way)
    if half is None:
        return OpenMove(table, under_way=under_way)
    known = runs.visible(session, user, found, [half.run])
    which = f"run {known[0]}" if known else "a run that you may not read"
    why = f"The table is half moved by {which}. Let that run go on, or undo it, first."
    return OpenMove(table, dag_of(half.run), (why,), under_way)


def blocked(
    session: Session, user: BaseUser, dag: str, move: OpenMove, *, recovers: bool = False
) -> list[str]:
    """Return why a run of the DAG cannot start or go on now, one sentence each; empty if it can.

    It asks Airflow's database alone.

    Parameters
    ----------
    recovers : a repair, or the run that left the table half moved: a half-moved table does not
        block these
    """
    why = [] if recovers else [*move.why]
    seen = session.scalar(select(DagModel).where(DagModel.dag_id == dag))
    if seen is None or seen.is_stale:
        why.append(
            f"Airflow does not know the DAG {dag}. It reads the DAGs folder every few minutes; if "
            "the DAG stays away, look at Airflow's import errors."
        )
    elif recovers and seen.is_paused:
        # A run that waits in its queue would also block all other ways out.
        why.append(f"The DAG {dag} is paused, so nothing would start. Turn it on in Airflow first.")
    why += dict.fromkeys([*move.under_way, *_under_way(session, user, move.table, move.dag)])
    if not scheduler_alive(session):
        why.append("Airflow's scheduler does not run, so nothing would start. Start it first.")
    return why


def why_no_start(session: Session, user: BaseUser, found: Table, dag: str) -> list[str]:
    """Return why no run of the DAG can start, for a page that starts none yet."""
    return blocked(session, user, dag, open_move(session, user, found))


def _under_way(
    session: Session, user: BaseUser, table: str, other: str | None = None
) -> tuple[str, ...]:
    """Return a sentence for each active run that moves state of the table.

    Parameters
    ----------
    other : a DAG of the team's own whose task group moves state, too
    """
    movers = [*(f"{kind}{table}" for kind in MOVERS), other]
    query = select(DagRun).where(DagRun.dag_id.in_(movers), DagRun.state.not_in(ENDED))
    why = []
    for run in session.scalars(query):
        readable = may(user, "GET", run.dag_id)
        name = folder_name(run.dag_id, run.run_id)
        which = f"Run {name}" if readable else "A run that you may not read"
        why.append(f"{which} is under way. Wait for its end, or stop it.")
    return tuple(why)


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
        move = OpenMove(table, dag_of(half.run))
        why = why_unrecoverable(session, user, dag, half, move) if allowed else []
        return Stuck(table, half, dag, run, visible, allowed, repair, end, tuple(why))
    own = select(DagRun.run_id).where(DagRun.dag_id == dag_of(half.run))
    for run in session.scalars(own.where(DagRun.state.not_in(ENDED))):
        if half.run == folder_name(dag_of(half.run), run):
            return None
    readable = may(user, "GET", f"{ROLL_BACK}{table}")
    return Stuck(table, half, None, None, readable, False, repair)


def why_unrecoverable(
    session: Session, user: BaseUser, dag: str, half: HalfMoved, move: OpenMove
) -> list[str]:
    """Return why the half-moved run of the DAG can neither go on nor be undone now."""
    why = blocked(session, user, dag, move, recovers=True)
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
