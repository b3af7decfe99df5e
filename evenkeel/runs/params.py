"""What a person may ask of one run, checked; where nothing is asked, the spec speaks."""

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
from evenkeel.registry.run_folder import RunFolder
from evenkeel.registry.store import RESTORE, shaped
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import DamagedError, InputError
from partitioning.function.function import Channel
from partitioning.strategies import WHOLE


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
    rate: int | None = Field(None, ge=1, description="bytes of state a second that may move")
    rate_rows: int | None = Field(None, ge=1, description="rows of state a second that may move")
    window_end: date | None = Field(None, description="day after the window's last day")
    relearn: bool = Field(False, description="learn every day anew: late rows came")
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
        cls, weights: tuple[float, ...] | None, told: ValidationInfo
    ) -> tuple[float, ...] | None:
        # Of the weights, so that it is told beside them; `channels` stands, and is read, before.
        channels = told.data.get("channels")
        if weights is not None and channels not in (None, len(weights)):
            raise ValueError(f"{len(weights)} weights for {channels} channels")
        return weights

    @field_validator("strategy")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and name not in WHOLE:
            raise ValueError(f"allowed: {', '.join(WHOLE)}")
        return name

    @classmethod
    def problems(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with values, by field."""
        try:
            cls.model_validate(_given(values))
        except ValidationError as error:
            return {str(e["loc"][0]): _said(e) for e in error.errors()}
        return {}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Params:
        """Parameters from plain values, empty strings counting as nothing asked.

        Raises
        ------
        InputError : one message that names every wrong parameter, its value and what is allowed
        """
        try:
            return cls.model_validate(_given(values))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(str(p) for p in e['loc'])}: {_said(e)}" for e in error.errors()
            )
            raise InputError(problems, "parameters of the run") from error


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != ""}


def _said(error: Any) -> str:
    said = str(error["msg"]).removeprefix("Value error, ")
    return f"{said} (got {error['input']!r})"


def channels_for(
    spec: TableSpec, epoch: Epoch, registry: Registry, params: Params
) -> tuple[Channel, ...]:
    """Channels that a run plans for.

    1. The number, or capacity weights, that this run asks for: the current epoch's channels, the
       last ones left out or new ones, numbered, added.
    2. Else the spec's list, if it was edited since the current epoch was published.
    3. Else those of the current epoch.

    So a number asked for once, or brought back by rolling back, stays until somebody edits the
    spec, and an edited spec always wins over it.
    """
    now = epoch.function.channels
    weights = params.capacities
    count = params.channels if weights is None else len(weights)
    if count is not None:
        added = (Channel(str(i)) for i in range(len(now), count))
        asked = (*now[:count], *added)
        if weights is None:
            return asked
        return tuple(Channel(c.name, w) for c, w in zip(asked, weights, strict=True))
    told = spec.channel_list()
    # A bootstrapped epoch has no plan, and its channels are the spec's.
    kept = spec_channels_file(epoch.plan_digest or "none")
    if not registry.store.exists(kept):
        return told
    then, where = registry.store.read_json(kept), registry.store.path(kept)
    if not isinstance(then, list) or not then:
        raise DamagedError("not a list of channels", where, RESTORE)
    for channel in then:
        shaped(channel, where, name=str, capacity=int | float)
    return now if then == spec_channels(spec) else told


class Throttling(NamedTuple):
    """What a migration is held to; None: no limit.

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
        """Seconds that so many rows, and bytes, must take at least, by each rate."""
        given = ((rows, self.rate_rows), (size, self.rate))
        return [0.0, *(done / rate for done, rate in given if rate is not None)]


def throttle_for(spec: TableSpec, run: RunFolder) -> Throttling:
    """What a run's migration is held to: as the run asks, else as the spec says."""
    asked = _asked(run)
    given = ((asked.get(name), getattr(spec, name)) for name in Throttling._fields)
    return Throttling(*(said if one is None else one for one, said in given))


def throttle_asked(spec: TableSpec, params: Params) -> Throttling:
    """Return what a run with these parameters would be held to."""
    given = ((getattr(params, name), getattr(spec, name)) for name in Throttling._fields)
    return Throttling(*(said if one is None else one for one, said in given))


def goes_back(run: RunFolder) -> bool:
    """Whether a run brings back an earlier epoch, by the Params that it has kept."""
    return "to_epoch" in _asked(run)


def _asked(run: RunFolder) -> dict[str, Any]:
    """The Params that a run has kept, by name; DamagedError where they are none."""
    if not run.exists("params.json"):
        return {}
    where = f"{run.url}/params.json"
    asked = {**dict.fromkeys(Throttling._fields), **shaped(run.read_json("params.json"), where)}
    return shaped(asked, where, **dict.fromkeys(Throttling._fields, int | None))


def spec_channels_file(plan_digest: str) -> str:
    """File with what the spec's channels were when the plan of that digest was published. Not in
    the epoch's folder: it is written before there is an epoch, so that no epoch lacks it."""
    return f"spec_channels/{plan_digest}.json"


def spec_channels(spec: TableSpec) -> list[dict[str, Any]]:
    """The spec's channels as plain JSON values."""
    return [{"name": c.name, "capacity": c.capacity} for c in spec.channel_list()]
