"""The DAGs of one table. Wiring only: `operators` and `tasks` do the work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, AssetAll, Param, TriggerRule, XComArg
from pendulum import datetime

from evenkeel.spec.parts import Partitions
from evenkeel.spec.table_spec import TableSpec
from evenkeel_airflow import operators as op
from evenkeel_airflow import tasks
from evenkeel_airflow.airflow_versions import NO_BACKFILLS, PartitionedAssetTimetable
from evenkeel_airflow.operators.defaults import ENDS_FIRST, of_dag
from evenkeel_airflow.operators.runs import Kind
from evenkeel_airflow.params import SAFETY, dry_run_param, rebalance_params, switch

if TYPE_CHECKING:
    from airflow.sdk.bases.timetable import BaseTimetable

THIS_RUN = "{{ run_id }}"


def table_dag(
    kind: Kind,
    spec: TableSpec,
    about: str,
    defaults: Mapping[str, Any],
    schedule: str | list[Asset] | BaseTimetable | timedelta | None = None,
) -> DAG:
    """Return a DAG of a table, without tasks.

    Give it Params once it has its tasks: each new task copies, several times, those that its DAG
    has by then. A run gives a task the DAG's Params anyway.

    Parameters
    ----------
    kind : what its id begins with
    about : its description
    defaults : a team's `default_args`
    schedule : None: it runs when asked
    """
    return DAG(
        f"{kind}_{spec.table}",
        description=about,
        schedule=schedule,
        default_args=of_dag(defaults),
        tags=["evenkeel", spec.table],
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        # Runs of a backfill would all take the newest window, unless each has a partition.
        **(NO_BACKFILLS if isinstance(schedule, str | timedelta) else {}),
    )


def switches(*names: str) -> dict[str, str]:
    """Return a job's arguments for switches: each is the Param of its name."""
    return {
        f"--{name.replace('_', '-')}": f"{{{{ 'yes' if params.{name} else '' }}}}" for name in names
    }


