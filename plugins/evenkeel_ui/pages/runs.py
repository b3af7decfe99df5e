"""Runs as Airflow knows them: their state, who must be asked, starting one, answering one.

Starting and answering go through the functions behind Airflow's own REST API, so that Airflow's
forms and ours are one thing: the same checks of Params, the same Required Action.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.common.dagbag import create_dag_bag
from airflow.api_fastapi.core_api.datamodels.dag_run import TriggerDAGRunPostBody
from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
from airflow.api_fastapi.core_api.routes.public.dag_run import trigger_dag_run
from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from fastapi import Request
from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from evenkeel.pipeline.approval import SETTLED
from evenkeel.registry.profiles import Learned
from evenkeel.registry.run_folder import safe_name
from evenkeel.runs.params import goes_back
from evenkeel.table import Table
from evenkeel_ui.access import REBALANCE, ROLL_BACK, WATCH, may, require
from partitioning.errors import EvenkeelError

#: Tasks in the order in which they run.
ORDER = (
    "watch", "learn", "decide", "plan", "validate_plan", "approve", "migrate", "verify", "publish",
    "roll_back", "report",
)  # fmt: skip
APPROVE, REJECT = "Approve", "Reject"
#: States of a run that has come to its end.
ENDED = {"success", "failed"}


@dataclass(frozen=True)
class AirflowRun:
    """A DAG run; `tasks` maps each task's id to its state, in order; `asked` is what a person must
    answer before it goes on."""

    dag: str
    run: str
    state: str
    started: datetime | None
    ended: datetime | None
    by: str | None
    tasks: Mapping[str, str | None]
    asked: str | None

    @property
    def goes_on(self) -> bool:
        """Whether it has not come to its end."""
        return self.state not in ENDED


def find(session: Session, user: BaseUser, found: Table, name: str) -> AirflowRun | None:
    """The DAG run that left the run folder `name`; None where Airflow does not know it.

    Raises
    ------
    HTTPException : 403, the user may not read that DAG: rights to a table's are apart
    """
    table = found.spec.table
    dags = tuple(f"{kind}{table}" for kind in (REBALANCE, ROLL_BACK, WATCH))
    query = select(DagRun.dag_id, DagRun.run_id).where(DagRun.dag_id.in_(dags))
    known = [(dag, run) for dag, run in session.execute(query) if safe_name(run) == name]
    if not known:
        # Compared before it is a path.
        if name in found.registry.store.names("runs") and _goes_back(found, name):
            require(user, "GET", f"{ROLL_BACK}{table}")
        return None
    dag, run_id = known[0]
    require(user, "GET", dag)
    run = session.scalars(select(DagRun).where(DagRun.dag_id == dag, DagRun.run_id == run_id)).one()
    states: dict[str, str | None] = {}
    asked = None
    tasks = (
        select(TaskInstance)
        .where(TaskInstance.dag_id == dag, TaskInstance.run_id == run_id)
        .options(joinedload(TaskInstance.hitl_detail))
    )
    for task in session.scalars(tasks):
        states[task.task_id] = str(task.state) if task.state else None
        detail = task.hitl_detail if task.task_id == "approve" else None
        waits = task.state == "awaiting_input" and detail is not None
        if waits and not detail.response_received and _settled(session, task):
            asked = detail.body or ""
    return AirflowRun(
        dag=dag,
        run=run_id,
        state=str(run.state),
        started=run.start_date,
        ended=run.end_date,
        by=run.triggering_user_name,
        tasks={t: states[t] for t in ORDER if t in states},
        asked=asked,
    )


def under_way(session: Session, user: BaseUser, table: str) -> list[str]:
    """Names of the table's runs that have not come to their end, newest first: those of DAGs that
    the user may read."""
    every = (f"{kind}{table}" for kind in (REBALANCE, ROLL_BACK, WATCH))
    dags = [dag for dag in every if may(user, "GET", dag)]
    query = select(DagRun.run_id).where(DagRun.dag_id.in_(dags), DagRun.state.not_in(ENDED))
    return [safe_name(run) for run in session.scalars(query.order_by(DagRun.id.desc()))]


def visible(session: Session, user: BaseUser, table: Table, names: Iterable[str]) -> list[str]:
    """Of the table's run folders those that the user may be told of: a run that rolls back is for
    who may read that DAG."""
    dag = f"{ROLL_BACK}{table.spec.table}"
    if may(user, "GET", dag):
        return list(names)
    back = {
        safe_name(r) for r in session.scalars(select(DagRun.run_id).where(DagRun.dag_id == dag))
    }
    return [name for name in names if name not in back and not _goes_back(table, name)]


def source(session: Session, user: BaseUser, table: Table, learned: Learned | None) -> str:
    """Where a profile comes from, as far as the user may be told."""
    known = visible(session, user, table, [learned.source] if learned else [])
    return known[0] if known else "a run that rolls back"


def _goes_back(table: Table, name: str) -> bool:
    """As its folder tells: Airflow forgets runs."""
    try:
        return goes_back(table.registry.run(name))
    except EvenkeelError:
        return False


def _settled(session: Session, task: TaskInstance) -> bool:
    """Whether an answer is safe: only then do we offer to. Told by the last loop of the scheduler
    that queued the task, if that still lives: beside other work one may take long."""
    alive = select(Job.latest_heartbeat).where(
        Job.id == task.queued_by_job_id, Job.state == "running"
    )
    since, until = task.updated_at, session.scalar(alive) or datetime.now(UTC)
    return since is None or until - since > SETTLED


def start(
    session: Session, request: Request, user: BaseUser, dag: str, asked: Mapping[str, Any]
) -> str:
    """Start a run with these Params, as Airflow's API does; returns the run's name.

    Raises
    ------
    HTTPException : 404, there is no such DAG (yet); 400, a Param that the DAG does not take
    """
    body = TriggerDAGRunPostBody(logical_date=None, conf=dict(asked))
    # It returns the run itself: FastAPI makes the answer of it.
    made: Any = trigger_dag_run(dag, body, dag_bag(), user, session, request)
    log(session, user, "trigger_dag_run", dag, made.run_id, asked)
    return safe_name(made.run_id)


def answer(session: Session, user: BaseUser, run: AirflowRun, approve: bool) -> None:
    """Answer what the run asks; what Airflow's Required Actions would do.

    Raises
    ------
    HTTPException : 403, others are to answer; 409, somebody has answered
    """
    chosen = [APPROVE if approve else REJECT]
    payload = UpdateHITLDetailPayload(chosen_options=chosen, params_input={})
    update_hitl_detail(run.dag, run.run, "approve", payload, user, session)
    log(session, user, "update_hitl_detail", run.dag, run.run, {"chosen_options": chosen})


def paused(session: Session, dag: str) -> bool | None:
    """Whether the DAG is paused; None where Airflow has not seen it."""
    return session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag))


def pause(session: Session, user: BaseUser, dag: str) -> None:
    """Pause a DAG: its schedule starts nothing until somebody turns it on."""
    found = session.get(DagModel, dag)
    if found is not None:
        found.is_paused = True
        log(session, user, "patch_dag", dag, None, {"is_paused": True})


def log(
    session: Session,
    user: BaseUser,
    event: str,
    dag: str,
    run: str | None,
    extra: Mapping[str, Any],
) -> None:
    """Into Airflow's audit log, as its own API does."""
    session.add(
        Log(
            event=event,
            owner=user.get_name(),
            owner_display_name=user.get_name(),
            dag_id=dag,
            run_id=run,
            extra=json.dumps({**extra, "by": "evenkeel"}, default=str),
        )
    )


@cache
def dag_bag() -> Any:
    """The DAGs as Airflow's database has them."""
    return create_dag_bag()
