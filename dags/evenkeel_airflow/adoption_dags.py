"""The DAGs that take a team's own tables under Evenkeel, and out again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG

from evenkeel.spec.table_spec import TableSpec
from evenkeel_airflow import operators as op
from evenkeel_airflow.params import dry_run_param, switch
from evenkeel_airflow.table_dags import switches, table_dag


def adopt(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG | None:
    """Build the DAG that takes a team's own tables under Evenkeel; None if it has none."""
    if not spec.plain:
        return None
    params = dry_run_param("Show what was found and would be rewritten; change nothing.")
    about = f"Take the tables of {spec.table} under Evenkeel"
    with table_dag("adopt", spec, about, defaults) as dag:
        arguments = {"--spec": file, **switches(*params)}
        op.SparkJob(task_id="adopt", job="adopt", arguments=arguments)
    dag.params.update(params)
    return dag


def release(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG | None:
    """Build the DAG that takes Evenkeel out of a team's own tables again; None if it has none."""
    if not spec.plain:
        return None
    params = {
        "drop_columns": switch("Drop columns", "Rewrite the tables without slot and channel, too."),
        "registry_lost": switch(
            "Registry lost", "Release tables whose epoch no registry has any more."
        ),
        **dry_run_param("Show what would be taken out; change nothing."),
    }
    about = f"Take Evenkeel out of the tables of {spec.table}"
    with table_dag("release", spec, about, defaults) as dag:
        arguments = {"--spec": file, "--release": "yes"}
        arguments |= switches("dry_run", "drop_columns", "registry_lost")
        op.SparkJob(task_id="release", job="adopt", arguments=arguments)
    dag.params.update(params)
    return dag
