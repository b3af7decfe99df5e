"""Plans from a spec, what is asked of one run, and a profile: the same for a run and a preview."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.costs import pace, seconds_per_load
from evenkeel.epochs import Epoch, Registry
from evenkeel.params import Params, channels_for
from evenkeel.spec import TableSpec
from partitioning.decide import Decision, Policy
from partitioning.decide import decide as decide_on
from partitioning.plan import Plan, make_plan, plan_for
from partitioning.profile import Profile


def decision_for(
    spec: TableSpec, registry: Registry, epoch: Epoch, profile: Profile, params: Params
) -> Decision:
    """Whether to rebalance. What windows cost (`windows/*.json`) and what migrations cost (earlier
    runs' `migration.json`) is as measured; where nothing is measured yet it is not weighed."""
    policy = Policy(
        trigger=spec.trigger,
        max_imbalance=_aim(spec, params),
        horizon=spec.horizon,
        seconds_per_load=seconds_per_load(registry, profile),
        pace=pace(registry),
    )
    return decide_on(
        profile,
        epoch.function,
        channels_for(spec, epoch, registry, params),
        policy,
        force=params.force,
    )


def plan_next(
    spec: TableSpec,
    registry: Registry,
    epoch: Epoch,
    profile: Profile,
    params: Params,
    tables: Mapping[str, int],
) -> Plan:
    """The way to the next epoch.

    Raises
    ------
    InputError : an unknown strategy or option, channels that cannot be
    """
    strategy = params.strategy or spec.strategy
    return make_plan(
        spec.table,
        profile,
        epoch.function,
        channels_for(spec, epoch, registry, params),
        strategy=strategy,
        # Options belong to the spec's own strategy.
        options=spec.options if strategy == spec.strategy else {},
        max_imbalance=_aim(spec, params),
        budget=spec.budget if params.budget is None else params.budget,
        tables=tables,
    )


def plan_back(
    spec: TableSpec,
    epoch: Epoch,
    profile: Profile,
    target: Epoch,
    tables: Mapping[str, int],
) -> Plan:
    """The way back to where an earlier epoch placed every key; the result is a new epoch."""
    return plan_for(
        spec.table,
        profile,
        epoch.function,
        target.function,
        tables=tables,
        reason=f"back to epoch {target.number}",
    )


def _aim(spec: TableSpec, params: Params) -> float:
    return spec.max_imbalance if params.max_imbalance is None else params.max_imbalance
