"""The DAGs of one table: wiring only; what they run is in `operators`, the jobs and the steps."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, TriggerRule
from pendulum import datetime

from evenkeel.spec.catalog import load_catalog
from evenkeel.spec.table_spec import WHOLE, TableSpec
from evenkeel_airflow import operators as op

RUN, DIGEST = "{{ run_id }}", "{{ ti.xcom_pull(task_ids='plan') }}"
COMMON = {"start_date": datetime(2024, 1, 1), "catchup": False, "max_active_runs": 1}

AIM, SAFETY = "What to aim at", "How far to go"
WINDOW_END = Param(
    None,
    type=["null", "string"],
    format="date",
    title="Window end",
    description="Learn from the window that ends before this day. Default: the newest input.",
    section=AIM,
)

RELEARN = Param(
    False,
    type="boolean",
    title="Relearn",
    description="Late rows came: learn every day of the window anew, not from stored sketches.",
    section=AIM,
)


def rebalance_params(spec: TableSpec) -> dict[str, Param]:
    """Params of a rebalance; left empty, the spec's values hold."""
    return {
        "strategy": Param(
            None,
            type=["null", "string"],
            enum=[None, *WHOLE],
            title="Strategy",
            description=f"How the next function is built. Default: {spec.strategy}.",
            section=AIM,
        ),
        "channels": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=100_000,
            title="Channels",
            description="Number of channels: fewer drops the last ones, more adds some. It stays "
            "until the spec's list is edited. Default: as now, or as the spec says.",
            section=AIM,
        ),
        "capacities": Param(
            None,
            type=["null", "array"],
            items={"type": "number", "minimum": 0},
            contains={"exclusiveMinimum": 0},
            title="Capacities",
            description="Capacity weight of each channel, in order; 0 drains it. It stays like "
            "Channels. Default: as now, or as the spec says.",
            section=AIM,
        ),
        "max_imbalance": Param(
            None,
            type=["null", "number"],
            minimum=1,
            title="Max imbalance",
            description="Stop moving state once this is reached; 1 is perfect. "
            "Default: "
            f"{'as even as it gets' if spec.max_imbalance is None else f'{spec.max_imbalance:g}'}.",
            section=AIM,
        ),
        "window_end": WINDOW_END,
        "relearn": RELEARN,
        "budget": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Budget in bytes",
            description="Bytes of state that may move. "
            f"Default: {'no limit' if spec.budget is None else spec.budget}.",
            section=SAFETY,
        ),
        **{
            name: Param(
                None,
                type=["null", "integer"],
                minimum=1,
                title=title,
                description=f"{what} Default: {'no limit' if limit is None else limit}.",
                section=SAFETY,
            )
            for name, title, what, limit in (
                ("batch", "Bytes a commit", "State moves in commits of so much.", spec.batch),
                ("batch_files", "Files a commit", "One writes no more.", spec.batch_files),
                ("rate", "Bytes a second", "State moves no faster.", spec.rate),
                ("rate_rows", "Rows a second", "State moves no faster.", spec.rate_rows),
            )
        },
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Plan, check and report; move nothing.",
            section=SAFETY,
        ),
        "force": Param(
            False,
            type="boolean",
            title="Force",
            description="Plan even where it does not pay.",
            section=SAFETY,
        ),
    }


