"""Read runs from Airflow, start them, and answer their approvals.

Starting and answering use the functions behind Airflow's own REST API. So Airflow's forms and ours
make the same checks of Params and answer the same Required Action.
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
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session, joinedload

from evenkeel.pipeline.approval import SETTLED
from evenkeel.registry.profiles import Learned
from evenkeel.registry.run_folder import find_folder, folder_name, safe_name
from evenkeel.runs.params import goes_back
from evenkeel.table import Table
from evenkeel_ui.access import PAGED, ROLL_BACK, may, require
from evenkeel_ui.airflow_versions import WAITING
from partitioning.errors import EvenkeelError

#: Tasks in the order in which they run.
ORDER = (
    "watch", "learn", "decide", "plan", "validate_plan", "approve", "migrate", "verify", "publish",
    "roll_back", "report",
)  # fmt: skip
APPROVE, REJECT = "Approve", "Reject"
#: States of a run that has ended.
ENDED = {"success", "failed"}


@dataclass(frozen=True)
class AirflowRun:
    """A DAG run.

    Parameters
    ----------
    folder : name of its folder in the registry
    tasks : task id -> state, in the order of `ORDER`
    asked : text of the approval that the run waits for; None if it waits for none
    """

    dag: str
    run: str
    folder: str
    state: str
    started: datetime | None
    ended: datetime | None
    by: str | None
    tasks: Mapping[str, str | None]
    asked: str | None

    @property
    def goes_on(self) -> bool:
        """Whether the run has not ended."""
        return self.state not in ENDED


def find(session: Session, user: BaseUser, found: Table, name: str) -> AirflowRun | None:
    """Return the DAG run with the run folder `name`; None if Airflow does not know it.

    Raises
    ------
    HTTPException : 403, the user may not read that DAG; each DAG of a table has its own rights
    """
    table = found.spec.table
    dags = tuple(f"{kind}{table}" for kind in PAGED)
    # A page that asks every few seconds must not read all runs of years.
    alike = [DagRun.dag_id.in_(dags), *like(dags, name)]
    query = select(DagRun.dag_id, DagRun.run_id).where(*alike)
    store = found.registry.store
    known = [
        (dag, run)
        for dag, run in session.execute(query)
        if folder_name(dag, run) == name
        or (safe_name(run) == name and find_folder(store, dag, run) == name)
    ]
    if not known:
        # Compare the name before using it as a path.
        if name in found.registry.store.names("runs") and _goes_back(found, name):
            require(user, "GET", f"{ROLL_BACK}{table}")
        return None
    dag, run_id = known[0]
    require(user, "GET", dag)
    return _read(session, dag, run_id, find_folder(store, dag, run_id))


def read_again(session: Session, run: AirflowRun) -> AirflowRun:
    """Return the run as it is now, from Airflow's database alone."""
    return _read(session, run.dag, run.run, run.folder)


def _read(session: Session, dag: str, run_id: str, folder: str) -> AirflowRun:
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
        waits = task.state in WAITING and detail is not None
        if waits and not detail.response_received and _settled(session, task):
            asked = detail.body or ""
    return AirflowRun(
        dag=dag,
        run=run_id,
        folder=folder,
        state=str(run.state),
        started=run.start_date,
        ended=run.end_date,
        by=run.triggering_user_name,
        tasks={t: states[t] for t in ORDER if t in states},
        asked=asked,
    )


def like(dags: Iterable[str], name: str) -> list[ColumnElement[bool]]:
    """Return conditions that a run with the folder `name` meets; others may meet them, too.

    In the folder's name each odd character is a dash, and the end may be a digest of 17 characters.
    A folder of release 0.1.0 does not name its DAG, so any run may be its run.
    """
    for dag in dags:
        if name.startswith(f"{dag}--"):
            begin = name.removeprefix(f"{dag}--")[:-17].replace("-", "_")
            return [DagRun.dag_id == dag, DagRun.run_id.like(f"{begin}%")]
    return []


