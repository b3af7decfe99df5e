"""Attempts of a run at its plan, and their verdicts: evenkeel/registry/verdict.py in the model."""

from __future__ import annotations

from tests.model.protocols.protocol import plan_of
from tests.model.state import Proc, State

PUBLISH, ROLL_BACK = 1, 2


def newest(state: State, proc: Proc) -> int:
    """Return the number of the newest attempt, from 1."""
    return plan_of(state, proc).attempt


def verdict(state: State, proc: Proc, number: int) -> int:
    """Return the verdict on an attempt; 0: none yet."""
    verdicts = plan_of(state, proc).verdicts
    return verdicts[number - 1] if number <= len(verdicts) else 0


def ended(state: State, proc: Proc, number: int) -> bool:
    """Return whether rolling back an attempt has ended."""
    plan = plan_of(state, proc)
    return plan.mark == 2 and plan.marked == number


def with_plan(state: State, proc: Proc, **changes: object) -> State:
    """Write files of the plan: its attempt, its mark."""
    plan = plan_of(state, proc)._replace(**changes)
    at = proc.plan
    return state._replace(plans=(*state.plans[: at - 1], plan, *state.plans[at:]))


def settled(state: State, proc: Proc, wanted: int) -> tuple[State, int]:
    """Create the verdict on the job's attempt, unless there is one; return what holds."""
    there = verdict(state, proc, proc.attempt)
    if there:
        return state, there
    verdicts = list(plan_of(state, proc).verdicts)
    verdicts[proc.attempt - 1] = wanted
    return with_plan(state, proc, verdicts=tuple(verdicts)), wanted
