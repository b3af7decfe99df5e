"""Repair: bring tables to rest from wherever they stand, under a constraint of its own; a job of no
run (spark_jobs/evenkeel_spark/migration/repair.py, placement.py).

It leads to the epoch in force; to the next one where a run is decided to publish.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.protocols.attempts import PUBLISH, ROLL_BACK, ended, newest, settled, with_plan
from tests.model.protocols.attempts import verdict as verdict_on
from tests.model.protocols.protocol import Outcome, Scenario, Step, on
from tests.model.rows import Rows, joined, whole_moved
from tests.model.state import (
    OURS,
    Proc,
    State,
    Table,
    admits,
    alone,
    commit,
    repairing,
    rules,
    stands,
)

#: Constraints of repair itself, whichever epoch they admit.
REPAIRING = repairing(0) | repairing(1) | repairing(2)
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
    return [(f"decides for epoch {to.epoch}", on(state, proc, "settle", saw=0))]


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


def bring(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Take up a table that was not at rest."""
    if proc.table == scenario.tables:
        after = "last look" if proc.plan else "done"
        return [("has brought every table", on(state, proc, after, table=0))]
    if proc.found[proc.table] == FINE:
        return [("passes over a table", on(state, proc, "bring", table=proc.table + 1))]
    there = state.tables[proc.table].constraints & alone(proc.note)
    return [("takes up a table", on(state, proc, "strip look" if there else "look"))]


def _strange(state: State, proc: Proc, needed: int) -> str | None:
    """Say why repair must leave a table alone; None: its constraints are those that it knows."""
    bits = stands(state, state.tables[proc.table])
    known = proc.found[proc.table] | REPAIRING | alone(proc.note)
    if bits & ~known or bits & needed != needed:
        return "stops: other constraints stand than it knows"
    return None


def _otherwise(state: State, proc: Proc) -> str | None:
    """Say that it would be decided otherwise by now; None: it would not."""
    return None if decided(state).epoch == proc.note else "stops: another epoch is to hold by now"


