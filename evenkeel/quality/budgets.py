"""Budgets: how many bytes a plan may move and a migration may write."""

from __future__ import annotations

from evenkeel.quality.tables_suite import CLOSE
from partitioning.planning.plan import Plan


def plan_budget(budget: float | None) -> float | None:
    """Bytes of state that a plan may move, so that what Delta writes for them is in the budget."""
    return None if budget is None else budget / (1 + CLOSE)


def write_budget(plan: Plan) -> float | None:
    """Bytes that may be written for a plan, but for files' footers: the budget that it is of."""
    return None if plan.budget is None else plan.budget * (1 + CLOSE)
