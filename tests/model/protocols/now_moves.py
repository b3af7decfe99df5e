"""Moving rows, since plans name their run
(spark_jobs/evenkeel_spark/migration/table_migration.py): a constraint is added, then the
world is looked at again; one is dropped only where the other stands, in that very commit. No row is
scanned in the commit that adds one. So the moving constraint is closed to the function that is left
before the last rows move, and rows are looked at before the epoch's constraint is added.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.attempts import ROLL_BACK, newest, verdict
from tests.model.protocols.moves import ends, write
from tests.model.protocols.protocol import Outcome, Scenario, Step, on, plan_of
from tests.model.rows import joined, whole_moved
from tests.model.state import FOREIGN, Proc, State, Table, admits, alone, commit, stands


def owned(state: State, proc: Proc) -> bool:
    """Return whether a table is on its way by this plan, or was sealed by it."""
    table = state.tables[proc.table]
    if proc.plan in table.movers:
        return True
    return bool(table.constraints & alone(plan_of(state, proc).parent + 1)) and (
        table.last == proc.plan
    )


def sealed_by_none(state: State, proc: Proc) -> bool:
    """Return whether the plan's new constraint stands, and no commit tells which plan put it."""
    table = state.tables[proc.table]
    return not table.last and bool(table.constraints & alone(plan_of(state, proc).parent + 1))


def constraint_problem(state: State, proc: Proc) -> str | None:
    """Say what is wrong with the table's constraints; None: nothing."""
    table, parent = state.tables[proc.table], plan_of(state, proc).parent
    if not stands(state, table):
        return "stops: the table has lost its constraint"
    if table.constraints & ~(alone(parent) | alone(parent + 1)) or set(table.movers) - {proc.plan}:
        return "stops: another constraint stands"
    if (table.constraints != alone(parent) or table.movers) and not owned(state, proc):
        return "stops: another plan brought the table where it stands"
    return None


def fence(state: State, proc: Proc) -> str | None:
    """Say why a job that goes forward must stop; None: it may go on."""
    plan, number = plan_of(state, proc), newest(state, proc)
    if plan.withdrawn:
        return "stops: its plan was withdrawn"
    if number != proc.attempt or verdict(state, proc, number) == ROLL_BACK:
        return "stops: this attempt was rolled back"
    if (why := constraint_problem(state, proc)) is not None:
        return why
    if state.epoch != plan.parent:
        return "stops: another epoch is current"
    if plan.seen[proc.table] & FOREIGN:
        return "stops: the table's history has more than ordinary writes"
    return None


def back_fence(state: State, proc: Proc) -> str | None:
    """Say why a job that goes back must stop; None: it may go on."""
    if newest(state, proc) != proc.attempt or state.epoch > plan_of(state, proc).parent:
        return "stops: another attempt has begun, or the epoch is published"
    return constraint_problem(state, proc)


def fenced(state: State, proc: Proc) -> str | None:
    """Say why the job must stop; None: it may go on."""
    return back_fence(state, proc) if proc.job == "roll_back" else fence(state, proc)


def epochs(state: State, proc: Proc) -> tuple[int, int]:
    """Constraints (bits) of the epoch that is left and of the one that is led to."""
    parent = plan_of(state, proc).parent
    bits = alone(parent), alone(parent + 1)
    return (bits[1], bits[0]) if proc.job == "roll_back" else bits


