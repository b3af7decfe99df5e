"""Repair brings one table to rest: by a constraint of its own, the rows, and the epoch's."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.protocol import Outcome, Scenario, on
from tests.model.protocols.repair.runs import FINE, decided
from tests.model.rows import Rows, joined, whole_moved
from tests.model.state import Proc, State, Table, admits, alone, commit, repairing, rules, stands

#: Constraints of repair itself, whichever epoch they admit.
REPAIRING = repairing(0) | repairing(1) | repairing(2)


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
    put = table._replace(constraints=bits, spent=table.version)
    state = commit(state, proc.table, put, 0, False)
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
    state = commit(state, proc.table, left._replace(spent=table.version), 0, False)
    return [("drops a constraint", on(state, proc, after, saw=0))]


def next_table(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("is through with the table", on(state, proc, "bring", table=proc.table + 1))]


def place(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look which rows are to be placed."""
    if (why := _strange(state, proc, repairing(proc.note))) is not None:
        return [(why, state)]
    table = state.tables[proc.table]
    if _merged(scenario, proc, table) is not None:
        return [("looks: partial rows are to join", on(state, proc, "merge", held=table.version))]
    if _updated(scenario, proc, table) is not None:
        return [("looks: whole keys are to move", on(state, proc, "update", held=table.version))]
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
    """Write rows; the version looked at is the transaction id.

    Constraints see only the rows that are written.
    """
    table = state.tables[proc.table]
    if rows is None:
        return [("finds nothing to move any more", on(state, proc, "place", held=-1))]
    written = tuple(row for row in rows if row not in table.rows)
    if not admits(rules(state, table), written, scenario.functions):
        return [("stops: a constraint refuses its rows", state)]
    if table.spent >= proc.held:
        text = "is skipped: its transaction id is spent"
        return [(text, on(state, proc, "place", held=-1))]
    moved = table._replace(rows=rows, spent=proc.held)
    state = commit(state, proc.table, moved, 0, False)
    return [(text, on(state, proc, "place", held=-1))]


def finish(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Add the epoch's constraint without a scan, if nothing but rows has changed since."""
    table = state.tables[proc.table]
    if stands(state, table) != proc.saw or not proc.saw & repairing(proc.note):
        return [("stops: somebody has changed more than rows", state)]
    added = table._replace(constraints=table.constraints | alone(proc.note))
    state = commit(state, proc.table, added, 0, False)
    return [("puts the epoch's constraint", on(state, proc, "strip look", saw=0))]
