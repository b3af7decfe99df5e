"""Moving rows from one placement to the other, as today's protocol does it
(spark_jobs/evenkeel_spark/migration/table_migration.py):
open the constraint, move, seal; forward for migrate and verify, back for roll_back."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.protocol import Outcome, Scenario, on, plan_of
from tests.model.rows import joined, whole_moved
from tests.model.state import FOREIGN, Proc, State, admits, alone, commit, moving, rules


def bits(state: State, proc: Proc) -> tuple[int, int, int]:
    """Constraints of the plan: of the epoch that is left, moving, of the one that is led to."""
    parent = plan_of(state, proc).parent
    old, new = alone(parent), alone(parent + 1)
    return (
        (new, moving(parent + 1), old)
        if proc.job == "roll_back"
        else (old, moving(parent + 1), new)
    )


def fence(state: State, proc: Proc) -> str | None:
    """Say why the job must stop; None: it may go on
    (spark_jobs/evenkeel_spark/migration/fence.py)."""
    plan, table = plan_of(state, proc), state.tables[proc.table]
    if proc.job != "roll_back" and state.runs[proc.run].mark >> 1 == proc.plan:
        return "stops: this run was rolled back"
    if not table.constraints:
        return "stops: the table has lost its constraint"
    if table.constraints & ~sum(bits(state, proc)):
        return "stops: another constraint stands"
    if proc.job != "roll_back":
        if state.epoch != plan.parent:
            return "stops: another epoch is current"
        if plan.seen[proc.table] & FOREIGN:
            return "stops: the table's history has more than ordinary writes"
    return None


def open_constraint(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look, and begin to let the table admit both functions."""
    if (why := fence(state, proc)) is not None:
        return [(why, state)]
    source, both, _ = bits(state, proc)
    stands = state.tables[proc.table].constraints
    if not stands & source:
        return [("looks: nothing to open", on(state, proc, "move"))]
    after = "close" if stands & both else "add moving"
    return [("looks before unsealing", on(state, proc, after))]


def add_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, (_, both, _) = state.tables[proc.table], bits(state, proc)
    if table.constraints & both:
        return [("finds the moving constraint", on(state, proc, "close"))]
    if not admits(both, table.rows, scenario.functions):
        return [("stops: rows stand where neither epoch puts them", state)]
    added = table._replace(constraints=table.constraints | both)
    state = commit(state, proc.table, added, proc.plan)
    return [("adds the moving constraint", on(state, proc, "close"))]


def close(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, (source, _, _) = state.tables[proc.table], bits(state, proc)
    if table.constraints & source:
        left = table._replace(constraints=table.constraints & ~source)
        state = commit(state, proc.table, left, proc.plan)
    return [("drops the constraint of the epoch it leaves", on(state, proc, "move"))]


def move(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look what is left to move."""
    if (why := fence(state, proc)) is not None:
        return [(why, state)]
    table, (left, led) = state.tables[proc.table], ends(scenario, state, proc)
    if whole_moved(table.rows, left, led) is not None:
        return [("looks: whole keys are to move", on(state, proc, "update", held=table.version))]
    if joined(table.rows, led, False) is not None:
        return [("looks: partial rows are to join", on(state, proc, "merge", held=table.version))]
    return [("looks: no row is left to move", on(state, proc, "moved"))]


def ends(scenario: Scenario, state: State, proc: Proc) -> tuple:
    """Functions that rows leave and arrive by."""
    parent = plan_of(state, proc).parent
    old, new = scenario.functions[parent], scenario.functions[parent + 1]
    return (new, old) if proc.job == "roll_back" else (old, new)


def update(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = whole_moved(state.tables[proc.table].rows, *ends(scenario, state, proc))
    return write(scenario, state, proc, rows, "updates the channel of whole keys")


def merge(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = joined(state.tables[proc.table].rows, ends(scenario, state, proc)[1], False)
    if isinstance(rows, str):
        return [(f"stops with a raw error: {rows}", state)]
    return write(scenario, state, proc, rows, "merges partial rows into the home's")


def write(scenario: Scenario, state: State, proc: Proc, rows, text: str) -> Iterable[Outcome]:
    """Move rows in one commit that carries the fenced version as its transaction id."""
    return write_rows(scenario, state, proc, rows, text, "move")


def write_rows(scenario: Scenario, state: State, proc: Proc, rows, text: str, after: str):
    """Move rows in one commit, and go on at the step `after`."""
    table = state.tables[proc.table]
    if table.spent >= proc.held:
        text = "is skipped: its transaction id is spent"
        return [(text, on(state, proc, after, held=-1))]
    if rows is None:
        rows, text = table.rows, "finds nothing to move any more, and spends its transaction id"
    # Constraints see only the rows that are written.
    written = tuple(row for row in rows if row not in table.rows)
    if not admits(rules(state, table), written, scenario.functions):
        return [("stops: a constraint refuses its rows", state)]
    moved = table._replace(rows=rows, spent=proc.held)
    state = commit(state, proc.table, moved, proc.plan, proc.job != "repair")
    return [(text, on(state, proc, after, held=-1))]


def seal(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look, and begin to let the table admit one function alone."""
    if (why := fence(state, proc)) is not None:
        return [(why, state)]
    _, both, target = bits(state, proc)
    stands = state.tables[proc.table].constraints
    if not stands & target:
        return [("looks before sealing", on(state, proc, "open"))]
    return [
        (
            "looks: the epoch's constraint stands",
            on(state, proc, "drop moving" if stands & both else "sealed"),
        )
    ]


def open_(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Add the constraint of the epoch that is led to."""
    table, (_, _, target) = state.tables[proc.table], bits(state, proc)
    if not table.constraints & target:
        if not admits(target, table.rows, scenario.functions):
            return [("finds rows that came meanwhile", on(state, proc, "move"))]
        added = table._replace(constraints=table.constraints | target)
        state = commit(state, proc.table, added, proc.plan)
    return [("adds the constraint of the epoch it leads to", on(state, proc, "drop moving"))]


def drop_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, (_, both, _) = state.tables[proc.table], bits(state, proc)
    if table.constraints & both:
        left = table._replace(constraints=table.constraints & ~both)
        state = commit(state, proc.table, left, proc.plan)
    return [("drops the moving constraint", on(state, proc, "sealed"))]


MOVES = {
    "open constraint": open_constraint,
    "add moving": add_moving,
    "close": close,
    "move": move,
    "update": update,
    "merge": merge,
    "seal": seal,
    "open": open_,
    "drop moving": drop_moving,
}
