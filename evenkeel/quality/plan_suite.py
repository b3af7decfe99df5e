"""Suite "before": what must hold of a plan before rows move, in plain words, with its bounds.

docs/GATES.md says what each expectation means, and what to do when it fails.
"""

from __future__ import annotations

import math

from evenkeel.quality.budgets import BUDGET_SLACK
from evenkeel.quality.expectations import Check, expect
from evenkeel.render.formatting import count_text
from partitioning.function.function import PartitioningFunction
from partitioning.planning.aims import MIN_GAIN
from partitioning.planning.plan import Plan

#: Relative difference that is taken for rounding: sums of floats in another order differ by less.
#: A higher value would let a load that was lost pass.
LOAD_TOLERANCE = 1e-6


def plan_suite(
    plan: Plan,
    previous: PartitioningFunction,
    *,
    weighed: bool,
    going_back: bool,
) -> list[Check]:
    """Build the checks for a plan.

    Parameters
    ----------
    plan : to validate
    previous : the function of the epoch that it starts from
    weighed : the frame of channels also has the loads that the profile gives
    going_back : a person asked for an earlier placement, so balance is not checked
    """
    # Other channels, keys that a person has placed, and keys that fewer channels share can force a
    # less even placement.
    free = plan.function.channels != previous.channels
    free |= bool(plan.function.options.get("pinned") or plan.function.options.get("excluded"))
    free |= plan.function.split.most_owners < previous.split.most_owners
    checks = [] if going_back else _balance(plan, free)
    checks += [*_loads(plan), *_placement(), *_moves(plan), *_summary(previous)]
    if plan.budget is not None:
        checks.append(
            expect(
                "moves",
                "ExpectColumnSumToBeBetween",
                "The plan moves no more than the budget",
                f"at most {plan.budget:,.0f} bytes",
                column="bytes",
                max_value=plan.budget + _slack(plan),
            )
        )
    if weighed:
        checks.append(
            expect(
                "channels",
                "ExpectColumnMaxToBeBetween",
                "The loads that the plan predicts are those of the profile",
                "no difference",
                column="off_profile",
                max_value=LOAD_TOLERANCE,
            )
        )
    return checks


def _loads(plan: Plan) -> list[Check]:
    """Build the checks of the channels' loads."""
    total = float(sum(plan.loads_before))
    return [
        expect(
            "channels",
            "ExpectColumnMaxToBeBetween",
            "No function beats the floor",
            f"at least {plan.floor:.4f}",
            detail="one that seems to was measured wrongly",
            column="share_after",
            min_value=plan.floor * (1 - LOAD_TOLERANCE),
        ),
        expect(
            "channels",
            "ExpectColumnSumToBeBetween",
            "No load is lost and none appears",
            count_text(total),
            column="load_after",
            min_value=total * (1 - LOAD_TOLERANCE),
            max_value=total * (1 + LOAD_TOLERANCE),
        ),
        expect(
            "channels",
            "ExpectColumnMaxToBeBetween",
            "Closed and dropped channels carry no load",
            "0",
            column="stranded",
            max_value=0,
        ),
    ]


def _placement() -> list[Check]:
    """Build the checks of where slots and keys are before and after the moves."""
    return [
        expect(
            "placement",
            "ExpectColumnValuesToBeBetween",
            "Every slot and heavy key is owned by an open channel",
            "capacity over 0",
            column="capacity",
            min_value=0,
            strict_min=True,
        ),
        expect(
            "placement",
            "ExpectColumnPairValuesToBeEqual",
            "The moves are exactly what differs between the two functions",
            "equal",
            column_A="planned",
            column_B="after",
        ),
        expect(
            "placement",
            "ExpectColumnPairValuesToBeEqual",
            "Every move starts at the channel that owns the slot or key now",
            "equal",
            column_A="source",
            column_B="before",
        ),
    ]


def _moves(plan: Plan) -> list[Check]:
    """Build the checks of single moves and of their bytes."""
    return [
        expect(
            "moves",
            "ExpectCompoundColumnsToBeUnique",
            "No slot or key moves twice",
            "distinct",
            column_list=["kind", "item", "way"],
        ),
        expect(
            "moves",
            "ExpectColumnValuesToBeInSet",
            "Every move goes to another channel",
            "another channel",
            column="goes",
            value_set=[True],
        ),
        expect(
            "moves",
            "ExpectColumnValuesToNotBeNull",
            "Nothing moves without a reason",
            "a reason",
            column="reason",
        ),
        expect(
            "moves",
            "ExpectColumnValuesToBeBetween",
            "No move has negative load, bytes or rows",
            "at least 0",
            column="least",
            min_value=0,
        ),
        expect(
            "moves",
            "ExpectColumnSumToBeBetween",
            "The bytes of the moves add up to the plan's",
            f"{plan.bytes:,.0f} bytes",
            column="bytes",
            min_value=plan.bytes - _slack(plan),
            max_value=plan.bytes + _slack(plan),
        ),
    ]


def _summary(previous: PartitioningFunction) -> list[Check]:
    """Build the checks of what the plan says of itself."""
    return [
        expect(
            "plan",
            "ExpectColumnValuesToBeInSet",
            "The plan starts from the epoch that it names",
            previous.digest[:12],
            column="parent",
            value_set=[previous.digest],
        ),
        expect(
            "plan",
            "ExpectColumnMaxToBeBetween",
            "The imbalance that the plan states is that of its loads",
            "no difference",
            column="imbalance_off",
            max_value=LOAD_TOLERANCE,
        ),
    ]


def _slack(plan: Plan) -> float:
    """Return the bytes by which sums of the moves' bytes may differ by rounding."""
    return LOAD_TOLERANCE * max(plan.bytes, 1.0)


def balance_limit(plan: Plan) -> tuple[float, str]:
    """Return the imbalance that a plan may not exceed, and the reason in words.

    This is the aim if the curve reaches it within the budget. Otherwise (a key heavier than a
    fair share, a tight budget) the plan is not to blame for missing the aim. The limit is then
    the least imbalance within the budget, plus the gain that `decide` ignores as noise.
    """
    aim, budget = plan.max_imbalance, plan.budget
    every = [p.imbalance for p in plan.curve] or [plan.imbalance_before]
    within = [p.imbalance for p in plan.curve if budget is None or p.bytes <= budget + BUDGET_SLACK]
    reachable = min(within) if within else every[0]
    end = f"the curve ends at {min(every):.4f}, the floor is {plan.floor:.4f}"
    if aim is None:
        return reachable + MIN_GAIN, f"no aim is set; {end}"
    if reachable <= aim:
        return aim, f"the aim, {aim:g}, is within reach"
    if min(every) <= aim:
        why = f"the aim, {aim:g}, costs more than the budget, which buys {reachable:.4f}"
    else:
        why = f"the aim, {aim:g}, is out of reach: {end}"
    return reachable + MIN_GAIN, why


def _balance(plan: Plan, free: bool) -> list[Check]:
    limit, why = balance_limit(plan)
    checks = [
        expect(
            "channels",
            "ExpectColumnMaxToBeBetween",
            "The channels are as even as asked, or as they can be",
            f"at most {limit:.4f}",
            detail=why,
            column="share_after",
            max_value=limit * (1 + LOAD_TOLERANCE),
        )
    ]
    if not free and math.isfinite(plan.imbalance_before):
        checks.append(
            expect(
                "channels",
                "ExpectColumnMaxToBeBetween",
                "The channels are not less even than before",
                f"at most {plan.imbalance_before:.4f}",
                column="share_after",
                max_value=plan.imbalance_before * (1 + LOAD_TOLERANCE),
            )
        )
    return checks