def open_constraint(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if (why := fenced(state, proc)) is not None:
        return [(why, state)]
    table = state.tables[proc.table]
    if not table.constraints & epochs(state, proc)[0]:
        if table.closed:
            saw = stands(state, table)
            return [("looks: the moving constraint is closed", on(state, proc, "widen", saw=saw))]
        return [("looks: nothing to open", on(state, proc, _moves(proc)))]
    after = "close" if proc.plan in table.movers else "add moving"
    saw = 0 if proc.plan in table.movers else stands(state, table)
    return [("looks before unsealing", on(state, proc, after, other=0, saw=saw))]


def add_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table = state.tables[proc.table]
    if proc.plan in table.movers:
        return [("finds its moving constraint", on(state, proc, "ask moving", saw=0))]
    if stands(state, table) != proc.saw:
        return [("finds other constraints than it saw", on(state, proc, "open constraint", saw=0))]
    added = table._replace(movers=tuple(sorted((*table.movers, proc.plan))))
    state = commit(state, proc.table, added, proc.plan)
    return [("adds its moving constraint", on(state, proc, "ask moving", saw=0))]


def ask_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _ask(state, proc, "close", "undo moving")


def ask_open(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _ask(state, proc, "drop moving", "undo open")


def _ask(state: State, proc: Proc, fine: str, wrong: str) -> Iterable[Outcome]:
    if proc.other or fenced(state, proc) is not None:
        return [("looks: the world has changed", on(state, proc, wrong, other=0))]
    return [("looks: the world is as it was", on(state, proc, fine, other=0))]


def _without(state: State, proc: Proc, bit: int) -> Table | None:
    """The table without one constraint (0: its moving one), where another stands; None: else."""
    table = state.tables[proc.table]
    if bit:
        left = table._replace(constraints=table.constraints & ~bit)
    else:
        left = table._replace(movers=tuple(m for m in table.movers if m != proc.plan))
    return left if left != table and stands(state, left) else None


def undo_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _undo(state, proc, 0)


def undo_open(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _undo(state, proc, epochs(state, proc)[1])


def _undo(state: State, proc: Proc, bit: int) -> Iterable[Outcome]:
    if (left := _without(state, proc, bit)) is not None:
        state = commit(state, proc.table, left, proc.plan)
    return [("stops: takes its constraint away again", state)]


def close(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, bit = state.tables[proc.table], epochs(state, proc)[0]
    if table.constraints & bit:
        if proc.plan not in table.movers:
            return [("stops: its moving constraint is gone", state)]
        left = table._replace(constraints=table.constraints & ~bit)
        state = commit(state, proc.table, left, proc.plan)
    return [("drops the constraint of the epoch it leaves", on(state, proc, _moves(proc)))]


def _moves(proc: Proc) -> str:
    """The step at which rows begin to move: migrate leaves the table open meanwhile."""
    return "shut" if proc.job == "roll_back" else "move"


def _led(state: State, proc: Proc) -> int:
    """The epoch that is led to."""
    return plan_of(state, proc).parent + (proc.job != "roll_back")


def shut(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look, and begin to close the moving constraint to the function that is left."""
    if (why := fenced(state, proc)) is not None:
        return [(why, state)]
    table = state.tables[proc.table]
    if table.constraints & epochs(state, proc)[1]:
        return [("looks: the epoch's constraint stands", on(state, proc, "move"))]
    if table.closed == _led(state, proc) + 1:
        return [("looks: the moving constraint is closed", on(state, proc, "move"))]
    return [("looks before closing", on(state, proc, "shut now", saw=stands(state, table)))]


def shut_now(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table = state.tables[proc.table]
    if stands(state, table) != proc.saw or proc.plan not in table.movers:
        return [("finds other constraints than it saw", on(state, proc, "shut", saw=0))]
    left = table._replace(closed=_led(state, proc) + 1)
    if proc.job != "migrate":
        # Statements of another attempt that are under way come too late from now on.
        left = left._replace(spent=table.version)
    state = commit(state, proc.table, left, proc.plan)
    text = "closes the moving constraint to the epoch it leaves"
    return [(text, on(state, proc, "move", saw=0))]


def move(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look what is left to move."""
    if (why := fenced(state, proc)) is not None:
        return [(why, state)]
    table, (left, led) = state.tables[proc.table], ends(scenario, state, proc)
    others = list(_holding(state, proc))
    if whole_moved(table.rows, left, led) is not None:
        text, after = "looks: whole keys are to move", "update"
        return [(text, on(state, proc, after, held=table.version)), *others]
    if joined(table.rows, led, True) is not None:
        text, after = "looks: partial rows are to join", "merge"
        return [(text, on(state, proc, after, held=table.version)), *others]
    return [("looks: no row is left to move", on(state, proc, "moved")), *others]


def _holding(state: State, proc: Proc) -> Iterable[Outcome]:
    """Hold other writers off while a statement runs that has lost; migrate then lets them go on."""
    table = state.tables[proc.table]
    if proc.plan not in table.movers or table.constraints & epochs(state, proc)[1]:
        return
    saw = stands(state, table)
    if table.closed == _led(state, proc) + 1 and proc.job == "migrate":
        yield "lets other writers go on", on(state, proc, "widen", saw=saw)
    elif table.closed != _led(state, proc) + 1:
        yield "holds other writers off", on(state, proc, "shut now", saw=saw)


def widen(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Let the moving constraint admit both functions again."""
    table = state.tables[proc.table]
    if stands(state, table) != proc.saw or proc.plan not in table.movers:
        return [("finds other constraints than it saw", on(state, proc, "open constraint", saw=0))]
    state = commit(state, proc.table, table._replace(closed=0), proc.plan)
    return [("lets the table admit both epochs", on(state, proc, _moves(proc), saw=0))]


def update(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = whole_moved(state.tables[proc.table].rows, *ends(scenario, state, proc))
    return write(scenario, state, proc, rows, "updates the channel of whole keys")


def merge(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = joined(state.tables[proc.table].rows, ends(scenario, state, proc)[1], True)
    return write(scenario, state, proc, rows, "merges partial rows, one a channel")


def seal(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if (why := fenced(state, proc)) is not None:
        return [(why, state)]
    table, bit = state.tables[proc.table], epochs(state, proc)[1]
    if not table.constraints & bit:
        if table.closed != _led(state, proc) + 1:
            return [("looks: the moving constraint is not closed", on(state, proc, "shut"))]
        if not admits(bit, table.rows, scenario.functions):
            return [("looks: rows came before it was closed", on(state, proc, "move"))]
        saw = stands(state, table)
        return [("looks: all rows are in place", on(state, proc, "open", other=0, saw=saw))]
    after = "drop moving" if proc.plan in table.movers else "sealed"
    return [("looks: the epoch's constraint stands", on(state, proc, after))]


def open_(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, bit = state.tables[proc.table], epochs(state, proc)[1]
    if not table.constraints & bit:
        if stands(state, table) != proc.saw:
            text = "finds other constraints than it saw"
            return [(text, on(state, proc, "seal", other=0, saw=0))]
        added = table._replace(constraints=table.constraints | bit)
        state = commit(state, proc.table, added, proc.plan)
    return [("adds the constraint of the epoch it leads to", on(state, proc, "ask open", saw=0))]


def drop_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, bit = state.tables[proc.table], epochs(state, proc)[1]
    if proc.plan in table.movers:
        if not table.constraints & bit:
            return [("stops: the epoch's constraint is gone", state)]
        left = table._replace(movers=tuple(m for m in table.movers if m != proc.plan))
        # Statements that were looked for before come too late from now on.
        state = commit(state, proc.table, left._replace(spent=table.version), proc.plan)
    return [("drops its moving constraint", on(state, proc, "sealed"))]


MOVES: dict[str, Step] = {
    "open constraint": open_constraint,
    "add moving": add_moving,
    "ask moving": ask_moving,
    "undo moving": undo_moving,
    "close": close,
    "shut": shut,
    "shut now": shut_now,
    "widen": widen,
    "move": move,
    "update": update,
    "merge": merge,
    "seal": seal,
    "open": open_,
    "ask open": ask_open,
    "undo open": undo_open,
    "drop moving": drop_moving,
}
