"""The DAGs that take a team's own tables under Evenkeel, and out again."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from evenkeel.spec.table_spec import TableSpec
from evenkeel_airflow import operators as op
from evenkeel_airflow.params import SAFETY
from evenkeel_airflow.table_dags import COMMON


def adopt(spec: TableSpec, file: str) -> DAG | None:
    """Build the DAG that takes a team's own tables under Evenkeel; None if it has none."""
    if not spec.plain:
        return None
    with DAG(
        f"adopt_{spec.table}",
        schedule=None,
        params={"dry_run": _dry_run("Show what was found and would be rewritten; change nothing.")},
        description=f"Take the tables of {spec.table} under Evenkeel",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        arguments = {"--spec": file, "--dry-run": "{{ 'yes' if params.dry_run else '' }}"}
        op.SparkJob(task_id="adopt", job="adopt", arguments=arguments)
    return dag


def release(spec: TableSpec, file: str) -> DAG | None:
    """Build the DAG that takes Evenkeel out of a team's own tables again; None if it has none."""
    if not spec.plain:
        return None
    with DAG(
        f"release_{spec.table}",
        schedule=None,
        params={
            "drop_columns": Param(
                False,
                type="boolean",
                title="Drop columns",
                description="Rewrite the tables without slot and channel, too.",
            ),
            "registry_lost": Param(
                False,
                type="boolean",
                title="Registry lost",
                description="Release tables whose epoch no registry has any more.",
            ),
            "dry_run": _dry_run("Show what would be taken out; change nothing."),
        },
        description=f"Take Evenkeel out of the tables of {spec.table}",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        flags = {
            "--dry-run": "{{ 'yes' if params.dry_run else '' }}",
            "--drop-columns": "{{ 'yes' if params.drop_columns else '' }}",
            "--registry-lost": "{{ 'yes' if params.registry_lost else '' }}",
        }
        arguments = {"--spec": file, "--release": "yes", **flags}
        op.SparkJob(task_id="release", job="adopt", arguments=arguments)
    return dag


def _dry_run(description: str) -> Param:
    return Param(False, type="boolean", title="Dry run", description=description, section=SAFETY)
