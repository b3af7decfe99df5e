"""Parameters of one run, checked. A parameter that is not given comes from the spec."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.files.records import ChannelRecord, ParamsRecord
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.spec.field_errors import field_error
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError
from partitioning.function.function import Channel
from partitioning.strategies.options import production_problem


class Params(BaseModel):
    """Parameters of one run; None: as the spec says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: str | None = Field(None, description="how the next function is built")
    channels: int | None = Field(None, ge=1, le=100_000, description="number of channels")
    capacities: tuple[float, ...] | None = Field(
        None, description="capacity weight of each channel in order; 0 drains it"
    )
    max_imbalance: float | None = Field(
        None, ge=1, allow_inf_nan=False, description="imbalance to aim at"
    )
    budget: int | None = Field(None, ge=0, description="bytes of state that may move")
    batch: int | None = Field(None, ge=1, description="bytes of state that one commit may move")
    batch_files: int | None = Field(None, ge=1, description="files that one commit may write")
    rate: int | None = Field(None, ge=1, description="bytes of files a second that may be written")
    rate_rows: int | None = Field(None, ge=1, description="rows of state a second that may move")
    window_end: date | None = Field(None, description="day after the window's last day")
    relearn: bool = Field(False, description="learn every day again, because late rows came")
    dry_run: bool = Field(False, description="plan and report, move nothing")
    force: bool = Field(False, description="plan even where it does not pay")

    @field_validator("capacities")
    @classmethod
    def _weights(cls, weights: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if weights is not None and not (
            all(0 <= w < math.inf for w in weights) and any(w > 0 for w in weights)
        ):
            raise ValueError("allowed: finite numbers, not negative, and not all 0")
        return weights

    @field_validator("capacities")
    @classmethod
    def _one_a_channel(
        cls, weights: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        # Check here: then the form shows the error beside `capacities`. `channels` is read first.
        channels = info.data.get("channels")
        if weights is not None and channels not in (None, len(weights)):
            raise ValueError(f"{len(weights)} weights for {channels} channels")
        return weights

    @field_validator("strategy")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and (problem := production_problem(name)):
            raise ValueError(problem)
        return name

    @classmethod
    def problems(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Return what is wrong with values, by field."""
        try:
            cls.model_validate(_given(values))
        except ValidationError as error:
            return {str(e["loc"][0]): field_error(e) for e in error.errors()}
        return {}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Params:
        """Read parameters from plain values. An empty string counts as not given.

        Raises
        ------
        InputError : one message that names every wrong parameter, its value and what is allowed
        """
        try:
            return cls.model_validate(_given(values))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(str(p) for p in e['loc'])}: {field_error(e)}" for e in error.errors()
            )
            raise InputError(problems, "parameters of the run") from error


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != ""}


def channels_for(
    spec: TableSpec, epoch: Epoch, registry: Registry, params: Params
) -> tuple[Channel, ...]:
    """Return the channels that a run plans for.

    1. The number, or capacity weights, that this run asks for: the current epoch's channels,
       without the last ones, or with new ones added and numbered.
    2. Else the spec's list, if it was edited since the current epoch was published.
    3. Else those of the current epoch.

    So a number asked for once, or brought back by a rollback, stays until somebody edits the
    spec. An edited spec always takes precedence over it.
    """
    now = epoch.function.channels
    weights = params.capacities
    count = params.channels if weights is None else len(weights)
    if count is not None:
        added = (Channel(str(i)) for i in range(len(now), count))
        wanted = (*now[:count], *added)
        if weights is None:
            return wanted
        return tuple(Channel(c.name, w) for c, w in zip(wanted, weights, strict=True))
    listed = spec.channel_list()
    # A bootstrapped epoch has no plan. Its channels are the spec's.
    then = registry.files.spec_channels(epoch.plan_digest or "none").find()
    return now if then == spec_channels(spec) else listed


class Throttling(NamedTuple):
    """Limits of a migration; None: no limit.

    Parameters
    ----------
    batch, batch_files : bytes that one commit may move, and files that it may write
    rate, rate_rows : bytes and rows a second
    """

    batch: int | None = None
    batch_files: int | None = None
    rate: int | None = None
    rate_rows: int | None = None

    def seconds(self, rows: float, size: float) -> list[float]:
        """Return the least seconds for so many rows and bytes, by each rate."""
        given = ((rows, self.rate_rows), (size, self.rate))
        return [0.0, *(done / rate for done, rate in given if rate is not None)]


def throttle_for(spec: TableSpec, run: RunFiles) -> Throttling:
    """Return the limits of a run's migration: those of its parameters, else of the spec."""
    return requested_throttling(spec, run.params.find() or Params())


def requested_throttling(spec: TableSpec, params: Params | ParamsRecord) -> Throttling:
    """Return the limits that a run with these parameters would have."""
    given = ((getattr(params, name), getattr(spec, name)) for name in Throttling._fields)
    return Throttling(*(said if one is None else one for one, said in given))


def spec_channels(spec: TableSpec) -> list[ChannelRecord]:
    """Return the spec's channels as a file keeps them."""
    return [ChannelRecord(name=c.name, capacity=c.capacity) for c in spec.channel_list()]


def goes_back(run: RunFiles) -> bool:
    """Return whether a run brings back an earlier epoch, by the parameters that it has kept."""
    asked = run.params.find()
    return asked is not None and asked.to_epoch is not None
