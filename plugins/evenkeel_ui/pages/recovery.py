"""Stop a run, let a half-moved one go on, undo it, or repair its table.

All of them use the functions behind Airflow's own REST API, as starting and answering do.
"""

from __future__ import annotations

import logging
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.datamodels.dag_run import DAGRunPatchBody
from airflow.api_fastapi.core_api.datamodels.task_instances import ClearTaskInstancesBody
from airflow.api_fastapi.core_api.routes.public.dag_run import patch_dag_run
from airflow.models.taskinstance import TaskInstance
from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import RedirectResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.pipeline.approval import refuse
from evenkeel.table import Table
from evenkeel_ui.access import (
    REBALANCE,
    REPAIR,
    DagAccessEntity,
    OwnForm,
    ReadableTable,
    Token,
    User,
    own_form,
    require,
    table_to_run,
)
from evenkeel_ui.airflow_runs import runs, stuck
from evenkeel_ui.airflow_versions import clear_tasks
from evenkeel_ui.pages.fields import SAID, check_known
from evenkeel_ui.pages.plans import sent
from partitioning.errors import EvenkeelError

log = logging.getLogger(__name__)
router = APIRouter(prefix="/tables/{table}", tags=["recovery"])
DECISIONS = ("stop", "go_on", "undo")
#: Tasks of which one must have failed for roll_back to run.
_BEFORE = ("migrate", "verify", "publish")


@router.post("/runs/{run}/recover")
def recover(
    request: Request,
    run: str,
    found: ReadableTable,
    user: User,
    session: SessionDep,
    names: Annotated[set[str], Depends(sent)],
    csrf: Token = "",
    decision: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """Stop a run that goes on; let a half-moved table's run go on, or undo what it moved."""
    known = runs.find(session, user, found, run)
    dag = known.dag if known else f"{REBALANCE}{found.spec.table}"
    right = DagAccessEntity.RUN if decision == "stop" else DagAccessEntity.TASK_INSTANCE
    require(user, "PUT", dag, right)
    own_form(request, user, csrf)
    check_known(names, {"csrf", "decision"})
    if decision not in DECISIONS:
        raise HTTPException(422, f"decision: allowed are {', '.join(DECISIONS)}.")
    if known is None:
        why = "Airflow does not know this run, so nothing of it can be started."
        raise HTTPException(409, why)
    if decision == "stop":
        _stop(session, user, found, known)
    else:
        _again(session, user, found, known, decision)
    return RedirectResponse(request.url.path.removesuffix("/recover"), 303)


@router.post("/repair")
def repair(
    request: Request,
    found: Annotated[Table, Depends(table_to_run(REPAIR))],
    user: User,
    session: SessionDep,
    names: Annotated[set[str], Depends(sent)],
    _: OwnForm,
    dry_run: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """Start the DAG that brings the state tables to the current epoch; back to the table's page."""
    table = found.spec.table
    check_known(names, {"csrf", "dry_run"})
    if dry_run not in SAID:
        raise HTTPException(422, f"dry_run: allowed are {', '.join(filter(None, SAID))}.")
    # A half-moved table is what a repair is for.
    move, dag = stuck.open_move(session, user, found), f"{REPAIR}{table}"
    with stuck.one_press(session, table):
        if why := stuck.blocked(session, user, dag, move, recovers=True):
            raise HTTPException(409, f"Nothing was started: {' '.join(why)}")
        asked = {"dry_run": True} if SAID[dry_run] else {}
        runs.start(session, request, user, dag, asked)
    return RedirectResponse(f"{request.url.path.removesuffix('/repair')}#runs", 303)


def _stop(session: Session, user: BaseUser, found: Table, run: runs.AirflowRun) -> None:
    """Mark the run as failed: its tasks end, and none starts any more."""
    with stuck.one_press(session, found.spec.table):
        run = runs.read_again(session, run)
        if not run.goes_on:
            raise HTTPException(409, "This run has ended already: there is nothing to stop.")
        body = DAGRunPatchBody.model_validate({"state": "failed"})
        patch_dag_run(run.dag, run.run, body, session, runs.dag_bag(), user, ["state"])
        runs.log(session, user, "patch_dag_run", run.dag, run.run, {"state": "failed"})
    # It stays stopped, whatever becomes of the note.
    if run.tasks.get("migrate") is None:
        _refuse(found, run, user)


def _refuse(found: Table, run: runs.AirflowRun, user: BaseUser) -> None:
    """Note that its plan is given up: the watch would wait for one that may be carried out."""
    try:
        refuse(found.registry.run(run.folder), user.get_name())
    except EvenkeelError as error:
        log.warning("the plan of the stopped run %s is not noted as refused: %s", run.run, error)


def _again(
    session: Session, user: BaseUser, found: Table, run: runs.AirflowRun, decision: str
) -> None:
    """Let a half-moved run go on, or undo it, unless something blocks that."""
    if run.goes_on:
        raise HTTPException(409, "This run goes on. Stop it first, or wait for its end.")
    move = stuck.open_move(session, user, found)
    half = find_half_moved(found.registry, found.registry.run(run.folder))
    if half is None:
        raise HTTPException(409, "This run has left nothing half moved.")
    if decision == "go_on" and half.undoing:
        raise HTTPException(409, "Rolling back has begun: it must end first. Press Undo.")
    with stuck.one_press(session, move.table):
        run = runs.read_again(session, run)
        if why := stuck.why_unrecoverable(session, user, run.dag, half, move):
            raise HTTPException(409, f"Nothing was started: {' '.join(why)}")
        _clear(session, user, run, decision)


def _clear(session: Session, user: BaseUser, run: runs.AirflowRun, decision: str) -> None:
    """Clear the tasks that go on, or those that undo; Airflow then runs them."""
    undo = decision == "undo"
    if undo and "failed" not in [run.tasks.get(task) for task in _BEFORE]:
        # A run that was stopped between two tasks has failed, but none of them has.
        query = select(TaskInstance).where(
            TaskInstance.dag_id == run.dag,
            TaskInstance.run_id == run.run,
            TaskInstance.task_id == _BEFORE[-1],
        )
        session.scalars(query).one().set_state("failed", session=session)
        session.flush()
    body = ClearTaskInstancesBody.model_validate(
        {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run.run,
            "task_ids": ["roll_back", "report"] if undo else ["migrate"],
            "include_downstream": not undo,
        }
    )
    clear_tasks(run.dag, runs.dag_bag(), body, session, user)
    runs.log(session, user, "clear_task_instances", run.dag, run.run, {"decision": decision})
