"""Queries for the newest runs of DAGs, whose work does not grow with old runs that succeeded."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import DagRunState
from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    Subquery,
    and_,
    case,
    cast,
    exists,
    func,
    select,
    union,
)
from sqlalchemy.orm import aliased

from evenkeel_ui.statuses import NEVER

#: Newest runs of each DAG to look at, and newest successful ones. More than one: dry runs among
#: them do not count.
LATER = 20
_START = DagRun.dag_id, DagRun.start_date, DagRun.conf


def ranked_runs(dags: Collection[str]) -> Subquery:
    """Rank the newest `LATER` runs of each DAG, and all that have not succeeded.

    Returns
    -------
    Rows of id; place among the runs of its DAG; kind (1: failed, 2: dry run that succeeded, 0:
    other); place among those of its kind (among).
    """
    states = [state for state in DagRunState if state != DagRunState.SUCCESS]
    others = select(DagRun.id).where(DagRun.dag_id.in_(dags), DagRun.state.in_(states))
    chosen = union(_newest(dags), others).subquery()
    place = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.id.desc())
    kind = case(
        (DagRun.state == "failed", 1), (and_(DagRun.state == "success", dry_run()), 2), else_=0
    )
    among = func.row_number().over(partition_by=(DagRun.dag_id, kind), order_by=DagRun.id.desc())
    columns = DagRun.id, place.label("place"), kind.label("kind"), among.label("among")
    return select(*columns).join(chosen, chosen.c.id == DagRun.id).subquery()


def newest_successes(dags: Collection[str]) -> Select[*tuple[Any, ...]]:
    """Select DAG, start and conf of the newest runs of each DAG that have succeeded."""
    newest = _newest(dags, DagRunState.SUCCESS).subquery()
    return select(*_START).join(newest, newest.c.id == DagRun.id)


def published_since(dags: Collection[str], since: datetime) -> Select[*tuple[Any, ...]]:
    """Select DAG, start and conf of the runs that began after `since` and published an epoch."""
    published = exists().where(
        TaskInstance.dag_id == DagRun.dag_id,
        TaskInstance.run_id == DagRun.run_id,
        TaskInstance.task_id == "publish",
        TaskInstance.state == "success",
    )
    query = select(*_START).where(DagRun.dag_id.in_(dags), DagRun.state == "success", published)
    # Some databases have no such early moment.
    return query if since == NEVER else query.where(DagRun.start_date > since)


def dry_run() -> ColumnElement[bool]:
    """Return whether a run was asked to move nothing, as a condition of a query.

    Databases write true in two ways.
    """
    asked = cast(DagRun.conf["dry_run"].as_string(), String(8))
    return func.coalesce(asked, "").in_(("true", "1"))


def _newest(dags: Collection[str], state: DagRunState | None = None) -> Select[tuple[int]]:
    """Select the ids of the newest `LATER` runs of each DAG, in that state if it is given.

    An index gives the oldest of them, where it has rows in the order of their ids.
    """
    one = aliased(DagRun)
    oldest = select(one.id).where(one.dag_id == DagModel.dag_id)
    query = select(DagRun.id)
    if state is not None:
        oldest, query = oldest.where(one.state == state), query.where(DagRun.state == state)
    oldest = oldest.order_by(one.id.desc()).limit(1).offset(LATER - 1)
    since = func.coalesce(oldest.scalar_subquery(), 0).label("oldest")
    known = select(DagModel.dag_id, since).where(DagModel.dag_id.in_(dags)).subquery()
    return query.join(known, and_(known.c.dag_id == DagRun.dag_id, DagRun.id >= known.c.oldest))
