"""Spark jobs that look at Airflow's other runs or tasks first, or take a window of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenkeel_airflow.airflow_versions import AirflowFailException, AirflowSkipException
from evenkeel_airflow.operators.runs import task_states
from evenkeel_airflow.operators.spark_job import SparkJob

#: States of a task that did not start.
_NOT_STARTED = {None, "skipped", "upstream_failed", "removed"}


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
    spec : path of the table's spec; a template
    start, end : templates of the first day and of the day after the last, such as
        `{{ data_interval_start | ds }}` and `{{ data_interval_end | ds }}`. Airflow's `@daily`
        gives a run no interval: schedule the DAG by `CronDataIntervalTimetable`
    """

    def __init__(self, *, spec: str, start: str, end: str, **kwargs: Any) -> None:
        arguments = {"--spec": spec, "--start": start, "--end": end}
        super().__init__(job="apply_window", arguments=arguments, **kwargs)


class RollBack(SparkJob):
    """Run the job that undoes a failed migration; skip it if no migration started."""

    def execute(self, context: Any) -> None:
        """Run the job if migrate ran."""
        states = task_states(context["ti"], context["run_id"], self.task_id)
        if states.get("migrate") in _NOT_STARTED:
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
