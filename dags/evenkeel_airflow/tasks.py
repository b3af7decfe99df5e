"""The steps between Spark jobs as Airflow tasks: decide, plan, publish, report.

Every scheduler loop parses this module. Each task therefore imports what it needs when it runs.
Retries are those of the DAG or task group, as its `default_args` have them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, TriggerRule, task

from evenkeel_airflow.airflow_versions import (
    AirflowFailException,
    AirflowSkipException,
    gauge,
)
from evenkeel_airflow.operators import one_line, run_name, task_states
from evenkeel_airflow.operators.runs import AIRFLOWS_OWN

if TYPE_CHECKING:
    from evenkeel.spec.run_params import Params


def folder(spec: str, ti: Any) -> str:
    """Return the name of the folder of a task's run."""
    return run_name(spec, ti.dag_id, ti.run_id)


def run_params(ti: Any, params: Any) -> Params:
    """Return what a run was asked for. A task group leaves out Params that are its DAG's own."""
    from evenkeel.spec.run_params import Params

    known = Params.model_fields if "." in ti.task_id else {*params} - {*AIRFLOWS_OWN}
    return Params.of({name: value for name, value in params.items() if name in known})


@task
def decide(spec: str, *, ti: Any = None, params: Any = None) -> dict[str, Any]:
    """Decide whether to rebalance, and why; return the decision as JSON values."""
    from evenkeel.pipeline import steps

    with one_line():
        decision = steps.decide(spec, folder(spec, ti), run_params(ti, params))
    print(f"{'Rebalance' if decision.rebalance else 'No rebalance'}: {decision.reason}")
    return decision.to_dict()


@task
def plan(
    spec: str, decision: Mapping[str, Any] | None, *, ti: Any = None, params: Any = None
) -> str:
    """Plan the next epoch and return the plan's digest; skip if decide said no, with its reason."""
    from evenkeel.pipeline import steps

    if decision is None:
        # Somebody has marked decide as a success, and Airflow has no result of it then.
        raise AirflowFailException("decide has left no decision. Clear decide, and do not mark it")
    if not decision["rebalance"]:
        raise AirflowSkipException(decision["reason"])
    with one_line():
        return steps.plan(spec, folder(spec, ti), run_params(ti, params))


@task(task_id="plan")
def plan_rollback(spec: str, *, ti: Any = None, params: Any = None) -> str:
    """Plan the way back to an earlier epoch and return the plan's digest."""
    from evenkeel.pipeline import steps

    with one_line():
        dry_run = bool(params.get("dry_run"))
        return steps.plan_rollback(spec, folder(spec, ti), int(params["epoch"]), dry_run=dry_run)


@task(task_id="plan")
def plan_watch(spec: str, *, ti: Any = None) -> str:
    """Plan what the watch decided and return the plan's digest.

    If the watch decided nothing, the task is skipped with the watch's own message.
    """
    from evenkeel.pipeline import steps

    with one_line():
        digest = steps.plan_watch(spec, folder(spec, ti))
        if digest is None:
            raise AirflowSkipException(steps.watch_message(spec))
    return digest


def asset(table: str) -> Asset:
    """Return the asset that `publish` updates, with the epoch's number in `extra`."""
    return Asset(f"evenkeel://{table}")


@task
def publish(spec: str, table: str, *, ti: Any = None, outlet_events: Any = None) -> int:
    """Make the plan's function the current epoch and return its number."""
    from evenkeel.pipeline import steps

    with one_line():
        number = steps.publish(spec, folder(spec, ti))
    outlet_events[asset(table)].extra = {"epoch": number}
    return number


@task(trigger_rule=TriggerRule.ALL_DONE)
def report(spec: str, *, ti: Any = None) -> str | None:
    """Render the run's page, however the run went, and return the page's path.

    If an earlier task failed, this task fails too. Otherwise Airflow would show a run that was
    rolled back as a success. A task group whose tasks were all skipped skips this task, too, and
    so what the DAG has after the group.
    """
    from evenkeel.pipeline import steps
    from evenkeel.pipeline.metrics import run_metrics

    with one_line():
        run = folder(spec, ti)
        page = steps.report(spec, run)
        whose, numbers = run_metrics(spec, run)
    print(f"Report: {page}")
    print(f"evenkeel: measures: {json.dumps({**whose, **numbers}, sort_keys=True)}")
    for name, value in numbers.items():
        gauge(f"evenkeel.{whose['table']}.{name}", value)
    states = task_states(ti, ti.run_id, ti.task_id)
    failed = [name for name, state in states.items() if state == "failed"]
    if failed:
        raise AirflowFailException(_failure(numbers, failed, page))
    if missing := [name for name, state in states.items() if state == "upstream_failed"]:
        raise AirflowFailException(
            f"{', '.join(missing)} did not run, because a task before them failed. Clear that task"
        )
    if {state for name, state in states.items() if name != "report"} == {"skipped"}:
        raise AirflowSkipException("every task before report was skipped")
    return page


def _failure(numbers: Mapping[str, Any], failed: Collection[str], page: str) -> str:
    """Return how a run has ended in which tasks failed, and what to do if it published."""
    where = ", ".join(failed)
    # By the run's files: roll_back also publishes what verify has passed, and ends well then.
    if numbers.get("published"):
        # If publish alone were cleared, Airflow would not run it behind a task that failed.
        first = next((name for name in ("migrate", "verify") if name in failed), "publish")
        return (
            f"The run failed at {where}, but its epoch is published. Clear {first} with the tasks "
            f"after it, so that DAGs that wait for the epoch start. Report: {page}"
        )
    if numbers.get("rolled_back"):
        return f"The run failed at {where}, and was rolled back. Read the log, or {page}"
    return f"The run failed at {where}. Read the log, or {page}"
