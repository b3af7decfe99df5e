"""Runs that failed or ended, and what a person presses on their pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, inspect

from evenkeel.pipeline.steps import read_plan
from partitioning.errors import InputError
from tests.support.plugin_site import Site, end_runs, forget_runs, start, token
from tests.support.raw_json import write_json

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session


HOME = "/evenkeel/tables/words"
DONE, PLANNED = 2, 11
MADE, MOVES = 1, 4
#: How far that run has come, as pages say it.
SO_FAR = f"{MADE} of {MOVES} moves done ({DONE} of {PLANNED} rows)"
ERROR = "state/counts: 12 bytes are written, the next batch takes 9, and the budget is 20"


def run_called(session: Session, name: str) -> DagRun:
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    from evenkeel.registry.run_folder import folder_name

    (run,) = [r for r in session.scalars(select(DagRun)) if folder_name(r.dag_id, r.run_id) == name]
    return run


def states(name: str) -> dict[str, str | None]:
    """The state of the run, as "", and of each of its tasks."""
    from airflow.utils.session import create_session

    with create_session() as session:
        run = run_called(session, name)
        tasks = {t.task_id: t.state and str(t.state) for t in run.task_instances}
        return {**tasks, "": str(run.state)}


def failed_at(name: str, task: str, said: str) -> None:
    """Let the run have failed at that task, whose log says this."""
    from airflow.configuration import conf
    from airflow.utils.log.log_reader import TaskLogReader
    from airflow.utils.session import create_session

    with create_session() as session:
        run = run_called(session, name)
        run.state, run.start_date, run.end_date = "failed", run.queued_at, run.queued_at
        before = True
        for instance in sorted(run.task_instances, key=lambda t: _order(t.task_id)):
            before = before and instance.task_id != task
            instance.state = "success" if before else "upstream_failed"
            if instance.task_id == task:
                instance.state, instance.try_number = "failed", 1
                instance.end_date = datetime.now(UTC)
    with create_session() as session:
        failed = [t for t in run_called(session, name).task_instances if t.task_id == task]
        place = TaskLogReader().log_handler._render_filename(failed[0], 1)  # type: ignore[attr-defined]
    file = Path(conf.get("logging", "base_log_folder")) / place
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {"level": "info", "event": "a line of Spark's"},
        {"level": "error", "event": f"evenkeel: error: {said}"},
        {"level": "error", "event": "Task failed with exception"},
    ]
    at = {"timestamp": "2013-02-01T00:00:00Z"}
    file.write_text("".join(json.dumps(at | line) + "\n" for line in lines))


def _order(task: str) -> int:
    from evenkeel_ui.airflow_runs.runs import ORDER

    return ORDER.index(task) if task in ORDER else len(ORDER)


@pytest.fixture
def broken(site: Site) -> Iterator[str]:
    """Name of a run that failed while it moved rows: the table stands half moved."""
    where = start(site.client("uma"), f"{HOME}/rebalance", {"force": "true"})
    name = where.headers["location"].rsplit("/", 1)[1]
    site.shop.learn(name)
    site.shop.plan(name, force=True)
    folder = site.registry.run(name)
    plan = read_plan(folder)
    told = {"digest": plan.digest, "epoch": plan.function.epoch, "tables": {}}
    write_json(folder, "migration.json", told)
    told = {"digest": plan.digest, "rows": DONE, "planned": PLANNED, "bytes": 12, "left": 3.0}
    told |= {"moves": MADE, "moves_planned": MOVES}
    write_json(folder, "progress.json", told)
    failed_at(name, "migrate", ERROR)
    yield name
    end_runs()
    for file in site.registry.store.names(f"runs/{name}"):
        folder.remove(file)


def undo_failed(site: Site, name: str, state: str = "failed") -> str:
    """Let roll_back of that failed run have ended so, after its mark; return the error it left."""
    from airflow.utils.session import create_session

    from evenkeel.registry.job_error import leave_error

    folder = site.registry.run(name)
    write_json(folder, "rolled_back.json", {"digest": read_plan(folder).digest, "done": False})
    with create_session() as session:
        run = run_called(session, name)
        (task,) = [t for t in run.task_instances if t.task_id == "roll_back"]
        task.state, attempt = state, str(task.id)
        run.state = "failed" if state == "failed" else "running"
    told = "the cluster is down: no connection to it within 60 s"
    leave_error(site.registry, "roll_back", name, attempt, InputError(told))
    return told


def press(site: Site, user: str, run: str, decision: str) -> Any:
    data = {"csrf": token(user), "decision": decision}
    return site.client(user).post(f"{HOME}/runs/{run}/recover", data=data)


def ended(dag: str, state: str, days_ago: float, **more: Any) -> str:
    """Add a run of the DAG that ended so long ago, with `conf` and `tasks`; return its id."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    conf, tasks = more.get("conf", {}), more.get("tasks", {})
    end = datetime.now(UTC) - timedelta(days=days_ago)
    run_id = f"made__{days_ago}"
    with create_session() as session:
        ours = session.query(DagRun).filter(DagRun.dag_id == "rebalance_words")
        known = ours.order_by(DagRun.id).first()  # of all of them, the one that has tasks
        run = DagRun(dag_id=dag, run_id=run_id, run_type="manual", run_after=end, conf=conf)
        run.created_dag_version_id = known.created_dag_version_id
        run.state, run.start_date, run.end_date = state, end - timedelta(minutes=1), end
        session.add(run)
        if session.get(DagModel, dag) is None:
            session.add(DagModel(dag_id=dag, bundle_name="dags-folder"))
        session.flush()
        for name, task_state in tasks.items():
            task = known.task_instances[0]
            own = {c.key: getattr(task, c.key) for c in inspect(TaskInstance).column_attrs}
            own |= {"id": uuid4(), "dag_id": dag, "run_id": run_id, "task_id": name}
            own |= {"state": task_state, "end_date": end}
            session.execute(insert(TaskInstance).values(own))
    return run_id


@pytest.fixture
def alone(site: Site) -> Iterator[None]:
    """No run of any DAG is left from other tests."""
    forget_runs()
    yield
    forget_runs()
