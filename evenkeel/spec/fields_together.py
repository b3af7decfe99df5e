"""Rules between the fields of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.spec.parts import Partitions, is_ours
from evenkeel.spec.schedules import check_looks
from partitioning.errors import InputError
from partitioning.function.channels import check_channels

if TYPE_CHECKING:
    from evenkeel.spec.table_spec import TableSpec

#: Fields for Delta tables. Rows of Iceberg tables move in one commit, and no key is split there.
DELTA_ONLY = {"batch", "batch_files", "rate", "rate_rows", "fence", "split"}
#: Strategy by whose curve the gate judges each plan.
_JUDGE = "frontier"


def check_fields_together(spec: TableSpec) -> None:
    """Raise ValueError where fields that are each right do not fit together."""
    _check_names(spec)
    _check_times(spec)
    _check_plans(spec)
    _check_state(spec)


def _check_names(spec: TableSpec) -> None:
    # Spark compares names of columns without regard to case.
    if clash := sorted(c for c in spec.key if is_ours(c, spec.iceberg)):
        raise ValueError(
            f"key: {clash} are names of columns that Evenkeel adds; rename the input column"
        )
    keys = {c.lower() for c in spec.key}
    for name, table in spec.state.items():
        named = [*table.columns, *table.partitions]
        if clash := sorted(c for c in named if c.lower() in keys or is_ours(c, spec.iceberg)):
            raise ValueError(
                f"state.{name}: {clash} are names of the key or of columns that Evenkeel adds"
            )
        lower = [c.lower() for c in table.columns]
        if twice := sorted(c for c in table.columns if lower.count(c.lower()) > 1):
            raise ValueError(f"state.{name}.columns: {twice} differ by case alone; rename one")
    if spec.split is not None and spec.split.by in spec.key:
        raise ValueError(f"split.by: {spec.split.by!r} is the same in all events of a key")


def _check_times(spec: TableSpec) -> None:
    for name, table in spec.state.items():
        for column, c in table.columns.items():
            if c.merge == "last" and spec.last_by(c) is None:
                raise ValueError(f"state.{name}.columns.{column}: last needs `by`, or input.time")
    if spec.watch is not None and spec.input.time is None:
        raise ValueError("watch: micro-batches are cut by input.time, which is not set")
    if isinstance(spec.schedule, Partitions) and spec.input.time is None:
        raise ValueError("schedule: partitions are days of input.time, which is not set")
    if spec.watch is not None:
        check_looks(spec.watch.every, spec.schedule)


def _check_plans(spec: TableSpec) -> None:
    if spec.sketch in ("approx_top_k", "lossy_counting") and spec.load is not None:
        raise ValueError(
            f"sketch: {spec.sketch} counts events, and load is {spec.load!r}; "
            "take exact or space_saving"
        )
    given = spec.max_imbalance if "trigger" in spec.model_fields_set else None
    if given is not None and given > spec.trigger:
        raise ValueError(
            f"max_imbalance: may not be over trigger (got {given:g}, trigger {spec.trigger:g})"
        )
    if spec.strategy != _JUDGE and spec.max_imbalance is None:
        raise ValueError(
            f"strategy: {spec.strategy} needs a max_imbalance, as the gate holds its plans else to "
            f"the balance that {_JUDGE} reaches"
        )
    if spec.strategy != _JUDGE and spec.budget is not None:
        raise ValueError(f"budget: {spec.strategy} takes none; take the strategy {_JUDGE}")
    try:
        check_channels(spec.channel_list())
    except InputError as error:
        raise ValueError(f"channels: {error}") from error


def _check_state(spec: TableSpec) -> None:
    if len({table.plain for table in spec.state.values()}) > 1:
        raise ValueError(
            "state: expected `columns` in all tables or `rows` in all; give the others a spec "
            "of their own"
        )
    if len({table.format for table in spec.state.values()}) > 1:
        raise ValueError("state: expected one format; give the others a spec of their own")
    if spec.iceberg and (fields := sorted(DELTA_ONLY & spec.model_fields_set)):
        raise ValueError(f"{fields[0]}: is for Delta tables; leave it out")
    if spec.plain and spec.split is not None:
        raise ValueError("split: needs state tables with `columns` and their merges")
