"""Differences between the versions of Airflow that the pages run on: 3.1 to 3.3."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.datamodels.task_instances import ClearTaskInstancesBody
from airflow.api_fastapi.core_api.routes.public.task_instances import post_clear_task_instances
from airflow.models.dag import DagModel
from sqlalchemy.orm import Session

#: States of a task that waits for a person's answer: since Airflow 3.3, and before.
WAITING = frozenset({"awaiting_input", "deferred"})


def teams_of(dags: Sequence[str]) -> dict[str, str | None]:
    """Return DAG -> name of its team, with one query where Airflow has it (3.2)."""
    if hasattr(DagModel, "get_dag_id_to_team_name_mapping"):
        return DagModel.get_dag_id_to_team_name_mapping(list(dags))
    return {dag: DagModel.get_team_name(dag) for dag in dags}


def readable_of_team(
    manager: BaseAuthManager[Any], user: BaseUser, dags: set[str], team: str | None
) -> set[str]:
    """Return those of a team's DAGs that the user may read; auth managers have no teams before 3.2.

    Airflow's own lists ask so.
    """
    ask = manager.filter_authorized_dag_ids
    takes_team = "team_name" in signature(ask).parameters
    return ask(dag_ids=dags, user=user, **({"team_name": team} if takes_team else {}))


def clear_tasks(
    dag: str, bag: Any, body: ClearTaskInstancesBody, session: Session, user: BaseUser
) -> None:
    """Clear tasks as Airflow's API does; since Airflow 3.3 it takes the user, too."""
    takes_user = "user" in signature(post_clear_task_instances).parameters
    # The function writes to the session. FastAPI would turn its result into the answer.
    post_clear_task_instances(dag, bag, body, session, **({"user": user} if takes_user else {}))
