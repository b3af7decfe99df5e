"""Arguments that all tasks have in common: a team's `default_args`, and ours where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from inspect import signature
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator, TriggerRule

from partitioning.errors import InputError

#: A store or a cluster that is down is tried again; the delay is for one that starts again.
RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}
#: In a full pool, a table that is half moved goes on before another one begins.
_FINISH_FIRST: dict[str, Any] = {**RETRIES, "weight_rule": "upstream"}
#: Priority of a task that ends a half-moved table, and has few tasks before it or none.
ENDS_FIRST = 100
#: By these the tasks of a run follow each other, and find what the one before has made.
_CHAINED = {
    "trigger_rule": TriggerRule.ALL_SUCCESS,
    "do_xcom_push": True,
    "multiple_outputs": False,
}
#: Arguments that each task of ours sets itself.
_SET_BY_TASKS = {
    *_CHAINED,
    *("self", "kwargs", "task_id", "task_group", "dag", "params", "default_args"),
    *("inlets", "outlets", "map_index_template", "task_display_name"),
    *("application", "application_args", "java_class", "name"),
}


def with_retries(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operator's arguments, with our retries where neither it nor its DAG has others."""
    others = given.get("default_args") or {}
    return {**{name: v for name, v in RETRIES.items() if name not in others}, **given}


def of_dag(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `default_args` of a DAG of ours: a team's own before ours."""
    return {**_FINISH_FIRST, **given}


def of_group(dag: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `default_args` of our task group in a team's DAG.

    The DAG may have any for its other tasks, so those that would change how our tasks follow each
    other give way without an error.

    Parameters
    ----------
    dag, group : `default_args` of the DAG, and of the group and those around it
    """
    return {**_FINISH_FIRST, **dag, **group, **_CHAINED}


def check_default_args(given: Mapping[str, Any], where: str) -> None:
    """Refuse `default_args` that no task takes, or that are not a team's to set.

    Parameters
    ----------
    where : who was given them

    Raises
    ------
    InputError : names each wrong one
    """
    from difflib import get_close_matches

    taken = {
        name
        for operator in (BaseOperator, SparkSubmitOperator)
        for name in signature(operator.__init__).parameters
    } - _SET_BY_TASKS
    wrong = []
    for name in sorted(set(given) - taken):
        near = get_close_matches(name, taken, 1)
        said = (
            " (set by each task)"
            if name in _SET_BY_TASKS
            else f" (like {near[0]}?)"
            if near
            else ""
        )
        wrong.append(f"{name}{said}")
    if wrong:
        raise InputError(
            f"expected arguments of Airflow's BaseOperator or SparkSubmitOperator, got "
            f"{', '.join(wrong)}",
            f"default_args of {where}",
            "Correct or leave out these names",
        )
