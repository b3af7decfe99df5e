"""Suite "before": what must hold of a plan before rows move, in plain words, with its bound.

See docs/GATES.md for what each expectation means and what to do when it fails.
"""

from __future__ import annotations

import math

from evenkeel.quality.expectations import Check, check
from evenkeel.render.formatting import count_text
from partitioning.function.function import PartitioningFunction
from partitioning.planning.decide import LEAST_GAIN
from partitioning.planning.forecast_error import Hedge
from partitioning.planning.plan import Plan

#: Sums of floats in another order differ by less than this share of their size.
ROUNDING = 1e-6


def plan_suite(
    plan: Plan,
    previous: PartitioningFunction,
    *,
    weighed: bool,
    going_back: bool,
    hedge: Hedge | None = None,
) -> list[Check]:
    """What must hold of a plan. `weighed`: the frame of channels has the profile's loads too;
    `going_back`: balance is not what the plan is for; `hedge`: it weighs past surprises, too."""
    # Channels that change, and keys that may be split no longer, may have to make it less even.
    free = plan.function.channels != previous.channels
    free |= len(previous.split) > 0 and not len(plan.function.split)
    checks = [] if going_back else _balance(plan, free, hedge)
    total = float(sum(plan.loads_before))
    slack = ROUNDING * max(plan.bytes, 1.0)
    checks += [
        check(
            "channels",
            "ExpectColumnMaxToBeBetween",
            "No function beats the floor",
            f"at least {plan.floor:.4f}",
            detail="one that seems to was measured wrongly",
            column="share_after",
            min_value=plan.floor * (1 - ROUNDING),
        ),
        check(
            "channels",
            "ExpectColumnSumToBeBetween",
            "No load is lost and none appears",
            count_text(total),
            column="load_after",
            min_value=total * (1 - ROUNDING),
            max_value=total * (1 + ROUNDING),
        ),
        check(
            "channels",
            "ExpectColumnMaxToBeBetween",
            "Closed and dropped channels carry no load",
            "0",
            column="stranded",
            max_value=0,
        ),
        check(
            "placement",
            "ExpectColumnValuesToBeBetween",
            "Every slot and heavy key is owned by an open channel",
            "capacity over 0",
            column="capacity",
            min_value=0,
            strict_min=True,
        ),
        check(
            "placement",
            "ExpectColumnPairValuesToBeEqual",
            "The moves are exactly what differs between the two functions",
            "equal",
            column_A="planned",
            column_B="after",
        ),
        check(
            "placement",
            "ExpectColumnPairValuesToBeEqual",
            "Every move starts at the channel that owns the slot or key now",
            "equal",
            column_A="source",
            column_B="before",
        ),
        check(
            "moves",
            "ExpectCompoundColumnsToBeUnique",
            "No slot or key moves twice",
            "distinct",
            column_list=["kind", "item", "way"],
        ),
        check(
            "moves",
            "ExpectColumnValuesToBeInSet",
            "Every move goes to another channel",
            "another channel",
            column="goes",
            value_set=[True],
        ),
        check(
            "moves",
            "ExpectColumnValuesToNotBeNull",
            "Nothing moves without a reason",
            "a reason",
            column="reason",
        ),
        check(
            "moves",
            "ExpectColumnValuesToBeBetween",
            "No move has negative load, bytes or rows",
            "at least 0",
            column="least",
            min_value=0,
        ),
        check(
            "moves",
            "ExpectColumnSumToBeBetween",
            "The bytes of the moves add up to the plan's",
            f"{plan.bytes:,.0f} bytes",
            column="bytes",
            min_value=plan.bytes - slack,
            max_value=plan.bytes + slack,
        ),
        check(
            "plan",
            "ExpectColumnValuesToBeInSet",
            "The plan starts from the epoch that it names",
            previous.digest[:12],
            column="parent",
            value_set=[previous.digest],
        ),
        check(
            "plan",
            "ExpectColumnMaxToBeBetween",
            "The imbalance that the plan states is that of its loads",
            "no difference",
            column="imbalance_off",
            max_value=ROUNDING,
        ),
    ]
    if plan.budget is not None:
        checks.append(
            check(
                "moves",
                "ExpectColumnSumToBeBetween",
                "The plan moves no more than the budget",
                f"at most {plan.budget:,.0f} bytes",
                column="bytes",
                max_value=plan.budget + slack,
            )
        )
    if weighed:
        checks.append(
            check(
                "channels",
                "ExpectColumnMaxToBeBetween",
                "The loads that the plan predicts are those of the profile",
                "no difference",
                column="off_profile",
                max_value=ROUNDING,
            )
        )
    return checks


def balance_limit(plan: Plan, hedge: Hedge | None = None) -> tuple[float, str]:
    """The imbalance that a plan may not exceed, and why, in words.

    The target where the curve reaches it within the budget. Where it does not (a key heavier
    than its share, a tight budget), missing the target is not the plan's fault: then the least
    that can be had, give or take what `decide` calls noise. What a plan weighs surprises for may
    cost it, of the load that is foretold, no more than these are.
    """
    target, budget = plan.max_imbalance, plan.budget
    every = [p.imbalance for p in plan.curve] or [plan.imbalance_before]
    within = [p.imbalance for p in plan.curve if budget is None or p.bytes <= budget + 0.5]
    reachable = min(within) if within else every[0]
    end = f"the curve ends at {min(every):.4f}, the floor is {plan.floor:.4f}"
    if target is None and hedge is not None:
        why = f"no target is set; {end}, and forecasts were {hedge.chance:.4f} off"
        return reachable + hedge.chance + LEAST_GAIN, why
    if target is None:
        return reachable + LEAST_GAIN, f"no target is set; {end}"
    if reachable <= target:
        return target, f"the target, {target:g}, is within reach"
    if min(every) <= target:
        why = f"the target, {target:g}, costs more than the budget, which buys {reachable:.4f}"
    else:
        why = f"the target, {target:g}, is out of reach: {end}"
    return reachable + LEAST_GAIN, why


def _balance(plan: Plan, free: bool, hedge: Hedge | None) -> list[Check]:
    limit, why = balance_limit(plan, hedge)
    checks = [
        check(
            "channels",
            "ExpectColumnMaxToBeBetween",
            "The channels are as even as asked, or as they can be",
            f"at most {limit:.4f}",
            detail=why,
            column="share_after",
            max_value=limit * (1 + ROUNDING),
        )
    ]
    if not free and hedge is not None and math.isfinite(hedge.before):
        checks.append(
            check(
                "plan",
                "ExpectColumnMaxToBeBetween",
                "The channels are not less even than before, by the load and past surprises",
                f"at most {hedge.before:.6f}",
                column="unevenness",
                max_value=hedge.before * (1 + ROUNDING) + ROUNDING**2,
            )
        )
    elif not free and math.isfinite(plan.imbalance_before):
        checks.append(
            check(
                "channels",
                "ExpectColumnMaxToBeBetween",
                "The channels are not less even than before",
                f"at most {plan.imbalance_before:.4f}",
                column="share_after",
                max_value=plan.imbalance_before * (1 + ROUNDING),
            )
        )
    return checks
