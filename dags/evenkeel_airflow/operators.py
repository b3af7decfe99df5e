"""Airflow operators of Evenkeel: a Spark job and its variants, and a person's approval.

Every scheduler loop parses this module. Heavy imports are therefore inside the functions.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}
#: Text in Airflow's error if a job could not reach its cluster or a store (exit code 75).
_MAY_PASS = "Error code is: 75."
#: States of a task that did not start.
_NOT_STARTED = {None, "skipped", "upstream_failed", "removed"}


def schedule_problem(schedule: str | None) -> str | None:
    """Return why Airflow refuses a schedule; None if it accepts it."""
    try:
        DAG("schedule", schedule=schedule, start_date=datetime(2024, 1, 1, tzinfo=UTC)).validate()
    except (AirflowException, ValueError) as error:
        return f"{error} (got {schedule!r})"
    return None


def job_file(job: str) -> str:
    """Return the path of a job's file, without importing the job."""
    package = importlib.util.find_spec("evenkeel_spark")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError(
            "expected the package evenkeel_spark on the Python path of these DAGs, found none: "
            "install the evenkeel wheel, or put the folder spark_jobs/ on PYTHONPATH"
        )
    return str(Path(package.submodule_search_locations[0]) / "jobs" / f"{job}.py")


class SparkJob(SparkSubmitOperator):
    """Run `spark_jobs/<job>.py` by spark-submit, through the connection `spark_default`.

    Parameters
    ----------
    job : name of the job
    arguments : option -> value (a template); an option whose value renders empty is left out
    """

    def __init__(self, *, job: str, arguments: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(
            application=job_file(job),
            application_args=[part for pair in arguments.items() for part in pair],
            name=f"evenkeel {job}",
            **{**RETRIES, **kwargs},
        )

    def execute(self, context: Any) -> None:
        """Submit the job and wait for it.

        Our own errors (wrong input, a fence, a gate) fail the task at once with their message,
        because a retry cannot help. Other errors, and an unreachable store, are tried again.
        """
        self.application_args = _without_empty(self.application_args or [])
        try:
            super().execute(context)
        except AirflowException as error:
            said = re.findall(r"evenkeel: error: (.*)", str(error))
            if said and _MAY_PASS not in str(error):
                raise AirflowFailException(said[-1]) from None
            raise


class Watch(SparkJob):
    """Run the job that looks at the newest micro-batch.

    If another DAG moves state, or is about to, the job counts the micro-batch and decides nothing.

    Parameters
    ----------
    others : ids of the DAGs that move state
    """

    def __init__(self, *, others: Sequence[str], **kwargs: Any) -> None:
        super().__init__(job="watch", **kwargs)
        self.others = others

    def execute(self, context: Any) -> None:
        """Look for active runs of the other DAGs, then run the job."""
        for dag in self.others:
            if context["ti"].get_dr_count(dag_id=dag, states=["queued", "running"]):
                self.application_args = [*self.application_args, "--busy", f"{dag} is running"]
                break
        super().execute(context)


class RollBack(SparkJob):
    """Run the job that undoes a failed migration; skip it if no migration started."""

    def execute(self, context: Any) -> None:
        """Run the job if migrate ran."""
        if task_states(context["ti"], context["run_id"]).get("migrate") in _NOT_STARTED:
            raise AirflowSkipException("nothing has moved")
        super().execute(context)


class Repair(SparkJob):
    """Run the job that brings tables to the current epoch.

    It refuses while another DAG moves state, because it would stop that migration.

    Parameters
    ----------
    others : ids of the DAGs that move state
    """

    def __init__(self, *, others: Sequence[str], **kwargs: Any) -> None:
        super().__init__(job="repair", **kwargs)
        self.others = others

    def execute(self, context: Any) -> None:
        """Refuse if another DAG runs, unless this is a dry run; then run the job."""
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
    """Let a plan pass if it moves less than the spec's limit; otherwise ask a person.

    A retry asks again. An answer that was lost, by a scheduler or a store that was down, does not
    count.

    Parameters
    ----------
    spec : path of the table's spec
    """

    def __init__(self, *, spec: str, **kwargs: Any) -> None:
        super().__init__(subject="Move state?", **{**RETRIES, **kwargs})
        self.spec = spec

    def execute(self, context: Any) -> Any:
        """Let the plan pass, ask a person, or skip; a dry run ends here."""
        from evenkeel.pipeline import approval

        if context["params"].get("dry_run"):
            raise AirflowSkipException("dry run: nothing moves")
        with one_line():
            request = approval.request(self.spec, context["run_id"])
            if request is None:
                self.log.info("The plan moves less than the spec's limit: no approval is needed")
                self._record(context, True, "the spec's limit", datetime.now(UTC), asked=False)
                return None
            approval.ask(self.spec, context["run_id"])
        self.subject, self.body = request.subject, request.body
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer; a refused plan skips the later tasks, and the run succeeds."""
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


@contextmanager
def one_line() -> Iterator[None]:
    """Turn our own errors into Airflow's, with the message as one line.

    A retry cannot help, so the task fails at once. The exception is a store that does not answer:
    Airflow tries that again.
    """
    from evenkeel.pipeline.steps import EvenkeelError
    from evenkeel.registry.store import DeniedError, StoreError

    try:
        yield
    except EvenkeelError as error:
        if isinstance(error, StoreError) and not isinstance(error, DeniedError):
            raise AirflowException(str(error)) from None
        raise AirflowFailException(str(error)) from None


def task_states(ti: Any, run_id: str) -> dict[str, str | None]:
    """Return task id -> state of every task of a DAG run."""
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id])
    return dict(states.get(run_id, {}))


def _without_empty(arguments: Sequence[str]) -> list[str]:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    return [part for name, value in pairs if value not in ("", None) for part in (name, value)]
