"""Parameters of one run, checked. A parameter that is not given comes from the spec."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from evenkeel.spec.field_errors import field_error
from partitioning.errors import InputError
from partitioning.strategies import PRODUCTION
from partitioning.strategies.options import production_problem

#: JSON schema of `capacities` where pydantic does not know it: not negative, and not all 0.
_WEIGHTS: dict[str, Any] = {
    "items": {"type": "number", "minimum": 0},
    "contains": {"exclusiveMinimum": 0},
}


class Params(BaseModel):
    """Parameters of one run; None: as the spec says. Airflow's form shows title and description."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        field_title_generator=lambda name, _: name.replace("_", " ").capitalize(),
    )

    strategy: str | None = Field(
        None,
        description="Strategy that builds the next function.",
        json_schema_extra={"enum": [None, *PRODUCTION]},
    )
    channels: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Number of channels. A lower number drops the last ones, a higher one adds "
        "some. It holds until the spec's list is edited. Default: as now, or as in the spec.",
    )
    capacities: tuple[float, ...] | None = Field(
        None,
        description="Capacity weight of each channel, in order; 0 drains a channel. It holds "
        "until the spec's list is edited. Default: as now, or as in the spec.",
        json_schema_extra=_WEIGHTS,
    )
    max_imbalance: float | None = Field(
        None,
        ge=1,
        allow_inf_nan=False,
        description="Stop adding moves at this imbalance; 1 is perfect, none is as even as pays.",
    )
    window_end: date | None = Field(
        None,
        description="Learn from the window that ends before this day. Default: the newest input.",
    )
    relearn: bool = Field(
        False,
        description="Sketch every day of the window again, instead of using the stored sketches. "
        "Use it after late rows.",
    )
    budget: int | None = Field(
        None,
        ge=0,
        title="Budget in bytes",
        description="Bytes that the run may write to move state, at most.",
    )
    batch: int | None = Field(
        None, ge=1, title="Bytes per commit", description="Bytes of state that one commit moves."
    )
    batch_files: int | None = Field(
        None, ge=1, title="Files per commit", description="Files that one commit writes."
    )
    rate: int | None = Field(
        None, ge=1, title="Bytes per second", description="Bytes of files written per second."
    )
    rate_rows: int | None = Field(
        None, ge=1, title="Rows per second", description="Rows of state moved per second."
    )
    dry_run: bool = Field(False, description="Plan, check and report; move nothing.")
    force: bool = Field(
        False,
        description="Plan even if the rebalance does not pay off. A plan without moves is "
        "published, too.",
    )

    @field_validator("capacities")
    @classmethod
    def _weights(
        cls, weights: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        if weights is None:
            return None
        if not (all(0 <= w < math.inf for w in weights) and any(w > 0 for w in weights)):
            raise ValueError("allowed: finite numbers, not negative, and not all 0")
        # Check here: then the form shows the error beside `capacities`. `channels` is read first.
        channels = info.data.get("channels")
        if channels not in (None, len(weights)):
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
            return {str(e["loc"][0]): field_error(e, cls.model_fields) for e in error.errors()}
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
                f"{'.'.join(str(p) for p in e['loc'])}: {field_error(e, cls.model_fields)}"
                for e in error.errors()
            )
            raise InputError(problems, "parameters of the run") from error


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != ""}
