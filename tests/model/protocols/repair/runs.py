"""Repair decides to which epoch it brings tables, which runs it ends, and the last epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.protocols.attempts import PUBLISH, ROLL_BACK, ended, newest, settled, with_plan
from tests.model.protocols.attempts import verdict as verdict_on
from tests.model.protocols.protocol import Outcome, Scenario, on
from tests.model.state import OURS, Proc, State, alone, stands

#: A table that is at rest when repair decides, so that it is passed over.
FINE = -1


class Decision(NamedTuple):
    """The epoch that repair brings the tables to, and the runs that it ends.

    Parameters
    ----------
    runs : plan and newest attempt of each run that has touched a table and not ended
    forward : the plan that is decided to publish; 0: none
    epoch : that alone is to hold
    """

    runs: tuple[tuple[int, int], ...]
    forward: int
    epoch: int


def decided(state: State) -> Decision:
    """Decide, from the registry, the tables' commits and the runs' files."""
    runs, forward = [], 0
    for run in state.runs:
        plan = state.plans[run.plan - 1] if run.plan else None
        if plan is None or plan.parent != state.epoch or not any(s & OURS for s in plan.seen):
            continue
        proc = Proc("repair", "", -1, run.plan)
        number = newest(state, proc)
        verdict = verdict_on(state, proc, number)
        if verdict == ROLL_BACK and ended(state, proc, number):
            continue
        runs.append((run.plan, number))
        # If there are two, the one that moved rows last.
        if verdict == PUBLISH and (not forward or state.tables[0].last == run.plan):
            forward = run.plan
    return Decision(tuple(runs), forward, state.epoch + bool(forward))


def start_repair(scenario: Scenario, state: State) -> Iterable[Outcome]:
    """Start, unless every table is at rest."""
    if all(stands(state, t) == alone(state.epoch) for t in state.tables):
        return []
    proc = Proc("repair", "decide", -1, 0)
    return [("starts: a table is not at rest", on(state, proc, "decide"))]


def decide(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Decide, and remember which constraints each table has then."""
    to = decided(state)
    found = tuple(
        FINE if stands(state, t) == alone(to.epoch) else stands(state, t) for t in state.tables
    )
    proc = proc._replace(plan=to.forward, note=to.epoch, runs=to.runs, found=found, table=0)
    return [(f"decides for epoch {to.epoch}", on(state, proc, "settle", saw=0, other=0))]


def settle(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Have a run roll back that is not decided. `saw` counts the runs."""
    if proc.saw == len(proc.runs):
        return [("has settled every run", on(state, proc, "bring", saw=0))]
    plan, number = proc.runs[proc.saw]
    of = proc._replace(plan=plan, attempt=number)
    if newest(state, of) != number:
        return [("finds another attempt", on(state, proc, "decide"))]
    state, holds = settled(state, of, ROLL_BACK)
    if holds == ROLL_BACK:
        return [("settles a run: roll back", on(state, proc, "mark"))]
    if not proc.plan:
        return [("finds a run that was decided to publish since", on(state, proc, "decide"))]
    return [("finds the verdict: publish", on(state, proc, "settle", saw=proc.saw + 1))]


def mark(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state = _marked(state, proc, 1)
    return [("marks the run", on(state, proc, "settle", saw=proc.saw + 1))]


def _marked(state: State, proc: Proc, far: int) -> State:
    plan, number = proc.runs[proc.saw]
    return with_plan(state, proc._replace(plan=plan), mark=far, marked=number)


def last_look(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look at a table before the epoch is published."""
    if stands(state, state.tables[proc.table]) != alone(proc.note):
        return [("stops: a table has changed since", state)]
    if proc.table + 1 < scenario.tables:
        return [("finds the table at rest", on(state, proc, "last look", table=proc.table + 1))]
    return [("finds every table at rest", on(state, proc, "create", table=0))]


def create(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if state.epoch + 1 != proc.note:
        return [("stops: another epoch is current", state)]
    state = state._replace(epochs=(*state.epochs, proc.plan))
    after = "look again" if proc.other else "done"
    return [("publishes the epoch", on(state, proc, after, saw=0, other=0))]


def look_again(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("fails: a table no longer admits the published epoch; names repair", state)]


def done(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Mark each run that was settled to roll back."""
    if proc.saw == len(proc.runs):
        return [("ends: every table is at rest", state)]
    plan, number = proc.runs[proc.saw]
    if verdict_on(state, proc._replace(plan=plan), number) == ROLL_BACK:
        state = _marked(state, proc, 2)
    return [("has looked at a run", on(state, proc, "done", saw=proc.saw + 1))]
