"""How even a function is by the load that is foretold and by what past forecasts were off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.planning.plan import Plan
from partitioning.workload.metrics import channel_loads, key_sums
from partitioning.workload.profile import Floats, Profile, sums_by


@dataclass(frozen=True)
class Hedge:
    """What a plan that weighs past surprises beside the load is held to.

    before : `hedged_unevenness` of the function that it starts from; infinite: not held to it
    chance : how far the worst channel is off by past surprises, in fair shares
    """

    before: float
    chance: float


def hedge_of(plan: Plan, previous: PartitioningFunction, profile: Profile) -> Hedge | None:
    """What a plan is held to if it was to weigh past surprises; None: it was not. Only `frontier`
    does, without a target, and of whole keys."""
    weighs = plan.function.strategy == "frontier" and plan.max_imbalance is None
    if not weighs or not len(profile.surprises) or len(plan.function.split):
        return None
    off = surprise_shares(plan.function, profile)
    chance = float(np.sqrt(np.square(off).sum(axis=0)).max())
    # Of several resources load is one: it may come less even for the others.
    alone = len(set(plan.function.options.get("resources", "L"))) == 1
    return Hedge(hedged_unevenness(previous, profile) if alone else np.inf, chance)


def surprise_shares(function: PartitioningFunction, profile: Profile) -> Floats:
    """What each past forecast was off in each channel, float64 (E, N), as parts of the channel's
    fair share of the load; channels without capacity have none."""
    fair = function.capacities / function.capacities.sum() * float(profile.load.sum())
    tails, keys = profile.surprises[:, : profile.slots], profile.surprises[:, profile.slots :]
    count = len(function.channels)
    sums = [
        sums_by(function.slots, tail, count) + key_sums(function, profile.heavy, of)
        for tail, of in zip(tails, keys, strict=True)
    ]
    off = np.array(sums).reshape(-1, count)
    return np.divide(off, fair, out=np.zeros_like(off), where=fair > 0)


def hedged_unevenness(function: PartitioningFunction, profile: Profile) -> float:
    """Mean square, over the channels by their fair share, of how far each is off that share, by the
    load and by each past surprise: what frontier lowers where it has no target."""
    fair = function.capacities / function.capacities.sum()
    total = float(profile.load.sum())
    if total == 0:
        return 0.0
    loads = channel_loads(function, profile) / total
    if loads[fair == 0].any():
        return float("inf")
    over = np.divide(loads, fair, out=np.ones_like(loads), where=fair > 0) - 1
    squares = np.square(over) + np.square(surprise_shares(function, profile)).sum(axis=0)
    return float((fair * squares).sum())
