"""Spark jobs that look at Airflow's runs or tasks first, or take a window of events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any

from evenkeel_airflow.airflow_versions import AirflowSkipException
from evenkeel_airflow.operators.runs import one_line, run_name, task_states
from evenkeel_airflow.operators.spark_job import SparkJob
from partitioning.errors import DamagedError, EvenkeelError, FenceError, InputError

#: States of a task that did not start.
_NOT_STARTED = {None, "skipped", "upstream_failed", "removed"}
#: Text of a digest that the task plan has not left.
_NO_DIGEST = "None"


class Learn(SparkJob):
    """Run the job that learns a profile, from the window that ends with the run's partition.

    An end among the arguments counts first. A run without both learns the newest window.
    """

    def __init__(self, *, arguments: Mapping[str, str], **kwargs: Any) -> None:
        # Airflow 3.1 has no partitions.
        key = {"--partition": "{{ dag_run.partition_key | default('', true) }}"}
        super().__init__(job="learn", arguments={**arguments, **key}, **kwargs)

    def execute(self, context: Any) -> None:
        """Put the day after the partition's in the place of its key, then run the job."""
        given = self._given()
        key = given.pop("--partition", None)
        if key is not None and "--end" not in given:
            with one_line():
                given["--end"] = _day_after(key, context["run_id"])
        _check_days(given)
        self.application_args = [part for pair in given.items() for part in pair]
        super().execute(context)


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
        if busy := _active(context["ti"], self.others):
            self.application_args = [*self.application_args, "--busy", f"{busy[0]} is running"]
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

    def execute(self, context: Any) -> None:
        """Look at the days, then run the job."""
        _check_days(self._given())
        super().execute(context)


class PlanJob(SparkJob):
    """Run a job that takes its run's plan, by the digest that the task plan has left.

    If that task was cleared and has failed, it has left none. Rows that have moved by the plan
    before still go on, or back.
    """

    def execute(self, context: Any) -> None:
        """Find the digest of the plan if it is missing, then run the job."""
        if self._given().get("--digest", _NO_DIGEST) == _NO_DIGEST and not self._take_half_moved():
            with one_line():
                raise FenceError(
                    "expected the digest of a plan from the task plan, found none, and no row has "
                    "moved",
                    self._given()["--spec"],
                    "Clear plan with all tasks after it",
                )
        super().execute(context)

    def _take_half_moved(self) -> bool:
        """Take the plan by which the run has moved rows; False: it has moved none."""
        given = self._given()
        with one_line():
            digest = _half_moved(given, self.dag_id)
        if digest is None:
            return False
        given["--digest"] = digest
        self.application_args = [part for pair in given.items() for part in pair]
        return True


class Migrate(PlanJob):
    """Run the job that moves rows, if the gate and then the limit or a person let the plan pass.

    A person can mark any task as a success in Airflow, without the right to answer for a plan.
    """

    def execute(self, context: Any) -> None:
        """Look at what the gate and approve have left, then run the job."""
        from evenkeel.pipeline import approval

        spec = self._given()["--spec"]
        with one_line():
            approval.check_let_pass(spec, run_name(spec, self.dag_id, context["run_id"]))
        super().execute(context)


class RollBack(PlanJob):
    """Run the job that undoes a failed migration; skip it if no migration started."""

    def execute(self, context: Any) -> None:
        """Run the job if migrate ran, or has left rows half moved.

        Airflow says that migrate was skipped, or that a task before it failed, also if a person
        has stopped its run between two tries, or cleared the tasks before it.
        """
        states = task_states(context["ti"], context["run_id"], self.task_id)
        if states.get("migrate") in _NOT_STARTED and not self._take_half_moved():
            raise AirflowSkipException("nothing has moved")
        super().execute(context)


class Repair(SparkJob):
    """Run the job that brings tables to the current epoch.

    It refuses while another DAG moves state, because it would stop that migration.

    Parameters
    ----------
    others : ids of the DAGs of the table that move state
    """

    def __init__(self, *, others: Sequence[str], **kwargs: Any) -> None:
        super().__init__(job="repair", **kwargs)
        self.others = others

    def execute(self, context: Any) -> None:
        """Refuse if another DAG runs, unless this is a dry run; then run the job."""
        running = _active(context["ti"], {*self.others, *_mover(self._given()["--spec"])})
        if running and not context["params"].get("dry_run"):
            with one_line():
                raise FenceError(
                    f"{', '.join(running)} is running",
                    self._given()["--spec"],
                    "Let it end, or mark its run as failed; then clear this task",
                )
        super().execute(context)


def _half_moved(given: Mapping[str, str], dag: str) -> str | None:
    """Return the digest of the plan whose rows a DAG's run has half moved; None: of none."""
    from evenkeel.inspect.half_moved import find_half_moved
    from evenkeel.registry.epochs import Registry
    from evenkeel.spec.loading import load_spec

    try:
        registry = Registry(load_spec(given["--spec"]).registry)
        half = find_half_moved(
            registry, registry.run(run_name(given["--spec"], dag, given["--run"]))
        )
    except DamagedError:
        # The job says what is torn.
        return given.get("--digest")
    return half and half.digest


def _check_days(given: Mapping[str, str]) -> None:
    """Refuse any text but a day: the job would be tried again as if a cluster were down."""
    for option in ("--start", "--end"):
        if (text := given.get(option)) is None:
            continue
        with one_line():
            try:
                date.fromisoformat(text)
            except ValueError:
                raise InputError(
                    f"expected a day as YYYY-MM-DD, found {text!r}",
                    option,
                    "Correct the template or the Param that gives it, such as by `| ds`",
                ) from None


def _day_after(key: str, run: str) -> str:
    """Return the day after the one that a partition's key begins with."""
    try:
        day = datetime.strptime(key[:10], "%Y-%m-%d") + timedelta(days=1)
    except (ValueError, OverflowError):
        raise InputError(
            f"expected a partition key that begins with a day, such as 2026-01-29, got {key!r}",
            f"the run {run}",
            "Write such keys to the assets of the spec's schedule, or start a run with the Param "
            "window_end",
        ) from None
    return day.date().isoformat()


def _active(ti: Any, dags: Iterable[str]) -> list[str]:
    """Return those of the DAGs that have a run under way."""
    under_way = ["queued", "running"]
    return sorted(dag for dag in dags if ti.get_dr_count(dag_id=dag, states=under_way))


def _mover(spec: str) -> list[str]:
    """Return the DAG whose run left the table half moved; a team's own may have a task group."""
    from evenkeel.inspect.half_moved import half_moved
    from evenkeel.registry.epochs import Registry
    from evenkeel.registry.profiles import run_names
    from evenkeel.registry.run_folder import dag_of
    from evenkeel.spec.loading import load_spec

    # The job says which file cannot be read, and perhaps mends it.
    with suppress(EvenkeelError):
        registry = Registry(load_spec(spec).registry)
        if (half := half_moved(registry, run_names(registry))) is not None:
            return [dag_of(half.run)]
    return []
