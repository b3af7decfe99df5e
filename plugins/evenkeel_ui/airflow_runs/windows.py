"""Find the failed windows of a table in the DAGs of its team, by the operator `ApplyWindow`.

`apply_TABLE` is for windows by hand. The daily window is a task in a DAG that has any name, so it
is found by its operator. The spec among its rendered arguments says which table it writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session, aliased

from evenkeel.spec.catalog import load_unchanged
from evenkeel_ui.access import APPLY
from partitioning.errors import EvenkeelError

OPERATOR = "ApplyWindow"
#: Failed windows that one page shows, and those of all tables that it reads to find them.
MAX_FAILURES, MAX_READ = 100, 2_000


def failed_windows(session: Session, tables: Iterable[str]) -> dict[tuple[str, str, str], str]:
    """Return (DAG, run, task) -> table of each window that failed, and that no later one passed.

    Airflow has an index on the state of tasks, and the newest failures alone are read. So this
    costs little however many tasks there are.
    """
    if not (known := {*tables}):
        return {}
    later = aliased(TaskInstance)
    followed = exists().where(
        later.dag_id == TaskInstance.dag_id,
        later.task_id == TaskInstance.task_id,
        # The other parts of a mapped task of one run are other windows.
        or_(later.run_id != TaskInstance.run_id, later.map_index == TaskInstance.map_index),
        later.state.in_(("success", "failed")),
        later.end_date > TaskInstance.end_date,
    )
    query = (
        select(
            TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, Rendered.rendered_fields
        )
        .join(
            Rendered,
            (Rendered.dag_id == TaskInstance.dag_id)
            & (Rendered.run_id == TaskInstance.run_id)
            & (Rendered.task_id == TaskInstance.task_id)
            & (Rendered.map_index == TaskInstance.map_index),
        )
        .where(TaskInstance.state == "failed", TaskInstance.operator == OPERATOR, ~followed)
        .where(TaskInstance.dag_id.not_in([f"{APPLY}{table}" for table in known]))
        .order_by(TaskInstance.end_date.desc())
        .execution_options(yield_per=MAX_FAILURES)
    )
    found: dict[tuple[str, str, str], str] = {}
    # Failures of other tables may be newer than those of these tables.
    with session.execute(query) as failures:
        for dag, run, task, fields in islice(failures, MAX_READ):
            table = _table_of(fields or {})
            if table in known:
                found[dag, run, task] = table
            if len(found) == MAX_FAILURES:
                break
    return found


def _table_of(fields: dict[str, object]) -> str | None:
    """Return the name of the table that a task's rendered arguments are about."""
    arguments = fields.get("application_args")
    if not isinstance(arguments, list) or "--spec" not in arguments[:-1]:
        return None
    spec = Path(str(arguments[arguments.index("--spec") + 1]))
    try:
        return load_unchanged(spec).table
    except (EvenkeelError, OSError, ValueError):
        # The file may be on the worker alone.
        return spec.stem