def rebalance(spec: TableSpec, file: str) -> DAG:
    """Learn, decide, plan, ask, move, check, publish."""
    with DAG(
        f"rebalance_{spec.table}",
        schedule=spec.schedule,
        params=rebalance_params(spec),
        description=f"Keep {spec.table} even over its channels",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        decided = op.decide(file)
        planned = op.plan(file, decided)
        learn(file) >> decided
        carry_out(spec, file, planned)
    return dag


def roll_back(spec: TableSpec, file: str) -> DAG:
    """Go back to the placement of an earlier epoch, through the same gates; nothing is lost."""
    with DAG(
        f"roll_back_{spec.table}",
        schedule=None,
        params={
            "epoch": Param(
                type="integer",
                minimum=0,
                title="Epoch",
                description="Go back to where this epoch placed every key.",
            ),
            "dry_run": rebalance_params(spec)["dry_run"],
            "window_end": WINDOW_END,
            "relearn": RELEARN,
        },
        description=f"Bring {spec.table} back to the placement of an earlier epoch",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        planned = op.plan_rollback(file)
        learn(file) >> planned
        carry_out(spec, file, planned)
    return dag


def maintain(spec: TableSpec, file: str) -> DAG:
    """Compact the state tables, and clean up what no epoch needs any more."""
    with DAG(
        f"maintain_{spec.table}",
        schedule="@weekly",
        description=f"Compact and clean the state tables of {spec.table}",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        op.SparkJob(task_id="maintain", job="maintain", arguments={"--spec": file})
    return dag


def repair(spec: TableSpec, file: str) -> DAG:
    """Bring the state tables to the epoch in force, whatever was broken off or done by hand."""
    with DAG(
        f"repair_{spec.table}",
        schedule=None,
        params={
            "dry_run": Param(
                False,
                type="boolean",
                title="Dry run",
                description="Say what is wrong and what would be done; change nothing.",
                section=SAFETY,
            )
        },
        description=f"Bring the state tables of {spec.table} to the epoch in force",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        op.Repair(
            task_id="repair",
            others=[f"{kind}_{spec.table}" for kind in ("rebalance", "roll_back", "watch")],
            arguments={"--spec": file, "--dry-run": "{{ 'yes' if params.dry_run else '' }}"},
        )
    return dag


def watch(spec: TableSpec, every: int, file: str) -> DAG:
    """Look at the newest micro-batch of so many minutes; what is decided goes the way of any plan.

    Its runs are named by the moment, to the microsecond, and so never as those on a cron schedule.
    """
    with DAG(
        f"watch_{spec.table}",
        schedule=timedelta(minutes=every),
        description=f"Meet skew of {spec.table} within the day",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        looked = op.Watch(
            task_id="watch",
            others=[f"{kind}_{spec.table}" for kind in ("rebalance", "roll_back")],
            arguments={"--spec": file, "--run": RUN},
        )
        planned = op.plan_watch(file)
        looked >> planned
        carry_out(spec, file, planned)
    return dag


def learn(file: str) -> op.SparkJob:
    """The job that every plan starts from."""
    end = "{{ params.window_end or '' }}"
    relearn = "{{ 'yes' if params.relearn else '' }}"
    arguments = {"--spec": file, "--run": RUN, "--end": end, "--relearn": relearn}
    return op.SparkJob(task_id="learn", job="learn", arguments=arguments)


def carry_out(spec: TableSpec, file: str, planned: object) -> None:
    """The tasks that follow a plan, whatever it is for."""
    arguments = {"--spec": file, "--run": RUN, "--digest": DIGEST}
    validated = op.validate_plan(file)
    approved = op.Approve(task_id="approve", spec=file)
    migrated = op.SparkJob(task_id="migrate", job="migrate", arguments=arguments)
    verified = op.SparkJob(task_id="verify", job="verify", arguments=arguments)
    published = op.publish.override(outlets=[op.asset(spec.table)])(file, spec.table)
    back = op.RollBack(
        task_id="roll_back",
        job="roll_back",
        arguments=arguments,
        trigger_rule=TriggerRule.ONE_FAILED,
    )
    planned >> validated >> approved >> migrated >> verified >> published
    [migrated, verified, published] >> back
    [published, back] >> op.report(file)


def load_tables(namespace: dict[str, Any], folder: Path) -> None:
    """Put the DAGs of every table spec of a folder into a DAG file's namespace.

    A spec that is wrong, or whose schedule Airflow refuses, has no DAGs.

    Parameters
    ----------
    namespace : `globals()` of the DAG file, where Airflow looks for DAGs
    folder : where the specs are
    """
    for path, spec in load_catalog(folder).specs.items():
        if op.schedule_problem(spec.schedule):
            continue
        made = [make(spec, str(path)) for make in (rebalance, roll_back, maintain, repair)]
        if spec.watch is not None:
            made.append(watch(spec, spec.watch.every, str(path)))
        namespace.update({dag.dag_id: dag for dag in made})
