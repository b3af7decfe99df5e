"""Plans from a spec, a run's parameters and a profile: the same for a run and a preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evenkeel.quality.budgets import plan_budget
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.runs.params import channels_for
from evenkeel.runs.timings import pace, seconds_per_load
from evenkeel.spec.loading import check_enough_slots
from evenkeel.spec.run_params import Params
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.planning.aims import aim_for
from partitioning.planning.decide import Decision, Policy
from partitioning.planning.decide import decide as decide_on
from partitioning.planning.plan import Plan, make_plan, plan_for
from partitioning.strategies.hashing import first_function
from partitioning.workload.profile import Profile


def function_of_epoch_0(spec: TableSpec, key: tuple[KeyColumn, ...]) -> PartitioningFunction:
    """Build the function of a table's first epoch.

    Raises
    ------
    InputError : the spec has fewer slots than channels
    """
    check_enough_slots(spec, f"spec of {spec.table}")
    return first_function(key, spec.slots, spec.channel_list())


def decision_for(
    spec: TableSpec, registry: Registry, epoch: Epoch, profile: Profile, params: Params
) -> Decision:
    """Decide whether to rebalance.

    The costs of windows (`windows/*.json`) and of migrations (earlier runs' `migration.json`) are
    as measured. A cost that is not measured yet does not count.
    """
    strategy = params.strategy or spec.strategy
    channels = channels_for(spec, epoch, registry, params)
    policy = Policy(
        trigger=spec.trigger,
        max_imbalance=aim_of(spec, params, profile, epoch.function, channels),
        horizon=spec.horizon,
        seconds_per_load=seconds_per_load(registry, profile),
        pace=pace(registry),
        splitting=spec.split is not None,
        budget=plan_budget(spec.budget if params.budget is None else params.budget),
        options=spec.options if strategy == spec.strategy == "frontier" else {},
        **(spec.split.limits if spec.split else {}),
    )
    return decide_on(profile, epoch.function, channels, policy, force=params.force)


def plan_next(
    spec: TableSpec,
    registry: Registry,
    epoch: Epoch,
    profile: Profile,
    params: Params,
    tables: Mapping[str, int],
    row: KeyColumn | None,
    worth: float | None = None,
) -> Plan:
    """Plan the next epoch.

    Parameters
    ----------
    spec, registry : of the table
    epoch : the current one
    profile : of the window
    params : of the run
    tables : version of each state table that was weighed
    row : column by which keys may be split, as it was learned
    worth : of a partial row, if `decide` chose another than the spec's; None: the spec's

    Raises
    ------
    InputError : an unknown strategy or option, impossible channels, or a profile that was
        learned before the spec allowed splitting
    """
    split, row = spec.split, _split_column(spec, row)
    strategy = params.strategy or spec.strategy
    channels = channels_for(spec, epoch, registry, params)
    return make_plan(
        spec.table,
        profile,
        epoch.function,
        channels,
        strategy=strategy,
        # The spec's options are those of its own strategy.
        options=spec.options if strategy == spec.strategy else {},
        max_imbalance=aim_of(spec, params, profile, epoch.function, channels),
        budget=plan_budget(spec.budget if params.budget is None else params.budget),
        tables=tables,
        row=row,
        **(split.limits if split else {}) | ({} if worth is None else {"worth": worth}),
    )


def _split_column(spec: TableSpec, row: KeyColumn | None) -> KeyColumn | None:
    """Return the learned column by which the spec splits keys; None: it splits none."""
    if spec.split is None:
        return None
    if row is None or row.name != spec.split.by:
        raise InputError(
            f"the profile was learned without column {spec.split.by!r}, by which the spec splits "
            "keys",
            spec.registry,
            "Learn again: start a new run",
        )
    return row


def plan_back(
    spec: TableSpec,
    epoch: Epoch,
    profile: Profile,
    target: Epoch,
    tables: Mapping[str, int],
    row: KeyColumn | None,
) -> Plan:
    """Plan a new epoch that puts every key where an earlier epoch had it.

    Parameters
    ----------
    row : column by which keys may be split, as it was learned. The column of that epoch may have
        another name or type, and events would lack it

    Raises
    ------
    InputError : that epoch splits keys, and the spec no longer allows it, or the profile was
        learned before it did
    """
    function = target.function
    if len(function.split):
        if (row := _split_column(spec, row)) is None:
            raise InputError(
                f"epoch {target.number} splits keys, and the spec does not allow it",
                spec.registry,
                "Set `split`, or name another epoch",
            )
        function = replace(function, row=row)
    return plan_for(
        spec.table,
        profile,
        epoch.function,
        function,
        tables=tables,
        reason=f"back to epoch {target.number}",
    )


def aim_of(
    spec: TableSpec,
    params: Params,
    profile: Profile,
    function: PartitioningFunction,
    channels: Sequence[Channel],
) -> float:
    """Return the imbalance that a plan aims at.

    A value that somebody chose counts. Else it is that of `aim_for`.

    Parameters
    ----------
    function : the one in force
    channels : the owners to be

    Raises
    ------
    InputError : impossible channels
    """
    if params.max_imbalance is not None:
        return params.max_imbalance
    if spec.max_imbalance is not None:
        return spec.max_imbalance
    plain = spec.split is None and not spec.options
    return aim_for(profile, function, channels, plain=plain)
