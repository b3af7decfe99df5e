"""Airflow operators of Evenkeel: a Spark job and its variants, and a person's approval.

Every scheduler loop parses this module. Heavy imports are therefore inside the functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from evenkeel.submit import job_file
from evenkeel_airflow.airflow_versions import AirflowFailException, AirflowSkipException

if TYPE_CHECKING:
    from evenkeel.registry.job_error import JobError

RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}
#: States of a task that did not start.
_NOT_STARTED = {None, "skipped", "upstream_failed", "removed"}


def schedule_problem(schedule: str | None) -> str | None:
    """Return why Airflow refuses a schedule; None if it accepts it."""
    try:
        DAG("schedule", schedule=schedule, start_date=datetime(2024, 1, 1, tzinfo=UTC)).validate()
    except (AirflowException, ValueError) as error:
        return f"{error} (got {schedule!r})"
    return None


class SparkJob(SparkSubmitOperator):
    """Run `spark_jobs/<job>.py` by spark-submit, through the connection `spark_default`.

    Parameters
    ----------
    job : name of the job
    arguments : option -> value (a template); an option whose value renders empty is left out
    """

    def __init__(self, *, job: str, arguments: Mapping[str, str], **kwargs: Any) -> None:
        # Airflow gives each try of a task an id of its own.
        given = {**arguments, "--attempt": "{{ ti.id }}"}
        super().__init__(
            application=job_file(job),
            application_args=[part for pair in given.items() for part in pair],
            name=f"evenkeel {job}",
            **{**RETRIES, **kwargs},
        )
        self.job = job

    def execute(self, context: Any) -> None:
        """Submit the job and wait for it.

        A job that fails leaves `error.json`. If it says that a retry cannot help (wrong input, a
        fence, a gate), the task fails at once with its message. Otherwise Airflow tries again: the
        store or the cluster was unreachable, or the job was killed and left nothing.
        """
        given = {n: v for n, v in _pairs(self.application_args or []) if v not in ("", None)}
        if "--run" in given:
            with one_line():
                first = self.job in ("learn", "watch")
                given["--run"] = run_name(given["--spec"], self.dag_id, given["--run"], first)
        self.application_args = [part for pair in given.items() for part in pair]
        try:
            super().execute(context)
        except AirflowException:
            left = self._error_left()
            if left is not None and not left.retry:
                raise AirflowFailException(left.message) from None
            raise

    def _error_left(self) -> JobError | None:
        from evenkeel.registry.epochs import Registry
        from evenkeel.registry.job_error import error_left
        from evenkeel.spec.loading import load_spec

        given = dict(_pairs(self.application_args or []))
        with one_line():
            # A spec that cannot be read fails the task here with the job's own message.
            registry = Registry(load_spec(given["--spec"]).registry)
            return error_left(registry, self.job, given.get("--run"), given["--attempt"])


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


class ApplyWindow(SparkJob):
    """Run the job that folds a window of events into the state tables.

    A retry, or a second run of the same window, changes nothing.

    Parameters
    ----------
    spec : path of the table's spec
    start, end : templates of the first day and of the day after the last, such as
        `{{ data_interval_start | ds }}` and `{{ data_interval_end | ds }}`
    """

    def __init__(self, *, spec: str, start: str, end: str, **kwargs: Any) -> None:
        arguments = {"--spec": spec, "--start": start, "--end": end}
        super().__init__(job="apply_window", arguments=arguments, **kwargs)


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
            run = run_name(self.spec, self.dag_id, context["run_id"])
            request = approval.request(self.spec, run)
            if request is None:
                self.log.info("The plan moves less than the spec's limit: no approval is needed")
                self._record(context, True, "the spec's limit", datetime.now(UTC), asked=False)
                return None
            approval.ask(self.spec, run)
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
        run = run_name(self.spec, self.dag_id, context["run_id"])
        approval.record(self.spec, run, approved, by, at, asked)


@contextmanager
def one_line() -> Iterator[None]:
    """Turn our own errors into Airflow's, with the message as one line.

    A retry cannot help, so the task fails at once. The exception is a store that does not answer:
    Airflow tries that again.
    """
    from evenkeel.pipeline.steps import EvenkeelError

    try:
        yield
    except EvenkeelError as error:
        kind = AirflowException if error.retry else AirflowFailException
        raise kind(str(error)) from None


def run_name(spec: str, dag: str, run: str, first: bool = False) -> str:
    """Return the name of the folder of a DAG's run; `first`: for the first task of the run."""
    from evenkeel.registry.epochs import Registry
    from evenkeel.registry.run_folder import find_folder
    from evenkeel.spec.loading import load_spec

    return find_folder(Registry(load_spec(spec).registry).store, dag, run, first=first)


def task_states(ti: Any, run_id: str) -> dict[str, str | None]:
    """Return task id -> state of every task of a DAG run."""
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id])
    return dict(states.get(run_id, {}))


def _pairs(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return (option, value) of each argument."""
    return list(zip(arguments[::2], arguments[1::2], strict=True))
