"""Redirect Airflow's tabs on DAGs, runs and tasks to the page of the table or run."""

from __future__ import annotations

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse

from evenkeel.registry.run_folder import folder_name
from evenkeel_ui.access import KINDS, PAGELESS, named

router = APIRouter(
    prefix="/dags", tags=["tabs"], dependencies=[Depends(requires_access_dag("GET"))]
)


@router.get("/{dag_id}")
def dag(request: Request, dag_id: str) -> RedirectResponse:
    """Redirect to the page of the DAG's table."""
    return RedirectResponse(f"{_home(request)}/tables/{table_of(dag_id)}")


@router.get("/{dag_id}/runs/{run_id}")
def run(request: Request, dag_id: str, run_id: str) -> RedirectResponse:
    """Redirect to the page of the run, or of the table for a run that has none."""
    if dag_id.startswith(PAGELESS):
        return dag(request, dag_id)
    table = table_of(dag_id)
    return RedirectResponse(f"{_home(request)}/tables/{table}/runs/{folder_name(dag_id, run_id)}")


@router.get("/{dag_id}/runs/{run_id}/tasks/{task_id}")
def task(request: Request, dag_id: str, run_id: str, task_id: str) -> RedirectResponse:
    """Redirect to the page of the run, which also shows its tasks."""
    return run(request, dag_id, run_id)


def table_of(dag_id: str) -> str:
    """Return the name of a DAG's table; raise 404 if the DAG is not Evenkeel's."""
    for prefix in KINDS:
        if dag_id.startswith(prefix):
            return named(dag_id.removeprefix(prefix)).spec.table
    raise HTTPException(
        404, f"DAG {dag_id!r} is not one of Evenkeel's. This tab shows only tables of Evenkeel."
    )


def _home(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")