def look(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Begin the commit of its own constraint: look at the table, then at everything."""
    if (why := _strange(state, proc, 0) or _otherwise(state, proc)) is not None:
        return [(why, state)]
    bits = stands(state, state.tables[proc.table])
    if bits & REPAIRING == repairing(proc.note):
        return [("finds its constraint there", on(state, proc, "ask", other=0))]
    return [("looks: the table stands as it knows", on(state, proc, "put", saw=bits))]


def put(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Add its own constraint, or give it another rule: no row is scanned."""
    table = state.tables[proc.table]
    if stands(state, table) != proc.saw:
        return [("loses the commit", on(state, proc, "look", saw=0))]
    bits = table.constraints & ~REPAIRING | repairing(proc.note)
    state = commit(state, proc.table, table._replace(constraints=bits), 0, False)
    fresh = int(not proc.saw & REPAIRING)
    return [("puts its own constraint", on(state, proc, "ask", saw=0, other=fresh))]


def ask(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Write, then look. `other`: the constraint came by this very repair."""
    if (why := _otherwise(state, proc)) is None:
        return [("looks: nothing has changed", on(state, proc, "drop look", other=0))]
    if proc.other:
        return [("looks: another epoch is to hold by now", on(state, proc, "take back", other=0))]
    return [(why, state)]


def take_back(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table = state.tables[proc.table]
    left = table._replace(constraints=table.constraints & ~REPAIRING)
    if left != table and stands(state, left):
        state = commit(state, proc.table, left, 0, False)
    return [("stops: takes its constraint away again", state)]


def drop_look(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look for a constraint to drop beside its own."""
    return _before_drop(state, proc, repairing(proc.note), "drop", "place")


def strip_look(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look for a constraint to drop beside the epoch's."""
    return _before_drop(state, proc, alone(proc.note), "strip", "next")


def _before_drop(state: State, proc: Proc, kept: int, drop: str, after: str) -> Iterable[Outcome]:
    if (why := _strange(state, proc, kept)) is not None:
        return [(why, state)]
    bits = stands(state, state.tables[proc.table])
    if bits == kept:
        return [("looks: one constraint stands", on(state, proc, after, saw=0))]
    if (why := _otherwise(state, proc)) is not None:
        return [(why, state)]
    return [("looks: others stand", on(state, proc, drop, saw=bits))]


def drop(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _drop_one(state, proc, repairing(proc.note), "drop look")


def strip(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _drop_one(state, proc, alone(proc.note), "strip look")


def _drop_one(state: State, proc: Proc, kept: int, after: str) -> Iterable[Outcome]:
    """Drop one constraint, if all are as they were seen."""
    table = state.tables[proc.table]
    if stands(state, table) != proc.saw:
        return [("loses the commit", on(state, proc, after, saw=0))]
    others = table.constraints & ~kept
    if others:
        left = table._replace(constraints=table.constraints & ~(others & -others))
    else:
        left = table._replace(movers=table.movers[1:])
    state = commit(state, proc.table, left, 0, False)
    return [("drops a constraint", on(state, proc, after, saw=0))]


def next_table(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("is through with the table", on(state, proc, "bring", table=proc.table + 1))]


def place(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look which rows are to be placed."""
    if (why := _strange(state, proc, repairing(proc.note))) is not None:
        return [(why, state)]
    table = state.tables[proc.table]
    if _merged(scenario, proc, table) is not None:
        return [("looks: partial rows are to join", on(state, proc, "merge"))]
    if _updated(scenario, proc, table) is not None:
        return [("looks: whole keys are to move", on(state, proc, "update"))]
    if admits(alone(proc.note), table.rows, scenario.functions):
        bits = stands(state, table)
        return [("looks: every row is in its place", on(state, proc, "finish", saw=bits))]
    return [("stops: no statement of ours moves what is left", state)]


def _updated(scenario: Scenario, proc: Proc, table: Table) -> Rows | None:
    target = scenario.functions[proc.note]
    split = next((f for f in scenario.functions if len(f.owners) > 1), target)
    return whole_moved(table.rows, split, target)


def _merged(scenario: Scenario, proc: Proc, table: Table) -> Rows | None:
    rows = joined(table.rows, scenario.functions[proc.note], True)
    assert not isinstance(rows, str)
    return rows


def update(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = _updated(scenario, proc, state.tables[proc.table])
    return _write(scenario, state, proc, rows, "updates the channel of whole keys")


def merge(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = _merged(scenario, proc, state.tables[proc.table])
    return _write(scenario, state, proc, rows, "merges partial rows, one a channel")


def _write(
    scenario: Scenario, state: State, proc: Proc, rows: Rows | None, text: str
) -> Iterable[Outcome]:
    """Write rows without a transaction id. Constraints see only the rows that are written."""
    table = state.tables[proc.table]
    if rows is None:
        return [("finds nothing to move any more", on(state, proc, "place"))]
    written = tuple(row for row in rows if row not in table.rows)
    if not admits(rules(state, table), written, scenario.functions):
        return [("stops: a constraint refuses its rows", state)]
    state = commit(state, proc.table, table._replace(rows=rows), 0, False)
    return [(text, on(state, proc, "place"))]


def finish(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Add the epoch's constraint without a scan, if nothing but rows has changed since."""
    table = state.tables[proc.table]
    if stands(state, table) != proc.saw or not proc.saw & repairing(proc.note):
        return [("stops: somebody has changed more than rows", state)]
    added = table._replace(constraints=table.constraints | alone(proc.note))
    state = commit(state, proc.table, added, 0, False)
    return [("puts the epoch's constraint", on(state, proc, "strip look", saw=0))]


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
    return [("publishes the epoch", on(state, proc, "done", saw=0))]


def done(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Mark each run that was settled to roll back."""
    if proc.saw == len(proc.runs):
        return [("ends: every table is at rest", state)]
    plan, number = proc.runs[proc.saw]
    if verdict_on(state, proc._replace(plan=plan), number) == ROLL_BACK:
        state = _marked(state, proc, 2)
    return [("has looked at a run", on(state, proc, "done", saw=proc.saw + 1))]


REPAIR: dict[str, Step] = {
    "decide": decide,
    "settle": settle,
    "mark": mark,
    "bring": bring,
    "look": look,
    "put": put,
    "ask": ask,
    "take back": take_back,
    "drop look": drop_look,
    "drop": drop,
    "strip look": strip_look,
    "strip": strip,
    "next": next_table,
    "place": place,
    "update": update,
    "merge": merge,
    "finish": finish,
    "last look": last_look,
    "create": create,
    "done": done,
}
