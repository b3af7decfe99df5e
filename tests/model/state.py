"""A state of the model, and what Delta does to a table: constraints, conflicts, transaction ids.

States are tuples of tuples and ints, so that they hash quickly. A statement of Delta is one step:
its isolation is Serializable, so one that commits acts as if nothing came between its read and its
commit, and one that loses against another commit changes nothing and is tried again.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.rows import Function, Rows, placed

#: Constraints are bits: epoch_0, moving_1, epoch_1, moving_2, epoch_2, and repair's own, of which
#: one stands at most, by the epoch that it admits. A moving constraint that is closed admits one
#: epoch's function alone, under its own name.
NAMES = ("epoch_0", "moving_1", "epoch_1", "moving_2", "epoch_2")
REPAIRS = ("repairing (0)", "repairing (1)", "repairing (2)")
_CLOSED = tuple(f"closed to all but epoch_{epoch}" for epoch in range(3))
#: What a plan knows of a table's history since it was made: nothing was committed; its own commits
#: are there; a commit that is no ordinary write is there.
FRESH, OURS, FOREIGN = 1, 2, 4


#: A day that nobody knows.
UNKNOWN = -1
#: Steps between a job's look and the one at which it asks whether another plan came between.
ASKING = {"add moving", "ask moving", "open", "ask open"}
#: Commits of constraints whose transactions have begun: they fail if other constraints come first.
BEGUN = {"add moving", "shut now", "widen", "open"}


def alone(epoch: int) -> int:
    """Return the constraint (a bit) that admits one epoch's function alone."""
    return 1 << 2 * epoch


def moving(epoch: int) -> int:
    """Return the constraint (a bit) that admits an epoch's function and the one before it."""
    return 1 << 2 * epoch - 1


def repairing(epoch: int) -> int:
    """Return the constraint (a bit) of a repair that brings rows to an epoch."""
    return 1 << len(NAMES) + epoch


def closed(epoch: int) -> int:
    """Return the bit of a moving constraint that admits one epoch's function alone."""
    return 1 << len(NAMES + REPAIRS) + epoch


def named(constraints: int) -> str:
    """Return the names of constraints, as stories tell them."""
    bits = enumerate((*NAMES, *REPAIRS, *_CLOSED))
    return " and ".join(n for i, n in bits if constraints >> i & 1) or "none"


class Table(NamedTuple):
    """A state table.

    Parameters
    ----------
    constraints : bits; see `alone` and `moving`
    rows : now
    truth : for each key what its values must add up to
    spent : highest version used as a transaction id by our moves
    version : now; both count only relative to what jobs hold, and are kept small
    held : days of windows (bits) whose events its rows have
    due : days of windows (bits) that were applied some time: at rest it has them
    until : day that its commits name, before which all events are in; UNKNOWN: they do not tell
    began : first day of the newest window that its commits name
    day : newest transaction id of a window, where that is the day of its end
    count : newest transaction id of a window or note, where that is their number
    undo : the table before a window that came upon other rows: `repair --undo-window` goes there
    stood : epochs (bits) under whose constraint alone it has stood
    movers : plans whose moving constraint stands, where its name tells the plan
    closed : 1 more than the epoch whose function the moving constraint admits alone; 0: both
    last : plan that the newest commit of any plan names; 0: one that no job can meet any more
    back : times that rows were brought back
    """

    constraints: int
    rows: Rows
    truth: tuple[int, ...]
    spent: int = 0
    version: int = 1
    held: int = 0
    due: int = 0
    until: int = 0
    began: int = 0
    day: int = 0
    count: int = 0
    undo: tuple = ()
    stood: int = 1
    movers: tuple[int, ...] = ()
    closed: int = 0
    last: int = 0
    back: int = 0


class Run(NamedTuple):
    """A run's folder. Files name their plan.

    Parameters
    ----------
    plan : its number; 0: none
    mark : rolled_back.json: 2 * plan, 1 more when done; 0: none
    migration : migration.json: 2 * plan, 1 more when the tables are in it; 0: none
    gate : gate_tables.json says that the tables passed
    verified : verify.json: its plan; 0: none
    """

    plan: int = 0
    mark: int = 0
    migration: int = 0
    gate: int = 0
    verified: int = 0


class Plan(NamedTuple):
    """A plan, by its digest.

    Parameters
    ----------
    parent : epoch it starts from
    seen : FRESH, OURS, FOREIGN by table
    run : that it names; 0 where plans name none
    attempt : the newest, from 1
    verdicts : of each attempt: 0, or one of `attempts`
    mark, marked : how far rolling back has come (0: not begun, 1, 2: ended), of which attempt
    withdrawn : 1: no attempt may carry it out any more
    """

    parent: int
    seen: tuple[int, ...]
    run: int = 0
    attempt: int = 1
    verdicts: tuple[int, ...] = (0,)
    mark: int = 0
    marked: int = 0
    withdrawn: int = 0


