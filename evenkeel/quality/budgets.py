"""Byte budgets: how much a plan may move, and how much a migration may write."""

from __future__ import annotations

from evenkeel.quality.tables_suite import WRITTEN_OVER_WARNING
from partitioning.planning.plan import Plan

#: Half a byte: sums of floats may differ in their last digits.
BUDGET_SLACK = 0.5


def plan_budget(budget: float | None) -> float | None:
    """Return the bytes of state that a plan may move under a spec's write budget.

    Delta writes a little more than the rows that move. The plan leaves room for that.

    Parameters
    ----------
    budget : bytes that a run may write; None: no limit

    Returns
    -------
    Bytes; None: no limit.
    """
    return None if budget is None else budget / (1 + WRITTEN_OVER_WARNING)


def write_budget(plan: Plan) -> float | None:
    """Return the bytes that the migration of a plan may write, without the files' footers.

    This is the inverse of `plan_budget`. None: no limit.
    """
    return None if plan.budget is None else plan.budget * (1 + WRITTEN_OVER_WARNING)
