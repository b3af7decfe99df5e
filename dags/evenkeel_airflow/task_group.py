"""A whole rebalance as a task group in a DAG of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from evenkeel.spec.loading import load_spec
from evenkeel_airflow.notifiers import attach
from evenkeel_airflow.operators.defaults import check_default_args, of_group
from evenkeel_airflow.table_dags import whole_rebalance
from partitioning.errors import InputError

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier


class RebalanceTaskGroup(TaskGroup):
    """The tasks of a rebalance, from learn to report, as one group of a DAG.

    Give the DAG `max_active_runs=1`: of two runs at once, one is refused by the tables' constraint.
    The group takes the Params of `rebalance_TABLE` that the DAG has, such as `dry_run`, and the
    spec's values for the others. The spec's schedule does not count: the DAG has its own.

    The tasks take the `default_args` of the group, else those of the DAG, such as `retries` and
    `pool`. Three of the DAG do not count, because the tasks need each other's outcomes and results:
    `trigger_rule`, `do_xcom_push` and `multiple_outputs`.

    Parameters
    ----------
    spec : path of the table's spec
    group_id : default: `rebalance_TABLE`
    notifiers : Airflow calls them if a plan waits for approval, and if a gate fails

    Raises
    ------
    InputError : the spec is wrong, which names every wrong field; `prefix_group_id` is false; its
        own `default_args` have a name that no team may set; or the DAG has such a group
    """

    def __init__(
        self,
        spec: str | Path,
        group_id: str | None = None,
        notifiers: Sequence[BaseNotifier] = (),
        **kwargs: Any,
    ) -> None:
        if not kwargs.get("prefix_group_id", True):
            raise InputError(
                "expected prefix_group_id=True, got False",
                type(self).__name__,
                "Leave it out: the tasks find each other by the group's name in their ids",
            )
        check_default_args(kwargs.get("default_args") or {}, type(self).__name__)
        found = load_spec(spec)
        super().__init__(group_id=group_id or f"rebalance_{found.table}", **kwargs)
        self.registry = found.registry
        for other in self.dag.task_group.get_task_group_dict().values():
            same = isinstance(other, RebalanceTaskGroup) and other.registry == found.registry
            if same and other is not self:
                raise InputError(
                    f"expected one group of table {found.table}, found {other.group_id} as well",
                    f"DAG {self.dag.dag_id}",
                    "Put the second one into a DAG of its own: they would share a run's files",
                )
        self.default_args = of_group(self.dag.default_args, self.default_args)
        with self:
            whole_rebalance(found, str(Path(spec).resolve()))
        attach(notifiers, self.iter_tasks())
