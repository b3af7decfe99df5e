"""The channels of a run and the limits of its migration, by its parameters, or else by the spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.files.records import ChannelRecord, ParamsRecord
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.spec.run_params import Params
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError
from partitioning.function.channels import Channel


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

    Raises
    ------
    InputError : this run asks for more channels than slots, so some would get no light key
    """
    now = epoch.function.channels
    weights = params.capacities
    count = params.channels if weights is None else len(weights)
    if count is not None:
        added = (Channel(str(i)) for i in range(len(now), count))
        wanted = (*now[:count], *added)
        if weights is not None:
            wanted = tuple(Channel(c.name, w) for c, w in zip(wanted, weights, strict=True))
        if (filled := sum(c.capacity > 0 for c in wanted)) > spec.slots:
            raise InputError(
                f"expected at most {spec.slots:,} channels, one for each slot, got {filled:,}",
                "channels" if weights is None else "capacities",
                "Ask for fewer, or set `slots` in the spec to a multiple",
            )
        return wanted
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


def check_params(spec: TableSpec, params: Params) -> None:
    """Refuse limits on the commits of a move where it is one commit on a branch.

    Raises
    ------
    InputError : names the first of them
    """
    if spec.iceberg and (
        given := [n for n in Throttling._fields if getattr(params, n) is not None]
    ):
        raise InputError(
            "is for Delta tables: rows of Iceberg tables move in one commit on a branch",
            given[0],
            "Leave it out",
        )


def requested_throttling(spec: TableSpec, params: Params | ParamsRecord) -> Throttling:
    """Return the limits that a run with these parameters would have."""
    given = ((getattr(params, name), getattr(spec, name)) for name in Throttling._fields)
    return Throttling(*(said if one is None else one for one, said in given))


def spec_channels(spec: TableSpec) -> list[ChannelRecord]:
    """Return the spec's channels as a file keeps them."""
    return _records(spec.channel_list())


def channels_listed(registry: Registry, epoch: Epoch) -> list[ChannelRecord]:
    """Return the spec's channels when the epoch was planned, as a file keeps them.

    A plan that does not go by the spec's list hands this on: a list that was edited since must
    still seem edited to the next run.
    """
    then = registry.files.spec_channels(epoch.plan_digest or "none").find()
    return _records(epoch.function.channels) if then is None else then


def _records(channels: Sequence[Channel]) -> list[ChannelRecord]:
    return [ChannelRecord(name=c.name, capacity=c.capacity) for c in channels]


def goes_back(run: RunFiles) -> bool:
    """Return whether a run brings back an earlier epoch, by the parameters that it has kept."""
    asked = run.params.find()
    return asked is not None and asked.to_epoch is not None
