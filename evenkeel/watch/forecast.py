"""Forecasts of the watch: whether it acts on a profile's load, and which keys it would share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenkeel.spec.parts import Watching
from evenkeel.spec.table_spec import TableSpec
from evenkeel.watch.state import WATCHED_SHARE, WatchState, speeds
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import LIGHT_LOAD, Controller
from partitioning.watch.mitigation import Limits, MicroBatch
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import Floats, Profile

#: Micro-batches to fold. The first cannot be forecast, the second lowers the threshold to the gap
#: that there is, and from the third on nothing changes.
FOLDED = 3


def spec_limits(spec: TableSpec, watching: Watching) -> Limits:
    """Return the limits of the watch that its spec alone sets."""
    return Limits(
        eta=watching.eta,
        memory=watching.memory,
        splitting=spec.split is not None,
        calm=max(spec.trigger, 1 + LIGHT_LOAD),
        copies=spec.split and spec.split.copies,
    )


def would_act(spec: TableSpec, function: PartitioningFunction, profile: Profile) -> bool:
    """Return whether the watch would move keys within a day, by its own rule.

    Each micro-batch is taken to bring the profile's load in small. The reasons for which the watch
    drops a decision again are left out: budget, weight of the state, time until the daily run.

    Parameters
    ----------
    function : of the epoch that the watch begins at
    profile : with the load to come; the unit of load does not matter
    """
    loads = channel_loads(function, profile)
    if (watching := spec.watch) is None or not loads.any():
        return False
    heavy = profile.heavy_load >= WATCHED_SHARE * loads.sum() / len(loads)
    keys = dict(zip(profile.heavy[heavy].tolist(), profile.heavy_load[heavy].tolist(), strict=True))
    backlog = _backlog(function, loads, watching)
    known = WatchState("", function.epoch, Controller(Threshold.of(watching.tau)), backlog)
    limits, none = spec_limits(spec, watching), np.zeros(len(loads))
    for number in range(FOLDED):
        batch = MicroBatch(number, function.epoch, loads, none, keys)
        known, _, decided = known.folded(batch, function, limits, watching.speed)
        if decided:
            return True
    return False


def too_heavy_to_move(
    spec: TableSpec,
    known: WatchState,
    batch: MicroBatch,
    function: PartitioningFunction,
    limits: Limits,
    names: Mapping[int, str],
) -> str:
    """Say which keys keep channels full because the whole key is more than has to go from there.

    These are the keys that the watch would share if it might.

    Parameters
    ----------
    known : the watch without the micro-batch, at which it decides nothing
    function : of the current epoch
    limits : by which it decides nothing
    names : texts that people know, by hash

    Returns
    -------
    The end of the sentence that nothing is decided; empty: there is no such key.
    """
    if limits.splitting or spec.watch is None:
        return ""
    sharing = replace(limits, splitting=True)
    _, after, decided = known.folded(batch, function, sharing, spec.watch.speed)
    spread = after.watch.spread
    keys = [names.get(h, str(h)) for h in decided if h in spread and spread[h].helpers]
    if not keys:
        return ""
    why = "no key of such tables" if spec.iceberg or spec.plain else "without `split` no key"
    return (
        f": all of {', '.join(keys)} is more than has to go from its channel, and {why} is shared"
    )


def _backlog(function: PartitioningFunction, loads: Floats, watching: Watching) -> Floats:
    """Return the load that channels have not worked off late in the day, float64 (N,)."""
    open_, day = function.capacities > 0, 24 * 60 // watching.every
    usual = loads.sum() / open_.sum()
    left = np.maximum(loads / speeds(function) - watching.speed * usual, 0.0)
    return np.where(open_, left * max(day - FOLDED, 0), 0.0)
