"""The folder of a run, the states of its tasks, and how errors of ours end a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

from airflow.exceptions import AirflowException

from evenkeel_airflow.airflow_versions import AirflowFailException

#: Beginning of the id of each DAG of a table, and so its kind.
Kind = Literal["rebalance", "roll_back", "maintain", "repair", "apply", "watch", "adopt", "release"]
#: Names that Airflow's own operators add to the conf of a run that they trigger.
AIRFLOWS_OWN = ("openlineage",)


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


def check_conf(context: Mapping[str, Any], dag: Any) -> None:
    """Refuse the conf of a run if a DAG of a table would ignore a part of it.

    A typo must not turn a dry run into a real one. A DAG of a team's own may have conf of its own.

    Raises
    ------
    InputError : names the part
    """
    from partitioning.errors import InputError

    run = context.get("dag_run")
    if run is None or dag is None:
        return
    tables = {*dag.tags} - {"evenkeel"}
    ids = {f"{kind}_{table}" for kind in get_args(Kind) for table in tables}
    ours = len(tables) < len(dag.tags) and dag.dag_id in ids
    for name, value in (run.conf or {}).items() if ours else ():
        where = f"conf of run {run.run_id}"
        if name in AIRFLOWS_OWN:
            continue
        if name not in dag.params:
            known = ", ".join(dag.params) or "none"
            raise InputError(f"unknown name {name!r}", where, f"Known: {known}")
        if context["params"][name] != value:
            raise InputError(
                f"Airflow ignores {name} = {value!r} and takes {context['params'][name]!r}",
                where,
                "Set [core] dag_run_conf_overrides_params to True",
            )


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