class Proc(NamedTuple):
    """A job under way.

    Parameters
    ----------
    at : its next step
    plan : that it was started for
    table : it is at
    held : version that its fence read, to be its transaction id; -1: none
    note : what it remembers else
    attempt : of its run at its plan; 0: not read yet
    other : whether another plan has committed since it looked, where it will ask; or a hand has
        changed constraints since the last look before an epoch is published
    saw : constraints (bits) that it has seen, which must still stand when it drops some; -1: others
        have come since
    seen : of each table `until`, `count` and RESTOREs so far, as a window or a note has seen them
    runs : plan and attempt of each run that a repair settles
    found : constraints (bits) of each table when a repair decided
    """

    job: str
    at: str
    run: int
    plan: int
    table: int = 0
    held: int = -1
    note: int = 0
    attempt: int = 0
    other: int = 0
    saw: int = 0
    seen: tuple[tuple[int, int, int], ...] = ()
    runs: tuple[tuple[int, int], ...] = ()
    found: tuple[int, ...] = ()


class State(NamedTuple):
    """All there is.

    Parameters
    ----------
    epochs : the registry: the plan of each published epoch
    hands : bits of what other writers and people may still do
    """

    epochs: tuple[int, ...]
    tables: tuple[Table, ...]
    runs: tuple[Run, ...]
    plans: tuple[Plan | None, ...]
    procs: tuple[Proc, ...]
    hands: int

    @property
    def epoch(self) -> int:
        """The current epoch's number."""
        return len(self.epochs) - 1


def stands(state: State, table: Table) -> int:
    """Return the constraints (bits) that stand on a table, whoever's."""
    bits = table.constraints
    for mover in table.movers:
        plan = state.plans[mover - 1]
        assert plan is not None
        bits |= moving(plan.parent + 1)
    return bits


def rules(state: State, table: Table) -> int:
    """Return the constraints (bits), and what the moving one is closed to: what writers meet."""
    bits = stands(state, table)
    return bits | closed(table.closed - 1) if table.closed else bits


def admits(constraints: int, rows: Rows, functions: tuple[Function, ...]) -> bool:
    """Return whether every constraint admits all of these rows."""
    for epoch, function in enumerate(functions):
        here = alone(epoch) | repairing(epoch) | closed(epoch)
        if constraints & here and not placed(rows, function):
            return False
        if (
            epoch
            and constraints & moving(epoch)
            and not placed(rows, functions[epoch - 1], function)
        ):
            return False
    return True


def commit(state: State, at: int, table: Table, plan: int, ordinary: bool = True) -> State:
    """Commit a new version of a table.

    Parameters
    ----------
    at : number of the table
    table : as it is then
    plan : that the commit names; 0: none
    ordinary : whether it leaves each row where the constraint wants it
    """
    before, bits = state.tables[at], table.constraints
    rest = bits & (bits - 1) == 0 and bits & 0b10101 and not table.movers
    table = table._replace(
        version=table.version + 1,
        stood=table.stood | bits if rest else table.stood,
        last=plan or table.last,
        # Whose moving constraint it was that is dropped is not known. Open admits more.
        closed=table.closed if set(before.movers) <= set(table.movers) else 0,
    )
    plans = list(state.plans)
    for i, one in enumerate(plans, 1):
        if one is not None:
            seen = one.seen[at] & ~FRESH
            if plan and ordinary:
                seen |= OURS if i == plan else FOREIGN
            elif not ordinary:
                seen |= FOREIGN
            if seen != one.seen[at]:
                seen_by = (*one.seen[:at], seen, *one.seen[at + 1 :])
                plans[i - 1] = one._replace(seen=seen_by)
    tables = (*state.tables[:at], table, *state.tables[at + 1 :])
    procs = state.procs
    if plan and any(p.at in ASKING for p in procs):
        procs = tuple(
            p._replace(other=1) if p.at in ASKING and p.table == at and p.plan != plan else p
            for p in procs
        )
    changed = (before.constraints, before.movers, before.closed) != (
        table.constraints,
        table.movers,
        table.closed,
    )
    if changed and any(p.at in BEGUN for p in procs):
        procs = tuple(p._replace(saw=-1) if p.at in BEGUN and p.table == at else p for p in procs)
    return state._replace(tables=tables, plans=tuple(plans), procs=procs)
