"""Answers to Airflow's question, whether a plan may move state."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.pipeline import steps
from evenkeel.render.formatting import bytes_text, seconds_text
from tests.support.airflow_env import airflow_db, waits  # noqa: F401  a fixture
from tests.support.pages.questions import HOME, approve_of
from tests.support.plugin_site import (
    Site,
    dag_runs,
    made_site,  # noqa: F401  a fixture
)
from tests.support.raw_json import write_json

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.airflow


def csrf(client: Any, path: str) -> str:
    return re.search(r'name="csrf" value="([^"]*)"', client.get(path).text)[1]  # type: ignore[index]


def chosen(name: str) -> tuple[list[str] | None, str]:
    """What was answered, by Airflow's own record, and the state of the task."""
    from airflow.utils.session import create_session

    with create_session() as session:
        task = approve_of(session)
        return task.hitl_detail.chosen_options, str(task.state)


def test_a_question_of_this_very_moment_cannot_be_answered_yet(
    site: Site, asking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui.airflow_runs import runs

    monkeypatch.setattr(runs, "SETTLED", timedelta(minutes=2))
    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    text = client.get(path).text
    assert 'data-follow="the run"' in text and 'value="approve"' not in text
    data = {"csrf": csrf(client, f"{HOME}/rebalance"), "decision": "approve"}
    assert client.post(f"{path}/answer", data=data).status_code == 409
    assert chosen(asking) == (None, waits())


def test_a_question_can_be_answered_once_its_scheduler_has_gone_on(site: Site, asking: str) -> None:
    """Told by its heartbeat, while it lives; a task that has ended asks nothing."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session

    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    now = datetime.now(UTC)
    with create_session() as session:
        job = Job(job_type="SchedulerJob", state="running")
        job.latest_heartbeat = now - timedelta(minutes=2)
        session.add(job)
        session.flush()
        approve_of(session).queued_by_job_id = job.id
        number = job.id
    for beat, state, task, offered in (
        (-120, "running", waits(), False),
        (-50, "running", waits(), True),
        (-120, "failed", waits(), True),
        (-50, "running", "failed", False),
    ):
        with create_session() as session:
            job = session.get(Job, number)
            assert job is not None
            job.latest_heartbeat, job.state = now + timedelta(seconds=beat), state
            found = approve_of(session)
            found.state, found.updated_at = task, now - timedelta(minutes=1)
        assert ('value="approve"' in client.get(path).text) == offered, (beat, state, task)
    data = {"csrf": csrf(client, f"{HOME}/rebalance"), "decision": "approve"}
    assert client.post(f"{path}/answer", data=data).status_code == 409
    assert chosen(asking) == (None, "failed")


@pytest.mark.parametrize(("decision", "option"), [("approve", "Approve"), ("refuse", "Reject")])
def test_an_answer_is_airflows_own_and_for_that_plan_alone(
    site: Site, asking: str, decision: str, option: str
) -> None:
    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    digest = steps.read_plan(site.registry.run(asking)).digest
    site.registry.run(asking).write("report.html", b"of an earlier attempt")
    text = client.get(path).text
    site.registry.run(asking).remove("report.html")
    # It goes on where somebody answers elsewhere.
    assert 'value="approve"' in text and 'data-follow="what it asks"' in text
    assert "4,800 rows moved" not in text
    for whose, shown in (("another", False), (digest, True)):
        left = {
            "digest": whose,
            "back": False,
            "rows": 1200,
            "planned": 4800.0,
            "bytes": 34_000,
            "left": 90.0,
        }
        write_json(site.registry.run(asking), "progress.json", left)
        now = client.get(path).text
        assert (
            f"1,200 of 4,800 rows moved, {bytes_text(34e3)} written; about {seconds_text(90)} left"
            in now
        ) == shown
    site.registry.run(asking).remove("progress.json")
    # Nor does it tell of an earlier attempt, which was answered.
    assert "Report of this run" not in text
    looked = site.client("vic").get(path).text
    assert "You may not answer plans of words" in looked and 'value="approve"' not in looked
    data = {"csrf": csrf(client, path), "decision": decision, "digest": digest}
    extra = client.post(f"{path}/answer", data={**data, "dry-run": "<b>"})
    assert extra.status_code == 422 and "Unknown fields: &#39;dry-run&#39;" in extra.text
    assert chosen(asking) == (None, waits())
    other = client.post(f"{path}/answer", data={**data, "digest": "0" * 64})
    assert other.status_code == 409 and "another one" in other.text
    assert chosen(asking) == (None, waits())
    # The plan was replaced after Airflow asked: nobody has been asked about this one.
    site.shop.plan(asking, force=True, max_imbalance=1.3)
    newer = steps.read_plan(site.registry.run(asking)).digest
    assert newer != digest
    assert client.post(f"{path}/answer", data={**data, "digest": newer}).status_code == 409
    assert chosen(asking) == (None, waits())
    site.shop.plan(asking, force=True)
    assert client.post(f"{path}/answer", data=data).status_code == 303
    # Before Airflow 3.3 the triggerer sees the answer, and lets the task go on.
    goes_on = "scheduled" if waits() != "deferred" else "deferred"
    assert chosen(asking) == ([option], goes_on)
    assert client.post(f"{path}/answer", data=data).status_code == 409


def test_a_run_is_stopped_although_its_plan_is_torn(site: Site, asking: str) -> None:
    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    data = {"csrf": csrf(client, path), "decision": "stop"}
    site.registry.run(asking).write("plan.json", b"{")
    assert client.post(f"{path}/recover", data=data).status_code == 303
    assert dag_runs("rebalance_words")[-1].state == "failed"


def test_a_run_that_is_stopped_while_it_asks_counts_as_refused(site: Site, asking: str) -> None:
    """The watch waits for a plan that a run may still carry out."""
    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    folder = site.registry.run(asking)
    data = {"csrf": csrf(client, path), "decision": "stop"}
    assert client.post(f"{path}/recover", data=data).status_code == 303
    answer = folder.approval.read()
    assert answer.refuses(steps.read_plan(folder).digest) and answer.by == "uma"