def runs_under_way(session: Session, user: BaseUser, table: str) -> list[str]:
    """Return the names of the table's active runs, newest first.

    Only runs of DAGs that the user may read are returned.
    """
    every = (f"{kind}{table}" for kind in PAGED)
    dags = [dag for dag in every if may(user, "GET", dag)]
    query = select(DagRun.dag_id, DagRun.run_id).where(
        DagRun.dag_id.in_(dags), DagRun.state.not_in(ENDED)
    )
    return [folder_name(*row) for row in session.execute(query.order_by(DagRun.id.desc()))]


def visible(session: Session, user: BaseUser, table: Table, names: Iterable[str]) -> list[str]:
    """Return those of the table's run folders `names` that the user may see.

    A rollback is visible only to users who may read the roll-back DAG.
    """
    dag = f"{ROLL_BACK}{table.spec.table}"
    if may(user, "GET", dag):
        return list(names)
    ids = session.scalars(select(DagRun.run_id).where(DagRun.dag_id == dag)).all()
    back = {name for run in ids for name in (folder_name(dag, run), safe_name(run))}
    return [name for name in names if name not in back and not _goes_back(table, name)]


def source(session: Session, user: BaseUser, table: Table, learned: Learned | None) -> str:
    """Return the run that learned a profile, or a general text if the user may not see it."""
    known = visible(session, user, table, [learned.source] if learned else [])
    return known[0] if known else "a rollback"


def _goes_back(table: Table, name: str) -> bool:
    """Return whether a run is a rollback, by its folder, because Airflow forgets runs."""
    try:
        return goes_back(table.registry.run(name))
    except EvenkeelError:
        return False


def _settled(session: Session, task: TaskInstance) -> bool:
    """Return whether an answer is safe; only then do pages offer one.

    It is, if the scheduler that queued the task has finished a loop since. On a busy machine a loop
    may take long. If that scheduler has ended, the time now counts.
    """
    alive = select(Job.latest_heartbeat).where(
        Job.id == task.queued_by_job_id, Job.state == "running"
    )
    since, until = task.updated_at, session.scalar(alive) or datetime.now(UTC)
    return since is None or until - since > SETTLED


def start(
    session: Session, request: Request, user: BaseUser, dag: str, asked: Mapping[str, Any]
) -> str:
    """Start a run with these Params, as Airflow's API does, and return the run's name.

    Raises
    ------
    HTTPException : 404, Airflow has no such DAG yet; 400, the DAG refuses a Param
    """
    body = TriggerDAGRunPostBody(logical_date=None, conf=dict(asked))
    # The function returns the run itself. FastAPI would turn it into the answer.
    made: Any = trigger_dag_run(dag, body, dag_bag(), user, session, request)
    log(session, user, "trigger_dag_run", dag, made.run_id, asked)
    return folder_name(dag, made.run_id)


def answer(session: Session, user: BaseUser, run: AirflowRun, approve: bool) -> None:
    """Answer the run's approval, as Airflow's Required Actions would.

    Raises
    ------
    HTTPException : 403, other users must answer; 409, somebody has answered
    """
    chosen = [APPROVE if approve else REJECT]
    payload = UpdateHITLDetailPayload(chosen_options=chosen, params_input={})
    update_hitl_detail(run.dag, run.run, "approve", payload, user, session)
    log(session, user, "update_hitl_detail", run.dag, run.run, {"chosen_options": chosen})


def paused(session: Session, dag: str) -> bool | None:
    """Return whether the DAG is paused; None if Airflow does not know it."""
    return session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag))


def pause(session: Session, user: BaseUser, dag: str) -> None:
    """Pause a DAG: its schedule starts no run until somebody turns it on."""
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
    """Write an event to Airflow's audit log, as Airflow's API does."""
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
    """Return the DAGs as Airflow's database has them."""
    return create_dag_bag()
