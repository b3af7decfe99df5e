"""Many tables, with what their runs have left in Airflow's database."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.support import airflow_env  # noqa: F401  sets Airflow's home before it is imported

#: When the first run of each table began.
FIRST = datetime(2026, 11, 1, tzinfo=UTC)


def write_tables(folder: Path, spec_file: str, registry: str, count: int) -> list[str]:
    """Write the specs of `count` tables, each with a copy of the registry; return their names."""
    folder.mkdir()
    spec = yaml.safe_load(Path(spec_file).read_text())
    names = [f"t{number}" for number in range(count)]
    for name in names:
        place = folder / f"files_{name}"
        shutil.copytree(registry.removeprefix("file://"), place / "registry")
        state = {n: {**s, "path": str(place / n)} for n, s in spec["state"].items()}
        own = {**spec, "table": name, "registry": str(place / "registry"), "state": state}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(own))
    return names


def record_runs(names: Sequence[str], count: int, newest: dict[str, str]) -> None:
    """Write `count` daily rebalances of each table, with all their tasks, to Airflow's database.

    Parameters
    ----------
    newest : table -> state of its newest run, and of the task `migrate` in it; others succeeded
    """
    from airflow import settings
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy.orm import Session

    from evenkeel_ui.airflow_runs.runs import ORDER

    runs: list[dict[str, Any]] = []
    tasks: list[dict[str, Any]] = []
    for name in names:
        for day in range(count):
            began = FIRST + timedelta(days=day)
            run = {"dag_id": f"rebalance_{name}", "run_id": f"scheduled__{began.isoformat()}"}
            state = newest.get(name, "success") if day == count - 1 else "success"
            ended = None if state == "running" else began + timedelta(minutes=5)
            when = {"run_after": began, "start_date": began, "end_date": ended}
            runs.append({**run, **when, "run_type": "scheduled", "state": state})
            at = ORDER.index("migrate")
            for place, task in enumerate(ORDER):
                after = "success" if state == "success" or place < at else None
                now = state if place == at else after
                common = {"pool": "default_pool", "map_index": -1, "try_number": 1}
                tasks.append({**run, **common, "task_id": task, "state": now, "end_date": ended})
    # A connection of its own: Airflow's sessions are one a thread, and close each other.
    with Session(settings.engine) as session, session.begin():
        for dag in (f"rebalance_{name}" for name in names):
            if session.get(DagModel, dag) is None:
                session.add(DagModel(dag_id=dag, bundle_name="dags-folder", is_paused=False))
    with settings.engine.begin() as connection:
        connection.execute(DagRun.__table__.insert(), runs)
        connection.execute(TaskInstance.__table__.insert(), tasks)
