"""Table specs: what a user writes in `tables/NAME.yaml`, checked field by field.

Nothing in a spec is code: columns, merges and names only.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from evenkeel.spec.fields_together import check_fields_together
from evenkeel.spec.parts import (
    ChannelSpec,
    Input,
    Name,
    Partitions,
    Place,
    Splitting,
    StateColumn,
    StateTable,
    Strict,
    Watching,
)
from evenkeel.spec.schedules import check_schedule
from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import DEFAULT_SLOTS
from partitioning.strategies import PRODUCTION
from partitioning.strategies.options import check_ranges, production_problem

#: Most channels of a spec. Loads, shares and charts are arrays of this length.
MAX_CHANNELS = 100_000


def _kind(channels: Any) -> str:
    """Return which of its two forms `channels` has, so that errors are about that form alone."""
    return "list" if isinstance(channels, list) else "number"


def _schedule_kind(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict | Partitions):
        return "mapping"
    return "list" if isinstance(value, list) else "text"


def _decay_kind(decay: Any) -> str:
    return "none" if decay is None else "auto" if isinstance(decay, str) else "number"


class TableSpec(Strict):
    """A keyed table to keep even."""

    table: Name = Field(description="name of the table; also names its DAGs")
    key: list[str] = Field(min_length=1, description="input columns that make up the key")
    null_keys: Literal["refuse", "drop", "keep"] = Field(
        "refuse",
        description="events whose key has a null: an error, left out, or owned like any other",
    )
    null_times: Literal["refuse", "drop"] = Field(
        "refuse", description="events without a time, which no window has: an error, or left out"
    )
    input: Input = Field(description="where the events come from; see below")
    load: str | None = Field(None, description="input column with each event's load; none: 1")
    sketch: Literal["exact", "approx_top_k", "space_saving", "lossy_counting"] = Field(
        "exact",
        description="how keys that may be heavy are found; with another than exact, light keys "
        "are not shuffled; with a `load`: exact or space_saving",
    )
    window: int = Field(28, ge=1, le=3660, description="days of input to learn from")
    decay: Annotated[
        Annotated[Literal["auto"], Tag("auto")]
        | Annotated[float, Field(ge=0, le=1), Tag("number")]
        | Annotated[None, Tag("none")],
        Discriminator(_decay_kind),
    ] = Field(
        0.5,
        description="plan for a forecast, a day weighing this much against the one after it; "
        "auto: found by backtest; none: for the window as it was",
    )
    state: dict[Name, StateTable] = Field(
        min_length=1, description="state tables by name; they share one function and move together"
    )
    registry: Place = Field(description="folder or URL of epochs, sketches and runs")
    channels: Annotated[
        Annotated[list[ChannelSpec], Field(min_length=1), Tag("list")]
        | Annotated[int, Field(ge=1, le=MAX_CHANNELS), Tag("number")],
        Discriminator(_kind),
    ] = Field(description="number of channels, or a list of names and capacities")
    slots: int = Field(DEFAULT_SLOTS, ge=1, le=1 << 20, description="number of slots; may grow")
    fence: Literal["key", "slot"] = Field(
        "key",
        description="what the tables' CHECK constraint compares: key, slot and channel, in Spark "
        "SQL; or slot and channel alone, so that delta-rs and Polars can write. A row with another "
        "key's slot or channel then gets through. After a change, run repair",
    )
    split: Splitting | None = Field(
        None,
        description="allow keys too heavy for one channel to be shared by several; none: every "
        "key stays whole",
    )
    watch: Watching | None = Field(
        None,
        description="meet skew within the day, by a DAG of its own or a stream; input.time must be "
        "a timestamp; none: the daily run alone does. Without `split` it moves whole keys",
    )
    strategy: str = Field(
        "frontier",
        description=f"how the next function is built: one of {', '.join(PRODUCTION)}. All but "
        "frontier need a `max_imbalance`, and take no `budget`. Others are for backtests",
    )
    options: dict[str, Any] = Field({}, description="options of the strategy")
    trigger: float = Field(
        1.02,
        ge=1,
        allow_inf_nan=False,
        description="imbalance from which a rebalance is considered, unless chance explains it",
    )
    max_imbalance: float | None = Field(
        None,
        ge=1,
        allow_inf_nan=False,
        description="imbalance that a plan aims at, up to the budget, and at most a `trigger` that "
        "is given. none: 1.005 plus what chance explains, or more where the rest is not worth "
        "its bytes",
    )
    budget: int | None = Field(
        None,
        ge=0,
        description="bytes that a run may write to move state; footers of files are not counted. "
        "Plans use 2% less, for what Delta adds",
    )
    batch: int | None = Field(
        None, ge=1, description="bytes of state that one commit may move; none: all at once"
    )
    batch_files: int | None = Field(
        None, ge=1, description="files that one commit may write; none: no limit"
    )
    rate: int | None = Field(
        None, ge=1, description="bytes of files a second that may be written; none: no limit"
    )
    rate_rows: int | None = Field(
        None, ge=1, description="rows of state a second that may move; none: no limit"
    )
    approve_over: int | None = Field(
        None, ge=0, description="bytes over which a person approves the plan; none: never asked"
    )
    horizon: int = Field(28, ge=1, description="days over which a move must pay for itself")
    schedule: Annotated[
        Annotated[list[str], Field(min_length=1), Tag("list")]
        | Annotated[Partitions, Tag("mapping")]
        | Annotated[str, Tag("text")]
        | Annotated[None, Tag("none")],
        Discriminator(_schedule_kind),
    ] = Field(
        "@daily",
        description="when the DAG runs; a list of Airflow assets: when each was updated; "
        "`partitions`: for each of their partitions; null: only when asked",
    )
    keep: int = Field(
        30,
        ge=1,
        le=36_500,
        description="days that versions of state tables, and files of old runs, stay",
    )

    @field_validator("key")
    @classmethod
    def _distinct(cls, key: list[str]) -> list[str]:
        # Spark compares names of columns without regard to case.
        if len({column.lower() for column in key}) < len(key):
            raise ValueError("key columns must differ, a column is given twice")
        return key

    @field_validator("strategy")
    @classmethod
    def _known(cls, strategy: str) -> str:
        if problem := production_problem(strategy):
            raise ValueError(problem)
        return strategy

    @field_validator("options")
    @classmethod
    def _allowed(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if (strategy := info.data.get("strategy")) is None:
            return options  # nobody knows its options, and it has an error of its own
        try:
            check_ranges(strategy, options)
        except InputError as error:
            raise ValueError(f"{error.where}: {error.what}. {error.fix}") from error
        if own := sorted(set(options) & {"splitting", "copies", "worth", *cls.model_fields}):
            raise ValueError(f"{', '.join(own)}: set it in the spec itself, or in `split`, instead")
        resources = options.get("resources", "L")
        if info.data.get("split") is not None and len(set(resources)) > 1:
            raise ValueError("with `split`, `resources` must name one resource only")
        if "L" not in resources:
            raise ValueError("resources must have L, the load: each plan is judged by it")
        return options

    @field_validator("schedule")
    @classmethod
    def _readable(cls, schedule: Any) -> Any:
        check_schedule(schedule)
        return schedule

    @model_validator(mode="after")
    def _fields_fit_together(self) -> TableSpec:
        check_fields_together(self)
        return self

    @property
    def plain(self) -> bool:
        """Whether the state tables are the team's own, which Evenkeel adopts."""
        return all(table.plain for table in self.state.values())

    @property
    def iceberg(self) -> bool:
        """Whether the state tables are Iceberg tables."""
        return any(table.format == "iceberg" for table in self.state.values())

    @property
    def input_columns(self) -> dict[str, str]:
        """Columns of the input that the spec needs, each with the field that names it first."""
        named: list[tuple[str, str | None]] = [("key", c) for c in self.key]
        named += [("input.time", self.input.time), ("load", self.load)]
        named += [("split.by", self.split and self.split.by)]
        for table, state in self.state.items():
            for name, column in state.columns.items():
                where = f"state.{table}.columns.{name}"
                by = self.last_by(column) if column.merge == "last" else None
                named += [(f"{where}.of", column.of), (f"{where}.by", by)]
        found: dict[str, str] = {}
        for field, column in named:
            if column is not None:
                found.setdefault(column, field)
        return found

    def last_by(self, column: StateColumn) -> str | None:
        """Return the input column that orders the values of a `last` column."""
        return column.by or self.input.time

    def channel_list(self) -> tuple[Channel, ...]:
        """Return the channels as `partitioning` takes them."""
        if isinstance(self.channels, int):
            return numbered_channels(self.channels)
        return tuple(Channel(c.name, c.capacity) for c in self.channels)
