"""Repair: bring tables to rest from wherever they stand; a job of no run.

It leads to the epoch in force; to the next one where the verdict on a table's owner is to publish.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.attempts import PUBLISH, ROLL_BACK, newest, settled, verdict, with_plan
from tests.model.protocols.moves import write_rows
from tests.model.protocols.protocol import Outcome, Scenario, Step, on, plan_of
from tests.model.rows import Function, joined, whole_moved
from tests.model.state import Proc, State, Table, admits, alone, commit, moving, stands


def start_repair(scenario: Scenario, state: State) -> Iterable[Outcome]:
    """Start, unless every table is at rest."""
    if all(stands(state, t) == alone(state.epoch) for t in state.tables):
        return []
    proc = Proc("repair", "assess", -1, 0)
    return [("starts: a table is not at rest", on(state, proc, "assess"))]


def owner(state: State) -> int:
    """Return the plan by which a table is on its way, or was sealed and not published; 0: none."""
    for table in state.tables:
        for mover in table.movers:
            return mover
        last = state.plans[table.last - 1] if table.last else None
        sealed = last is not None and table.constraints & alone(last.parent + 1)
        if last is not None and sealed and state.epoch == last.parent:
            return table.last
    return 0


def assess(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Find whose move was broken off."""
    plan = owner(state)
    there = state.plans[plan - 1] if plan else None
    if there is None or there.parent != state.epoch:
        return [("finds no run's move", on(state, proc, "fix", note=state.epoch))]
    proc = proc._replace(plan=plan)
    return [("finds a run's move", on(state, proc, "settle", attempt=newest(state, proc)))]


