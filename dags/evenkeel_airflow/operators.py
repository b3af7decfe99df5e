"""What Evenkeel's DAGs are made of: a Spark job, a step between jobs, a person's approval.

Parsed by every scheduler loop, so nothing heavy is imported up here: steps load what they need
when they run.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Asset, TriggerRule, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}
#: How Airflow tells the exit code of a job that could not reach its cluster or a store.
_MAY_PASS = "Error code is: 75."
#: States of a task that never began.
_NEVER_BEGAN = {None, "skipped", "upstream_failed", "removed"}


def schedule_problem(schedule: str | None) -> str | None:
    """What Airflow has against a schedule; None: nothing."""
    try:
        DAG("schedule", schedule=schedule, start_date=datetime(2024, 1, 1, tzinfo=UTC)).validate()
    except (AirflowException, ValueError) as error:
        return f"{error} (got {schedule!r})"
    return None


def job_file(job: str) -> str:
    """Path of a job's file, found without importing it."""
    package = importlib.util.find_spec("evenkeel_spark")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("evenkeel_spark is not installed beside these DAGs")
    return str(Path(package.submodule_search_locations[0]) / "jobs" / f"{job}.py")


class SparkJob(SparkSubmitOperator):
    """Run `spark_jobs/<job>.py` by spark-submit, through the connection `spark_default`.

    Parameters
    ----------
    job : name of the job
    arguments : option -> value (templated); an option whose value comes out empty is left out
    """

    def __init__(self, *, job: str, arguments: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(
            application=job_file(job),
            application_args=[part for pair in arguments.items() for part in pair],
            name=f"evenkeel {job}",
            **{**RETRIES, **kwargs},
        )

    def execute(self, context: Any) -> None:
        """Submit and wait. Our own errors (wrong input, a fence, a gate) end the task at once, in
        their own words; only what nobody foresaw is tried again."""
        self.application_args = _without_empty(self.application_args or [])
        try:
            super().execute(context)
        except AirflowException as error:
            said = re.findall(r"evenkeel: error: (.*)", str(error))
            if said and _MAY_PASS not in str(error):
                raise AirflowFailException(said[-1]) from None
            raise


class Watch(SparkJob):
    """The job that looks at the newest micro-batch; where others move state, or are about to, it
    counts it and decides nothing.

    Parameters
    ----------
    others : the DAGs of those who do
    """

    def __init__(self, *, others: Sequence[str], **kwargs: Any) -> None:
        super().__init__(job="watch", **kwargs)
        self.others = others

    def execute(self, context: Any) -> None:
        """Ask Airflow for runs of the others, and run the job."""
        for dag in self.others:
            if context["ti"].get_dr_count(dag_id=dag, states=["queued", "running"]):
                self.application_args = [*self.application_args, "--busy", f"{dag} is running"]
                break
        super().execute(context)


class RollBack(SparkJob):
    """The job that takes a failed migration back; skipped where none has begun."""

    def execute(self, context: Any) -> None:
        """Run the job if migrate ran."""
        if _states(context["ti"], context["run_id"]).get("migrate") in _NEVER_BEGAN:
            raise AirflowSkipException("nothing has moved")
        super().execute(context)


class Repair(SparkJob):
    """The job that brings tables to the epoch in force; not while others move state, whom it would
    stop.

    Parameters
    ----------
    others : the DAGs of those who do
    """

    def __init__(self, *, others: Sequence[str], **kwargs: Any) -> None:
        super().__init__(job="repair", **kwargs)
        self.others = others

    def execute(self, context: Any) -> None:
        """Refuse while one of the others runs, unless nothing is to be changed; run the job."""
        running = [
            dag
            for dag in self.others
            if context["ti"].get_dr_count(dag_id=dag, states=["queued", "running"])
        ]
        if running and not context["params"].get("dry_run"):
            raise AirflowFailException(
                f"{', '.join(running)} is running: let it end, or mark its run as failed, then "
                "clear this task"
            )
        super().execute(context)


class Approve(ApprovalOperator):
    """Lets a plan pass under the spec's limit, and asks a person over it. Tried again, it asks
    again: an answer that a scheduler lost, or a store that was down, is not taken for read.

    Parameters
    ----------
    spec : path of the table's spec
    """

    def __init__(self, *, spec: str, **kwargs: Any) -> None:
        super().__init__(subject="Move state?", **{**RETRIES, **kwargs})
        self.spec = spec

    def execute(self, context: Any) -> Any:
        """Pass, ask, or skip (a dry run ends here)."""
        from evenkeel.pipeline import approval

        if context["params"].get("dry_run"):
            raise AirflowSkipException("dry run: nothing moves")
        with one_line():
            request = approval.request(self.spec, context["run_id"])
            if request is None:
                self.log.info("Under the spec's limit: nobody needs to be asked")
                self._record(context, True, "the spec's limit", datetime.now(UTC), asked=False)
                return None
            approval.ask(self.spec, context["run_id"])
        self.subject, self.body = request.subject, request.body
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Take the answer. Rejected: everything after is skipped and the run ends well."""
        if "error" not in event:
            approved = event["chosen_options"] == [self.APPROVE]
            user = event.get("responded_by_user") or {}
            by = user.get("name") or user.get("id") or "unknown"
            with one_line():
                self._record(context, approved, by, event["responded_at"], asked=True)
        return super().execute_complete(context, event)

    def _record(self, context: Any, approved: bool, by: str, when: datetime, asked: bool) -> None:
        from evenkeel.pipeline import approval

        at = when.isoformat(timespec="seconds")
        approval.record(self.spec, context["run_id"], approved, by, at, asked)


@task(**RETRIES)
def decide(spec: str, *, run_id: Any = None, params: Any = None) -> dict[str, Any]:
    """Whether to rebalance, and why."""
    from evenkeel.pipeline import steps

    with one_line():
        decision = steps.decide(spec, run_id, steps.Params.of(dict(params)))
    print(f"{'Rebalance' if decision.rebalance else 'No rebalance'}: {decision.reason}")
    return decision.to_dict()


@task(**RETRIES)
def plan(spec: str, decision: Mapping[str, Any], *, run_id: Any = None, params: Any = None) -> str:
    """Plan the next epoch; returns the plan's digest. Skipped with the reason that decide gave."""
    from evenkeel.pipeline import steps

    if not decision["rebalance"]:
        raise AirflowSkipException(decision["reason"])
    with one_line():
        return steps.plan(spec, run_id, steps.Params.of(dict(params)))


@task(task_id="plan", **RETRIES)
def plan_rollback(spec: str, *, run_id: Any = None, params: Any = None) -> str:
    """Plan the way back to an earlier epoch; returns the plan's digest."""
    from evenkeel.pipeline import steps

    with one_line():
        return steps.plan_rollback(spec, run_id, int(params["epoch"]))


@task(task_id="plan", **RETRIES)
def plan_watch(spec: str, *, run_id: Any = None) -> str:
    """Plan what the watch has decided; returns the plan's digest. Skipped with what it says where
    it has decided nothing."""
    from evenkeel.pipeline import steps

    with one_line():
        digest = steps.plan_watch(spec, run_id)
        if digest is None:
            raise AirflowSkipException(steps.watch_message(spec))
    return digest


@task(**RETRIES)
def validate_plan(spec: str, *, run_id: Any = None) -> None:
    """The expectations that a plan must meet before anybody is asked or anything moves."""
    # It tells how it registers itself, hundreds of lines long.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    from evenkeel.pipeline import steps

    with one_line():
        steps.validate_plan(spec, run_id)


def asset(table: str) -> Asset:
    """What other DAGs follow: updated with each epoch of the table, its number in `extra`."""
    return Asset(f"evenkeel://{table}")


@task(**RETRIES)
def publish(spec: str, table: str, *, run_id: Any = None, outlet_events: Any = None) -> int:
    """Make the plan's function the current epoch; returns its number."""
    from evenkeel.pipeline import steps

    with one_line():
        number = steps.publish(spec, run_id)
    outlet_events[asset(table)].extra = {"epoch": number}
    return number


@task(trigger_rule=TriggerRule.ALL_DONE, **RETRIES)
def report(spec: str, *, run_id: Any = None, ti: Any = None) -> str | None:
    """Render the run's page, however the run went; then fail if any task before it failed, so
    that a run that was rolled back does not look like one that went well."""
    from airflow.sdk.observability import stats

    from evenkeel.pipeline import steps
    from evenkeel.pipeline.metrics import run_metrics

    with one_line():
        page = steps.report(spec, run_id)
        whose, numbers = run_metrics(spec, run_id)
    print(f"Report: {page}")
    print(f"evenkeel: measures: {json.dumps({**whose, **numbers}, sort_keys=True)}")
    for name, value in numbers.items():
        stats.gauge(f"evenkeel.{whose['table']}.{name}", value)
    states = _states(ti, run_id)
    failed = [name for name, state in states.items() if state == "failed"]
    if failed:
        back = ", and was rolled back" if states.get("roll_back") == "success" else ""
        raise AirflowFailException(f"The run failed at {', '.join(failed)}{back}. Report: {page}")
    return page


@contextmanager
def one_line() -> Iterator[None]:
    """Our own errors fail the task at once, in their own words: trying again is no use, unless it
    is the store that is down."""
    from evenkeel.pipeline.steps import EvenkeelError
    from evenkeel.registry.store import DeniedError, StoreError

    try:
        yield
    except EvenkeelError as error:
        if isinstance(error, StoreError) and not isinstance(error, DeniedError):
            raise AirflowException(str(error)) from None
        raise AirflowFailException(str(error)) from None


def _states(ti: Any, run_id: str) -> dict[str, str | None]:
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id])
    return dict(states.get(run_id, {}))


def _without_empty(arguments: Sequence[str]) -> list[str]:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    return [part for name, value in pairs if value not in ("", None) for part in (name, value)]
