"""Say why a task failed, in one line: from the file that its job left, else from its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.models.taskinstance import TaskInstance
from airflow.utils.log.log_reader import TaskLogReader
from cachetools import TTLCache
from sqlalchemy import case, select
from sqlalchemy.orm import Session, joinedload

from evenkeel.registry.epochs import Registry
from evenkeel.registry.job_error import error_left
from evenkeel.registry.run_folder import find_folder
from evenkeel_ui.access import DagAccessEntity, may
from evenkeel_ui.airflow_runs.triage import RunRow
from evenkeel_ui.airflow_runs.windows import OPERATOR
from partitioning.errors import EvenkeelError

#: Messages of a log that are read for the error line: enough for hours of a Spark job.
MESSAGES = 50_000
#: Task -> its job, where their names differ.
JOBS = {"release": "adopt"}
#: Jobs that leave their errors beside the runs, because they have none.
WITHOUT_RUN = ("maintain", "repair", "apply_window", "adopt")
_MARK = "evenkeel: error: "
#: States of a task whose try has ended with an error.
_FAILED = ("failed", "up_for_retry")
#: Error lines that were read from logs, by the id, number and end of the try. The log of a try that
#: has ended stays the same, but may come late. So a line is read again after this many seconds.
_LINES: TTLCache[Any, str | None] = TTLCache(1024, 300)
_LOCK = Lock()


def error_line(
    session: Session, user: BaseUser, found: Registry, dag: str, run: str, task: str | None
) -> str | None:
    """Return the error of a failed task: from the job's error file, else from the task's log.

    The steps between the jobs leave their errors in the log alone. None: there is no error line, or
    the user may not read it.
    """
    if task is None or not may(user, "GET", dag, DagAccessEntity.TASK_LOGS):
        return None
    query = (
        select(TaskInstance)
        .where(TaskInstance.dag_id == dag, TaskInstance.run_id == run)
        .where(TaskInstance.task_id == task)
        # A mapped task has several parts: take one that failed, and the last of these.
        .order_by(case((TaskInstance.state.in_(_FAILED), 0), else_=1), TaskInstance.end_date.desc())
        .limit(1)
        .options(joinedload(TaskInstance.dag_model), joinedload(TaskInstance.trigger))
    )
    instance = session.scalar(query)
    if instance is None:
        return None
    job = "apply_window" if instance.operator == OPERATOR else JOBS.get(task, task)
    try:
        name = None if job in WITHOUT_RUN else find_folder(found.store, dag, run)
        left = error_left(found, job, name, str(instance.id))
    except EvenkeelError:
        left = None  # a store that is down has a line of its own on the page
    return _first_line(left.message) if left is not None else _logged(instance)


def why_no_error(
    user: BaseUser, rows: Iterable[RunRow], errors: Mapping[tuple[str, str], str | None]
) -> dict[tuple[str, str], str]:
    """Return (DAG, run) -> why no error is shown of a run that has one.

    Parameters
    ----------
    rows : the runs that a page lists
    errors : (DAG, run) -> error line, of the runs that the page has read
    """
    silent = [r for r in rows if r.error_task and not errors.get((r.dag, r.run))]
    return {(r.dag, r.run): _why(user, r.dag, (r.dag, r.run) in errors) for r in silent}


def _why(user: BaseUser, dag: str, was_read: bool) -> str:
    if not may(user, "GET", dag, DagAccessEntity.TASK_LOGS):
        return "You may not read its log, and so not its error."
    if was_read:
        return "Its log has no line that tells the error."
    return "Its error was not read for this list: open the run, or its log."


def _first_line(text: str | None) -> str | None:
    text = (text or "").strip()
    return text.splitlines()[0][:500] if text else None


def _logged(instance: TaskInstance) -> str | None:
    """Return the error line in the log of a task's try, from a cache if it was read before."""
    key = instance.id, instance.try_number, instance.end_date
    with _LOCK:
        if key in _LINES:
            return _LINES[key]
    try:
        line = _read_log(instance)
    except Exception as error:  # a log may be on any store, and no error of it may break the page
        return f"the log cannot be read ({type(error).__name__})"
    with _LOCK:
        _LINES[key] = line
    return line


def _read_log(instance: TaskInstance) -> str | None:
    """Read the error line in the log of a task's try."""
    said = last = None
    stream, _ = TaskLogReader().read_log_chunks(instance, instance.try_number, {})
    for count, message in enumerate(stream):
        text = str(getattr(message, "event", message))
        if _MARK in text:
            said = text.split(_MARK, 1)[1]
        elif (getattr(message, "level", None) or "") in ("error", "critical"):
            detail = getattr(message, "error_detail", None) or []
            last = str(detail[0].get("exc_value") or text) if detail else text
        if count >= MESSAGES:
            break
    return _first_line(said or last)