def settle(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state, holds = settled(state, proc, ROLL_BACK)
    if holds == PUBLISH:
        text = "finds the verdict: publish"
        return [(text, on(state, proc, "fix", note=plan_of(state, proc).parent + 1))]
    text = "creates the verdict: roll back"
    return [(text, on(state, proc, "fix", note=plan_of(state, proc).parent))]


def holds(state: State, proc: Proc) -> str | None:
    """Say why repair must stop; None: it may go on."""
    if owner(state) not in (0, proc.plan):
        return "stops: a run has begun to move rows"
    if not proc.plan:
        return None if proc.note == state.epoch else "stops: another epoch is current"
    if state.epoch != plan_of(state, proc).parent or newest(state, proc) != proc.attempt:
        return "stops: another epoch is current, or another attempt has begun"
    wanted = PUBLISH if proc.note > state.epoch else ROLL_BACK
    return None if verdict(state, proc, proc.attempt) == wanted else "stops: another verdict holds"


def fix(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look at a table, and find the next thing to do."""
    if (why := holds(state, proc)) is not None:
        return [(why, state)]
    table, wanted = state.tables[proc.table], alone(proc.note)
    bits = stands(state, table)
    if bits == wanted:
        if proc.table + 1 < scenario.tables:
            return [("finds the table at rest", on(state, proc, "fix", table=proc.table + 1))]
        after = "create" if proc.note > state.epoch else "done"
        return [("finds every table at rest", on(state, proc, after, table=0))]
    if admits(wanted, table.rows, scenario.functions):
        after = "strip" if table.constraints & wanted else "add"
        return [("looks: the rows are where they belong", on(state, proc, after, saw=bits))]
    if not table.constraints:
        after = "update" if _update(scenario, proc, table) else "merge"
        return [("looks: rows are to move", on(state, proc, after, held=table.version))]
    if proc.plan and not table.movers:
        return [("looks: the table admits one epoch", on(state, proc, "guard", other=0))]
    return [("looks: constraints are in the way", on(state, proc, "open up", saw=bits))]


def guard(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Add the owner's moving constraint, so that the table is never without one."""
    table = state.tables[proc.table]
    if not admits(moving(plan_of(state, proc).parent + 1), table.rows, scenario.functions):
        text = "finds rows by neither epoch"
        return [(text, on(state, proc, "open up", saw=stands(state, table)))]
    if proc.plan in table.movers:
        return [("finds the moving constraint", on(state, proc, "fix"))]
    added = table._replace(movers=(*table.movers, proc.plan))
    state = commit(state, proc.table, added, proc.plan, False)
    return [("adds the owner's moving constraint", on(state, proc, "ask guard"))]


def ask_guard(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.other or holds(state, proc) is not None:
        return [("looks: the world has changed", on(state, proc, "undo guard", other=0))]
    return [("looks: the world is as it was", on(state, proc, "fix", other=0))]


def undo_guard(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table = state.tables[proc.table]
    left = table._replace(movers=tuple(m for m in table.movers if m != proc.plan))
    if left != table and stands(state, left):
        state = commit(state, proc.table, left, proc.plan, False)
    return [("stops: takes its constraint away again", state)]


def open_up(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Drop what is in the way of moves, in one commit, if the constraints are as they were seen."""
    table = state.tables[proc.table]
    if stands(state, table) != proc.saw:
        return [("finds other constraints than it saw", on(state, proc, "fix", saw=0))]
    state = commit(state, proc.table, table._replace(constraints=0), proc.plan, False)
    return [("drops the epochs' constraints", on(state, proc, "fix", saw=0))]


def add(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, wanted = state.tables[proc.table], alone(proc.note)
    if not admits(wanted, table.rows, scenario.functions):
        return [("finds rows that came meanwhile", on(state, proc, "fix", saw=0))]
    if not table.constraints & wanted:
        added = table._replace(constraints=table.constraints | wanted)
        state = commit(state, proc.table, added, proc.plan, False)
    return [("adds the epoch's constraint", on(state, proc, "ask add", saw=0))]


def ask_add(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if holds(state, proc) is not None:
        return [("looks: the world has changed", on(state, proc, "undo add"))]
    return [("looks: the world is as it was", on(state, proc, "fix"))]


def undo_add(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table = state.tables[proc.table]
    left = table._replace(constraints=table.constraints & ~alone(proc.note))
    if proc.note != state.epoch and left != table and stands(state, left):
        state = commit(state, proc.table, left, proc.plan, False)
    return [("stops: takes its constraint away again", state)]


def strip(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Drop all constraints but the epoch's, in one commit, if they are as they were seen."""
    table, wanted = state.tables[proc.table], alone(proc.note)
    if stands(state, table) != proc.saw or not table.constraints & wanted:
        return [("finds other constraints than it saw", on(state, proc, "fix", saw=0))]
    left = table._replace(constraints=wanted, movers=())
    state = commit(state, proc.table, left, proc.plan, False)
    return [("drops the other constraints", on(state, proc, "fix", saw=0))]


def _ends(scenario: Scenario, proc: Proc) -> tuple[Function, Function]:
    target = scenario.functions[proc.note]
    return next((f for f in scenario.functions if len(f.owners) > 1), target), target


def _update(scenario: Scenario, proc: Proc, table: Table) -> bool:
    return whole_moved(table.rows, *_ends(scenario, proc)) is not None


def update(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = whole_moved(state.tables[proc.table].rows, *_ends(scenario, proc))
    return write_rows(scenario, state, proc, rows, "updates the channel of whole keys", "fix")


def merge(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = joined(state.tables[proc.table].rows, scenario.functions[proc.note], True)
    return write_rows(scenario, state, proc, rows, "merges partial rows, one a channel", "fix")


def create(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if plan_of(state, proc).parent != state.epoch:
        return [("stops: another epoch is current", state)]
    return [("publishes the epoch", state._replace(epochs=(*state.epochs, proc.plan)))]


def done(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.plan and newest(state, proc) == proc.attempt:
        state = with_plan(state, proc, mark=2, marked=proc.attempt)
    return [("ends: every table is at rest", state)]


REPAIR: dict[str, Step] = {
    "assess": assess,
    "settle": settle,
    "fix": fix,
    "guard": guard,
    "ask guard": ask_guard,
    "undo guard": undo_guard,
    "open up": open_up,
    "add": add,
    "ask add": ask_add,
    "undo add": undo_add,
    "strip": strip,
    "update": update,
    "merge": merge,
    "create": create,
    "done": done,
}
