"""Moving rows, since plans name their run
(spark_jobs/evenkeel_spark/migration/table_migration.py): a constraint is added, then the
world is looked at again; one is dropped only where the other stands, in that very commit."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.attempts import ROLL_BACK, newest, verdict
from tests.model.protocols.moves import ends, write
from tests.model.protocols.protocol import Outcome, Scenario, Step, on, plan_of
from tests.model.rows import joined, whole_moved
from tests.model.state import FOREIGN, Proc, State, Table, admits, alone, commit, moving, stands


def owned(state: State, proc: Proc) -> bool:
    """Return whether a table is on its way by this plan, or was sealed by it."""
    table = state.tables[proc.table]
    if proc.plan in table.movers:
        return True
    return bool(table.constraints & alone(plan_of(state, proc).parent + 1)) and (
        table.last == proc.plan
    )


def standing(state: State, proc: Proc) -> str | None:
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
    if number != proc.attempt or verdict(state, proc, number) == ROLL_BACK:
        return "stops: this attempt was rolled back"
    if (why := standing(state, proc)) is not None:
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
    return standing(state, proc)


def fenced(state: State, proc: Proc) -> str | None:
    """Say why the job must stop; None: it may go on."""
    return back_fence(state, proc) if proc.job == "roll_back" else fence(state, proc)


def epochs(state: State, proc: Proc) -> tuple[int, int]:
    """Constraints (bits) of the epoch that is left and of the one that is led to."""
    parent = plan_of(state, proc).parent
    bits = alone(parent), alone(parent + 1)
    return (bits[1], bits[0]) if proc.job == "roll_back" else bits


def loosen(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if (why := fenced(state, proc)) is not None:
        return [(why, state)]
    table = state.tables[proc.table]
    if not table.constraints & epochs(state, proc)[0]:
        return [("looks: nothing to loosen", on(state, proc, "move"))]
    after = "close" if proc.plan in table.movers else "add moving"
    return [("looks before loosening", on(state, proc, after, other=0))]


def add_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table = state.tables[proc.table]
    if proc.plan in table.movers:
        return [("finds its moving constraint", on(state, proc, "ask moving"))]
    if not admits(moving(plan_of(state, proc).parent + 1), table.rows, scenario.functions):
        return [("stops: rows stand where neither epoch puts them", state)]
    added = table._replace(movers=tuple(sorted((*table.movers, proc.plan))))
    state = commit(state, proc.table, added, proc.plan)
    return [("adds its moving constraint", on(state, proc, "ask moving"))]


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
    return [("drops the constraint of the epoch it leaves", on(state, proc, "move"))]


def move(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look what is left to move."""
    if (why := fenced(state, proc)) is not None:
        return [(why, state)]
    table, (left, led) = state.tables[proc.table], ends(scenario, state, proc)
    if whole_moved(table.rows, left, led) is not None:
        return [("looks: whole keys are to move", on(state, proc, "update", held=table.version))]
    if joined(table.rows, led, True) is not None:
        return [("looks: partial rows are to join", on(state, proc, "merge", held=table.version))]
    return [("looks: no row is left to move", on(state, proc, "moved"))]


def update(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = whole_moved(state.tables[proc.table].rows, *ends(scenario, state, proc))
    return write(scenario, state, proc, rows, "updates the channel of whole keys")


def merge(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    rows = joined(state.tables[proc.table].rows, ends(scenario, state, proc)[1], True)
    return write(scenario, state, proc, rows, "merges partial rows, one a channel")


def tighten(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if (why := fenced(state, proc)) is not None:
        return [(why, state)]
    table, bit = state.tables[proc.table], epochs(state, proc)[1]
    if not table.constraints & bit:
        return [("looks before sealing", on(state, proc, "open", other=0))]
    after = "drop moving" if proc.plan in table.movers else "sealed"
    return [("looks: the epoch's constraint stands", on(state, proc, after))]


def open_(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, bit = state.tables[proc.table], epochs(state, proc)[1]
    if not table.constraints & bit:
        if not admits(bit, table.rows, scenario.functions):
            return [("finds rows that came meanwhile", on(state, proc, "move", other=0))]
        added = table._replace(constraints=table.constraints | bit)
        state = commit(state, proc.table, added, proc.plan)
    return [("adds the constraint of the epoch it leads to", on(state, proc, "ask open"))]


def drop_moving(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    table, bit = state.tables[proc.table], epochs(state, proc)[1]
    if proc.plan in table.movers:
        if not table.constraints & bit:
            return [("stops: the epoch's constraint is gone", state)]
        left = table._replace(movers=tuple(m for m in table.movers if m != proc.plan))
        state = commit(state, proc.table, left, proc.plan)
    return [("drops its moving constraint", on(state, proc, "sealed"))]


MOVES: dict[str, Step] = {
    "loosen": loosen,
    "add moving": add_moving,
    "ask moving": ask_moving,
    "undo moving": undo_moving,
    "close": close,
    "move": move,
    "update": update,
    "merge": merge,
    "tighten": tighten,
    "open": open_,
    "ask open": ask_open,
    "undo open": undo_open,
    "drop moving": drop_moving,
}
