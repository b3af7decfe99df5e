"""The DAGs of one table. Wiring only: `operators` and `tasks` do the work."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, TriggerRule
from pendulum import datetime

from evenkeel.spec.catalog import load_catalog
from evenkeel.spec.table_spec import WHOLE, TableSpec
from evenkeel_airflow import operators as op
from evenkeel_airflow import tasks

RUN, DIGEST = "{{ run_id }}", "{{ ti.xcom_pull(task_ids='plan') }}"
COMMON = {"start_date": datetime(2024, 1, 1), "catchup": False, "max_active_runs": 1}

AIM, SAFETY = "Aim", "Limits"
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
    description="Sketch every day of the window again, instead of using the stored sketches. "
    "Use it after late rows.",
    section=AIM,
)


def rebalance_params(spec: TableSpec) -> dict[str, Param]:
    """Return the Params of a rebalance; an empty one takes the spec's value."""
    return {
        "strategy": Param(
            None,
            type=["null", "string"],
            enum=[None, *WHOLE],
            title="Strategy",
            description=f"Strategy that builds the next function. Default: {spec.strategy}.",
            section=AIM,
        ),
        "channels": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=100_000,
            title="Channels",
            description="Number of channels. A lower number drops the last ones, a higher one adds "
            "some. It holds until the spec's list is edited. Default: as now, or as in the spec.",
            section=AIM,
        ),
        "capacities": Param(
            None,
            type=["null", "array"],
            items={"type": "number", "minimum": 0},
            contains={"exclusiveMinimum": 0},
            title="Capacities",
            description="Capacity weight of each channel, in order; 0 drains a channel. It holds "
            "until the spec's list is edited. Default: as now, or as in the spec.",
            section=AIM,
        ),
        "max_imbalance": Param(
            None,
            type=["null", "number"],
            minimum=1,
            title="Max imbalance",
            description="Stop adding moves at this imbalance; 1 is perfect, none is as even as "
            "possible. "
            f"Default: {'none' if spec.max_imbalance is None else f'{spec.max_imbalance:g}'}.",
            section=AIM,
        ),
        "window_end": WINDOW_END,
        "relearn": RELEARN,
        "budget": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Budget in bytes",
            description="Bytes of state that may move, at most. "
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
                ("batch", "Bytes per commit", "Bytes of state that one commit moves.", spec.batch),
                (
                    "batch_files",
                    "Files per commit",
                    "Files that one commit writes.",
                    spec.batch_files,
                ),
                ("rate", "Bytes per second", "Bytes of state moved per second.", spec.rate),
                ("rate_rows", "Rows per second", "Rows of state moved per second.", spec.rate_rows),
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
            description="Plan even if the rebalance does not pay off.",
            section=SAFETY,
        ),
    }


def rebalance(spec: TableSpec, file: str) -> DAG:
    """Build the DAG that learns, decides, plans, asks, moves, checks and publishes."""
    with DAG(
        f"rebalance_{spec.table}",
        schedule=spec.schedule,
        params=rebalance_params(spec),
        description=f"Keep {spec.table} even over its channels",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        decided = tasks.decide(file)
        planned = tasks.plan(file, decided)
        learn(file) >> decided
        carry_out(spec, file, planned)
    return dag


def roll_back(spec: TableSpec, file: str) -> DAG:
    """Build the DAG that goes back to an earlier epoch's placement, through the same gates."""
    with DAG(
        f"roll_back_{spec.table}",
        schedule=None,
        params={
            "epoch": Param(
                type="integer",
                minimum=0,
                title="Epoch",
                description="Epoch whose placement of keys to restore.",
            ),
            "dry_run": rebalance_params(spec)["dry_run"],
            "window_end": WINDOW_END,
            "relearn": RELEARN,
        },
        description=f"Bring {spec.table} back to the placement of an earlier epoch",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        planned = tasks.plan_rollback(file)
        learn(file) >> planned
        carry_out(spec, file, planned)
    return dag


def maintain(spec: TableSpec, file: str) -> DAG:
    """Build the DAG that compacts the state tables and removes files that no epoch needs."""
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
    """Build the DAG that brings the state tables back to the current epoch.

    Use it after a migration that broke off, or after changes by hand.
    """
    with DAG(
        f"repair_{spec.table}",
        schedule=None,
        params={
            "dry_run": Param(
                False,
                type="boolean",
                title="Dry run",
                description="Show what is wrong and what repair would do; change nothing.",
                section=SAFETY,
            )
        },
        description=f"Bring the state tables of {spec.table} back to the current epoch",
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
    """Build the DAG that looks at the newest micro-batch every `every` minutes.

    Its plans pass the same gates as any other plan. A timedelta schedule names runs by the moment,
    to the microsecond, so no name is equal to that of a run on a cron schedule.
    """
    with DAG(
        f"watch_{spec.table}",
        schedule=timedelta(minutes=every),
        description=f"Watch {spec.table} for skew within the day",
        tags=["evenkeel", spec.table],
        **COMMON,
    ) as dag:
        looked = op.Watch(
            task_id="watch",
            others=[f"{kind}_{spec.table}" for kind in ("rebalance", "roll_back")],
            arguments={"--spec": file, "--run": RUN},
        )
        planned = tasks.plan_watch(file)
        looked >> planned
        carry_out(spec, file, planned)
    return dag


def learn(file: str) -> op.SparkJob:
    """Create the task that learns a profile; every plan starts from one."""
    end = "{{ params.window_end or '' }}"
    relearn = "{{ 'yes' if params.relearn else '' }}"
    arguments = {"--spec": file, "--run": RUN, "--end": end, "--relearn": relearn}
    return op.SparkJob(task_id="learn", job="learn", arguments=arguments)


def carry_out(spec: TableSpec, file: str, planned: object) -> None:
    """Create the tasks that follow every plan, and connect them."""
    arguments = {"--spec": file, "--run": RUN, "--digest": DIGEST}
    validated = tasks.validate_plan(file)
    approved = op.Approve(task_id="approve", spec=file)
    migrated = op.SparkJob(task_id="migrate", job="migrate", arguments=arguments)
    verified = op.SparkJob(task_id="verify", job="verify", arguments=arguments)
    published = tasks.publish.override(outlets=[tasks.asset(spec.table)])(file, spec.table)
    back = op.RollBack(
        task_id="roll_back",
        job="roll_back",
        arguments=arguments,
        trigger_rule=TriggerRule.ONE_FAILED,
    )
    planned >> validated >> approved >> migrated >> verified >> published
    [migrated, verified, published] >> back
    [published, back] >> tasks.report(file)


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
