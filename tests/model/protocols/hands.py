"""What other writers and people do to a table, each in one commit and each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.model.protocols.protocol import Outcome, Scenario
from tests.model.rows import LATE, LATE_ROW, PARTIAL, SHARED, Row
from tests.model.state import NAMES, UNKNOWN, Proc, State, admits, alone, commit, rules, stands

#: What may be done by hand.
HANDS = (
    "partial",
    "late",
    "restore",
    "drop moving",
    "drop epoch",
    "clone",
    "bootstrap",
    "overwrite",
    "early",
)


def by_hand(scenario: Scenario, state: State) -> Iterable[Outcome]:
    """Everything that hands can do now."""
    for i, name in enumerate(scenario.hands):
        if state.hands >> i & 1:
            left = state._replace(hands=state.hands & ~(1 << i))
            for t in range(scenario.tables):
                stood = stands(state, state.tables[t])
                for text, after in DOES[name](scenario, left, t):
                    if stands(after, after.tables[t]) != stood:
                        after = _unseen(after, t)
                    yield text, after


def _unseen(state: State, t: int) -> State:
    """Note with each job that publishes next that it has looked at this table for the last time."""
    if not any(_looked(p, t) for p in state.procs):
        return state
    procs = (p._replace(other=1) if _looked(p, t) else p for p in state.procs)
    return state._replace(procs=tuple(procs))


def _looked(proc: Proc, t: int) -> bool:
    last = proc.at == "last look" or (proc.at == "look" and proc.note == 1)
    return proc.at == "create" or (last and proc.table > t)


def _insert(scenario: Scenario, state: State, t: int, row: Row, text: str) -> Iterator[Outcome]:
    table = state.tables[t]
    rows = tuple(sorted((*table.rows, row)))
    if admits(rules(state, table), (row,), scenario.functions):
        truth = [*table.truth]
        truth[row[0]] += row[2]
        yield text, commit(state, t, table._replace(rows=rows, truth=tuple(truth)), 0)


def partial(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Append one more partial row of the split key, to any of its owners."""
    for channel in range(3):
        row = (SHARED, channel, PARTIAL)
        text = f"a writer appends a partial row of the split key to channel {channel}"
        yield from _insert(scenario, state, t, row, text)


def late(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Append a late row by the function of an epoch that the writer has read some time."""
    for epoch in range(state.epoch + 1):
        row = (LATE, scenario.functions[epoch].whole, LATE_ROW)
        yield from _insert(scenario, state, t, row, f"a writer appends a late row by epoch {epoch}")


def early(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Append a late row by the next epoch, whose function the writer has read in the plan."""
    if state.epoch + 1 < len(scenario.functions):
        row = (LATE, scenario.functions[state.epoch + 1].whole, LATE_ROW)
        yield from _insert(scenario, state, t, row, "a writer appends a row by the next epoch")


def restore(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """RESTORE the table to its first version: rows and constraints; transaction ids stay."""
    table, first = state.tables[t], scenario.table
    back = table._replace(
        constraints=first.constraints,
        rows=first.rows,
        truth=first.truth,
        movers=(),
        held=0,
        until=0,
        began=0,
        undo=(),
        back=table.back + 1,
    )
    yield "somebody restores the first version of the table", commit(state, t, back, 0, False)


def _drop(scenario: Scenario, state: State, t: int, bits: int) -> Iterator[Outcome]:
    table = state.tables[t]
    if bits == 0b01010:
        for mover in table.movers:
            left = tuple(m for m in table.movers if m != mover)
            text = f"somebody drops the moving constraint of plan {mover}"
            yield text, commit(state, t, table._replace(movers=left), 0, False)
    for i, name in enumerate(NAMES):
        if table.constraints & bits & 1 << i:
            left = table._replace(constraints=table.constraints & ~(1 << i))
            yield f"somebody drops the constraint {name}", commit(state, t, left, 0, False)


def drop_moving(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Drop the constraint that admits two epochs."""
    yield from _drop(scenario, state, t, 0b01010)


def drop_epoch(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Drop an epoch's constraint, of a table that is not at rest under the current epoch."""
    if stands(state, state.tables[t]) != alone(state.epoch):
        yield from _drop(scenario, state, t, 0b10101)


def clone(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Bring the table back by SHALLOW CLONE: its transaction ids and its history are forgotten."""
    table = state.tables[t]
    put = table._replace(spent=0, last=0, day=0, count=0, back=table.back + 1)
    yield "somebody puts a clone in the table's place", commit(state, t, put, 0, False)


def overwrite(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Overwrite all rows by a backup's: no commit tells what they hold."""
    table, first = state.tables[t], scenario.table
    if admits(rules(state, table), first.rows, scenario.functions):
        put = table._replace(rows=first.rows, truth=first.truth, held=0, until=UNKNOWN, undo=())
        put = put._replace(back=table.back + 1)
        yield "somebody overwrites the rows by a backup's", commit(state, t, put, 0, False)


def bootstrap(scenario: Scenario, state: State, t: int) -> Iterator[Outcome]:
    """Run bootstrap with an empty registry: it takes the table for its own, half-made."""
    table = state.tables[t]
    stands = table.constraints | alone(0)
    if stands != table.constraints and admits(alone(0), table.rows, scenario.functions):
        left = table._replace(constraints=stands)
        text = "bootstrap with another, empty registry adds the constraint epoch_0"
        yield text, commit(state, t, left, 0, False)


DOES = dict(
    zip(
        HANDS,
        (partial, late, restore, drop_moving, drop_epoch, clone, bootstrap, overwrite, early),
        strict=True,
    )
)
