"""The folder of a run, the states of its tasks, and how errors of ours end a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.exceptions import AirflowException

from evenkeel_airflow.airflow_versions import AirflowFailException


class AirflowGateError(AirflowFailException):
    """A data-quality gate did not pass; notifiers tell of it."""


@contextmanager
def one_line() -> Iterator[None]:
    """Turn our own errors into Airflow's, with the message as one line.

    A retry cannot help, so the task fails at once. The exception is a store that does not answer:
    Airflow tries that again.
    """
    from partitioning.errors import EvenkeelError, GateError

    try:
        yield
    except GateError as error:
        raise AirflowGateError(str(error)) from None
    except EvenkeelError as error:
        kind = AirflowException if error.retry else AirflowFailException
        raise kind(str(error)) from None


def run_name(spec: str, dag: str, run: str, first: bool = False) -> str:
    """Return the name of the folder of a DAG's run; `first`: for the first task of the run."""
    from evenkeel.registry.epochs import Registry
    from evenkeel.registry.run_folder import find_folder
    from evenkeel.spec.loading import load_spec

    return find_folder(Registry(load_spec(spec).registry).store, dag, run, first=first)


def sibling(task: str, name: str) -> str:
    """Return the id of the task `name` in the task group of a task; outside of groups, the name."""
    group, dot, _ = task.rpartition(".")
    return f"{group}{dot}{name}"


def task_states(ti: Any, run_id: str, task: str) -> dict[str, str | None]:
    """Return name -> state of the tasks of a DAG run that are in the task group of a task."""
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id]).get(run_id, {})
    group = sibling(task, "")
    return {
        name.removeprefix(group): state for name, state in states.items() if name.startswith(group)
    }
