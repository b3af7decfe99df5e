"""A run that asks before it moves anything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from evenkeel.pipeline import approval
from tests.support.airflow_env import waits
from tests.support.plugin_site import (
    Site,
    dag_runs,
    start,
)

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy.orm import Session


HOME = "/evenkeel/tables/words"


def approve_of(session: Session) -> TaskInstance:
    """The task `approve` of the newest run of the rebalance."""
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select
    from sqlalchemy.orm import joinedload

    run = dag_runs("rebalance_words")[-1].run_id
    asked = select(TaskInstance).where(
        TaskInstance.dag_id == "rebalance_words",
        TaskInstance.run_id == run,
        TaskInstance.task_id == "approve",
    )
    return session.scalars(asked.options(joinedload(TaskInstance.hitl_detail))).one()


@pytest.fixture
def asking(site: Site) -> Iterator[str]:
    """Name of a run whose plan waits for a person, as its `approve` task leaves it."""
    from airflow.models.hitl import HITLDetail
    from airflow.utils.session import create_session

    client = site.client("uma")
    where = start(client, f"{HOME}/rebalance", {"force": "true"})
    name = where.headers["location"].rsplit("/", 1)[1]
    site.shop.respec(approve_over=10)
    site.shop.learn(name)
    site.shop.plan(name, force=True)
    request = approval.request(site.shop.spec, name)
    assert request is not None
    approval.ask(site.shop.spec, name, request.digest)
    with create_session() as session:
        task = approve_of(session)
        task.state, task.updated_at = waits(), datetime.now(UTC) - timedelta(minutes=1)
        session.add(
            HITLDetail(
                ti_id=task.id,
                options=["Approve", "Reject"],
                subject=request.subject,
                body=request.body,
                multiple=False,
                params={},
            )
        )
    yield name
    site.shop.respec()
    for file in ("profile.npz", "profile.json"):
        site.registry.run(name).remove(file)
