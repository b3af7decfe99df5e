"""Refuse a plan whose tables have changed too much since, before any row moves."""

from __future__ import annotations

from collections.abc import Callable

from evenkeel.quality.budgets import BUDGET_SLACK
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.membership import table_in_errors
from partitioning.errors import FenceError, InputError
from partitioning.function.sql import quoted


def check_budget(migration: Migration, weigh: Callable[[], float]) -> None:
    """Refuse to move more than the plan's budget: the tables may have grown since the plan.

    Parameters
    ----------
    weigh : returns the bytes to move by now; not called if the plan has no budget

    Raises
    ------
    FenceError : it is more than the budget
    """
    plan = migration.plan
    if plan.budget is None:
        return
    size = weigh()
    say(f"{size:,.0f} bytes to move (planned: {plan.bytes:,.0f}, budget: {plan.budget:,.0f})")
    if size > plan.budget + BUDGET_SLACK:
        raise FenceError(
            f"{size:,.0f} bytes are to move by now, the budget is {plan.budget:,.0f} "
            f"(planned: {plan.bytes:,.0f})",
            migration.run.url,
            "Nothing was moved: plan again, or raise the budget",
        )


def check_one_row_a_key(migration: Migration, name: str, found: int, relation: str) -> None:
    """Refuse a team's table that has got duplicates: verify would send all that moved back.

    Parameters
    ----------
    name : of the state table, in the spec
    found : keys that have several rows
    relation : the table, as SQL names it

    Raises
    ------
    InputError : there is one
    """
    if found:
        spec = migration.table.spec
        keys = ", ".join(quoted(c) for c in spec.key)
        raise InputError(
            f"expected one row a key, found {found:,} keys with several; nothing was moved",
            table_in_errors(spec, name),
            f"Find them by SELECT {keys} FROM {relation} GROUP BY {keys} HAVING count(1) > 1, and "
            "remove what is too many; or release the table, and adopt it with rows: many",
        )
