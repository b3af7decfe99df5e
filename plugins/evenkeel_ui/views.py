"""Airflow's tabs on DAGs, runs and tasks: they name a DAG, our pages a table."""

from __future__ import annotations

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse

from evenkeel.registry.run_folder import safe_name
from evenkeel_ui.access import named

PREFIXES = ("rebalance_", "roll_back_", "maintain_", "repair_", "watch_")
router = APIRouter(
    prefix="/dags", tags=["tabs"], dependencies=[Depends(requires_access_dag("GET"))]
)


@router.get("/{dag_id}")
def dag(request: Request, dag_id: str) -> RedirectResponse:
    """The page of the DAG's table."""
    return RedirectResponse(f"{_home(request)}/tables/{table_of(dag_id)}")


@router.get("/{dag_id}/runs/{run_id}")
def run(request: Request, dag_id: str, run_id: str) -> RedirectResponse:
    """The plan of the run."""
    table = table_of(dag_id)
    return RedirectResponse(f"{_home(request)}/tables/{table}/runs/{safe_name(run_id)}")


@router.get("/{dag_id}/runs/{run_id}/tasks/{task_id}")
def task(request: Request, dag_id: str, run_id: str, task_id: str) -> RedirectResponse:
    """Likewise: what there is to see of a task is on its run's page."""
    return run(request, dag_id, run_id)


def table_of(dag_id: str) -> str:
    """The table that a DAG is about; 404 for a DAG that is not ours."""
    for prefix in PREFIXES:
        if dag_id.startswith(prefix):
            return named(dag_id.removeprefix(prefix)).spec.table
    raise HTTPException(404, f"DAG {dag_id!r} is not one of Evenkeel's: there is nothing to show.")


def _home(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")