def rebalance(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG:
    """Build the DAG that learns, decides, plans, asks, moves, checks and publishes."""
    about = f"Keep {spec.table} even over its channels"
    with table_dag("rebalance", spec, about, defaults, schedule_of(spec.schedule)) as dag:
        whole_rebalance(spec, file)
    dag.params.update(rebalance_params(spec))
    return dag


def schedule_of(
    schedule: str | list[str] | Partitions | None,
) -> str | list[Asset] | BaseTimetable | None:
    """Return what Airflow takes for a spec's schedule: a list names assets.

    Raises
    ------
    ValueError : an asset's URI is one that Airflow refuses, or this Airflow has no partitions
    """
    if not isinstance(schedule, Partitions):
        return [Asset(uri) for uri in schedule] if isinstance(schedule, list) else schedule
    assets = AssetAll(*(Asset(uri) for uri in schedule.partitions))
    if PartitionedAssetTimetable is None:
        raise ValueError(
            "partitions need Airflow 3.2 or newer. Upgrade it, or schedule by a list of assets"
        )
    return PartitionedAssetTimetable(assets=assets)


def roll_back(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG:
    """Build the DAG that goes back to an earlier epoch's placement, through the same gates."""
    about = f"Bring {spec.table} back to the placement of an earlier epoch"
    with table_dag("roll_back", spec, about, defaults) as dag:
        planned = tasks.plan_rollback(file)
        learn(file) >> planned
        carry_out_tasks(spec, file, planned)
    given, about = rebalance_params(spec), "Epoch whose placement of keys to restore."
    epoch = Param(type="integer", minimum=0, title="Epoch", description=about)
    shared = {name: given[name] for name in ("dry_run", "window_end", "relearn")}
    dag.params.update({"epoch": epoch, **shared})
    return dag


def maintain(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG:
    """Build the DAG that compacts the state tables and removes files that no epoch needs."""
    about = f"Compact and clean the state tables of {spec.table}"
    with table_dag("maintain", spec, about, defaults, "@weekly") as dag:
        op.SparkJob(task_id="maintain", job="maintain", arguments={"--spec": file})
    return dag


def repair(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG:
    """Build the DAG that brings the state tables back to the current epoch.

    Use it after a migration that broke off, or after changes by hand.
    """
    about = f"Bring the state tables of {spec.table} back to the current epoch"
    params = dry_run_param("Show what is wrong and what repair would do; change nothing.")
    older = "Give up epochs of the tables that the registry does not have. Look at a dry run first."
    params["registry_older"] = switch("Registry is older", older, section=SAFETY)
    names = ["dry_run", "registry_older"]
    undo = "First take back a window that was added to other rows than it had seen."
    if not (spec.plain or spec.iceberg):
        params["undo_window"] = switch("Undo a window", undo, section=SAFETY)
        names.append("undo_window")
    with table_dag("repair", spec, about, defaults) as dag:
        op.Repair(
            task_id="repair",
            # In a queue or pool that is full, it goes before what begins.
            priority_weight=ENDS_FIRST,
            others=[f"{kind}_{spec.table}" for kind in ("rebalance", "roll_back", "watch")],
            arguments={"--spec": file, **switches(*names)},
        )
    dag.params.update(params)
    return dag


def apply(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG | None:
    """Build the DAG that folds a window of events into the state tables, by hand.

    None: the tables are the team's own, which its own jobs write, or events have no time. For a
    schedule, put the operator `ApplyWindow` into the DAG that makes the events.
    """
    if spec.plain or spec.input.time is None:
        return None
    days = {
        "start": "First day of the window: where the last one ended.",
        "end": "The day after the last day of the window.",
    }
    params = {
        name: Param(type="string", format="date", title=name.capitalize(), description=day)
        for name, day in days.items()
    }
    about = f"Fold a window of events into the state tables of {spec.table}"
    with table_dag("apply", spec, about, defaults) as dag:
        op.ApplyWindow(
            task_id="apply_window",
            spec=file,
            start="{{ params.start }}",
            end="{{ params.end }}",
        )
    dag.params.update(params)
    return dag


def watch(spec: TableSpec, file: str, defaults: Mapping[str, Any]) -> DAG | None:
    """Build the DAG that looks at the newest micro-batch; None if the spec has no watch.

    Its plans pass the same gates as any other plan. A timedelta schedule names runs by the moment,
    to the microsecond, so no name is equal to that of a run on a cron schedule.
    """
    if spec.watch is None:
        return None
    about = f"Watch {spec.table} for skew within the day"
    with table_dag("watch", spec, about, defaults, timedelta(minutes=spec.watch.every)) as dag:
        looked = op.Watch(
            task_id="watch",
            others=[f"{kind}_{spec.table}" for kind in ("rebalance", "roll_back")],
            arguments={"--spec": file, "--run": THIS_RUN},
        )
        planned = tasks.plan_watch(file)
        looked >> planned
        carry_out_tasks(spec, file, planned)
    return dag


def whole_rebalance(spec: TableSpec, file: str) -> None:
    """Create the tasks of a rebalance in the DAG or task group of the moment."""
    decided = tasks.decide(file)
    planned = tasks.plan(file, decided)
    learn(file) >> decided
    carry_out_tasks(spec, file, planned)


def learn(file: str) -> op.Learn:
    """Create the task that learns a profile; every plan starts from one."""
    # By get: the DAG of a task group need not have these Params.
    arguments = {
        "--spec": file,
        "--run": THIS_RUN,
        "--end": "{{ params.get('window_end') or '' }}",
        "--relearn": "{{ 'yes' if params.get('relearn') else '' }}",
    }
    return op.Learn(task_id="learn", arguments=arguments)


def carry_out_tasks(spec: TableSpec, file: str, planned: XComArg) -> None:
    """Create the tasks that follow every plan, and connect them."""
    # In a task group, the id of the task `plan` has the group's name before it.
    (plan,) = planned.roots
    digest = f"{{{{ ti.xcom_pull(task_ids='{plan.task_id}') }}}}"
    arguments = {"--spec": file, "--run": THIS_RUN, "--digest": digest}
    validated = op.ValidatePlan(task_id="validate_plan", spec=file)
    approved = op.Approve(task_id="approve", spec=file)
    migrated = op.Migrate(task_id="migrate", job="migrate", arguments=arguments)
    verified = op.PlanJob(task_id="verify", job="verify", arguments=arguments)
    published = tasks.publish.override(outlets=[tasks.asset(spec.table)])(file, spec.table)
    back = op.RollBack(
        task_id="roll_back",
        job="roll_back",
        arguments=arguments,
        trigger_rule=TriggerRule.ONE_FAILED,
        priority_weight=ENDS_FIRST,
    )
    planned >> validated >> approved >> migrated >> verified >> published
    [migrated, verified, published] >> back
    [published, back] >> tasks.report(file)
