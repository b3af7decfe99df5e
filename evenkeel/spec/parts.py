"""The parts of a table spec: each is a mapping in `tables/NAME.yaml`, checked field by field."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from evenkeel.spec.custom_merges import merges
from partitioning.strategies.frontier.options import WORTH

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]


def _place(place: str) -> str:
    if not place:
        raise ValueError("must not be empty")
    if "\0" in place:
        raise ValueError("expected a path or a URL, without a null character")
    if re.match(r"[A-Za-z][\w+.-]*:/(?!/)", place):
        raise ValueError("expected a path alone, or two slashes after its scheme, as in file:///x")
    return place


#: A path or a URL.
Place = Annotated[str, AfterValidator(_place)]


#: Columns that Evenkeel adds to every state table.
CHANNEL, SLOT = "channel", "slot"


def is_ours(column: str, iceberg: bool) -> bool:
    """Tell whether Evenkeel adds a column of this name; on Iceberg the slot's names the epoch."""
    name = column.lower()
    return name in (CHANNEL, SLOT) or (iceberg and re.fullmatch(r"slot_\d+", name) is not None)


class Strict(BaseModel):
    """Base of all parts: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _no_yes_or_no(cls, value: Any) -> Any:
        # pydantic would read `keep: yes` as 1 day.
        if isinstance(value, bool):
            raise ValueError("expected another value than yes, no, true or false")
        return value


class Input(Strict):
    """Source of the events."""

    path: Place = Field(description="file or folder of events; relative to the spec's folder")
    format: Literal["parquet", "csv", "delta"] = Field("parquet", description="how it is stored")
    time: str | None = Field(
        None, description="date or timestamp column that windows are cut by; none: no windows"
    )


class StateColumn(Strict):
    """How events make a column of state, and how its partial values become one."""

    merge: str = Field(description="how values are merged; see below")
    of: str | None = Field(None, description="input column; not for count")
    by: str | None = Field(
        None, description="of `last`: input column that tells which value is; none: `input.time`"
    )

    @field_validator("merge")
    @classmethod
    def _known(cls, merge: str) -> str:
        if merge not in (known := merges()):
            raise ValueError(f"there is no such merge; allowed: {', '.join(known)}")
        return merge

    @model_validator(mode="after")
    def _columns_fit_merge(self) -> StateColumn:
        if (self.merge == "count") == (self.of is not None):
            raise ValueError("count takes no `of`; every other merge needs one")
        if self.by is not None and self.merge != "last":
            raise ValueError(f"{self.merge} takes no `by`; only last does")
        return self


class StateTable(Strict):
    """One table of keyed state: made and merged by Evenkeel, or a team's own.

    In a team's own table Evenkeel writes the columns slot and channel only.
    """

    path: Place = Field(
        description="folder of the Delta table, relative to the spec's folder; of an Iceberg "
        "table, its name with catalog and namespace, such as `lake.sales.orders`"
    )
    format: Literal["delta", "iceberg"] = Field("delta", description="how it is stored")
    columns: dict[Name, StateColumn] = Field(
        {}, description="state columns that Evenkeel makes from events; none: give `rows`"
    )
    rows: Literal["one", "many"] | None = Field(
        None,
        description="rows a key of a table that the team writes, and Evenkeel adopts; none: "
        "Evenkeel makes the table from events",
    )
    partitions: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="of a team's own table: columns that partition it below channel"
    )

    @model_validator(mode="after")
    def _ours_or_theirs(self) -> StateTable:
        if bool(self.columns) == bool(self.rows):
            raise ValueError(
                "expected either `columns`, for state that Evenkeel makes from events, or `rows` "
                f"(one or many), for a table of yours; got {'both' if self.columns else 'neither'}"
            )
        if self.partitions and not self.rows:
            raise ValueError("partitions: allowed with `rows` only")
        if self.format == "iceberg":
            self._check_iceberg()
        return self

    def _check_iceberg(self) -> None:
        if self.partitions:
            raise ValueError("partitions: an Iceberg table keeps those that it has; leave it out")
        if not re.fullmatch(r"[^./`]+(\.[^./`]+){2,}", self.path):
            raise ValueError(
                f"path: expected an Iceberg table's name with catalog and namespace, such as "
                f"lake.sales.orders (got {self.path!r})"
            )

    @property
    def plain(self) -> bool:
        """Whether the team writes the rows, so that Evenkeel knows no merge of them."""
        return self.rows is not None

    @field_validator("columns")
    @classmethod
    def _copied_or_not(cls, columns: dict[str, StateColumn]) -> dict[str, StateColumn]:
        kinds = {merges()[c.merge].copied: name for name, c in columns.items()}
        if len(kinds) > 1:
            raise ValueError(
                f"{kinds[False]!r} is merged by {columns[kinds[False]].merge}, and {kinds[True]!r} "
                "by copy. With copy, each owner of a key has the whole row, so all columns "
                "must be copy. Give the others a state table of their own"
            )
        return columns

    @property
    def copied(self) -> bool:
        """Whether each channel of a split key has its whole row: a build side."""
        return any(merges()[c.merge].copied for c in self.columns.values())


class ChannelSpec(Strict):
    """One channel: its name and capacity."""

    name: str = Field(min_length=1, description="what people call it")
    capacity: float = Field(1.0, ge=0, allow_inf_nan=False, description="share; 0 drains it")


class Partitions(Strict):
    """Runs by partition: one for each partition key that Airflow has of assets."""

    partitions: list[str] = Field(
        min_length=1,
        description="Airflow assets whose partition keys begin with a day, such as `2026-01-29`, "
        "one key a day; a run learns from the window that has this day as its last. Airflow 3.2 "
        "or newer",
    )


class Splitting(Strict):
    """How keys that are too heavy for one channel may be shared by several."""

    by: str = Field(
        description="input column that tells a key's events apart, such as an id: its hash says to "
        "which of the key's channels each goes"
    )
    copies: int | None = Field(
        None, ge=2, description="channels that a key is split over at most; none: any number"
    )
    worth: float = Field(
        WORTH,
        ge=0,
        allow_inf_nan=False,
        description="state that may move to save one partial row, in multiples of a channel's mean "
        "state. 0: none moves for that, and all channels with room share a key",
    )

    @property
    def limits(self) -> dict[str, Any]:
        """How far keys are split, as `make_plan` and `Policy` have it."""
        return {"copies": self.copies, "worth": self.worth}


class Watching(Strict):
    """How skew that appears within the day is met within the day."""

    every: int = Field(
        5,
        ge=1,
        le=1440,
        description="minutes of a micro-batch, and between two looks at the newest; they must "
        "divide a day, and be fewer than those of `schedule`: before a daily run no look decides",
    )
    eta: float = Field(
        1.5,
        gt=0,
        allow_inf_nan=False,
        description="load waiting, in mean loads of a channel and micro-batch, from which a "
        "channel can be skewed",
    )
    tau: float = Field(
        0.5,
        gt=0,
        allow_inf_nan=False,
        description="how much less load must wait on the helper, in the same unit. It adapts to "
        "how well loads can be forecast, at most three times between two daily epochs",
    )
    speed: float = Field(
        2.0,
        ge=1,
        allow_inf_nan=False,
        description="how many mean loads a channel works off in the time of a micro-batch: what "
        "comes beyond it waits for the next",
    )
    memory: int = Field(
        20,
        ge=1,
        le=1000,
        description="micro-batches that forecasts are made from, and that a skew must be gone for "
        "before its key is handed back",
    )

    @field_validator("every")
    @classmethod
    def _divides_a_day(cls, every: int) -> int:
        if 1440 % every:
            raise ValueError("must divide a day, 1440 minutes")
        return every
