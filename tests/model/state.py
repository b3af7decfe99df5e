"""A state of the model, and what Delta does to a table: constraints, conflicts, transaction ids.

States are tuples of tuples and ints, so that they hash quickly. A statement of Delta is one step:
its isolation is Serializable, so one that commits acts as if nothing came between its read and its
commit, and one that loses against another commit changes nothing and is tried again.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.rows import Function, Rows, placed

#: Constraints are bits: epoch_0, moving_1, epoch_1, moving_2, epoch_2.
NAMES = ("epoch_0", "moving_1", "epoch_1", "moving_2", "epoch_2")
#: What a plan knows of a table's history since it was made: nothing was committed; its own commits
#: are there; a commit that is no ordinary write is there.
FRESH, OURS, FOREIGN = 1, 2, 4


def alone(epoch: int) -> int:
    """Return the constraint (a bit) that admits one epoch's function alone."""
    return 1 << 2 * epoch


def moving(epoch: int) -> int:
    """Return the constraint (a bit) that admits an epoch's function and the one before it."""
    return 1 << 2 * epoch - 1


def named(constraints: int) -> str:
    """Return the names of constraints, as stories tell them."""
    return " and ".join(n for i, n in enumerate(NAMES) if constraints >> i & 1) or "none"


class Table(NamedTuple):
    """A state table.

    Parameters
    ----------
    constraints : bits; see `alone` and `moving`
    rows : now
    truth : for each key what its values must add up to
    spent : highest version used as a transaction id by our moves
    version : now; both count only relative to what jobs hold, and are kept small
    window : 0: not applied; 1: applied; 2: applied, and its transaction id is forgotten
    stood : epochs (bits) under whose constraint alone it has stood
    owner : plan whose moving constraint stands; 0: not told by the constraint
    """

    constraints: int
    rows: Rows
    truth: tuple[int, ...]
    spent: int = 0
    version: int = 1
    window: int = 0
    stood: int = 1
    owner: int = 0


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
    """A plan, by its digest: the epoch it starts from, and FRESH, OURS, FOREIGN by table."""

    parent: int
    seen: tuple[int, ...]


class Proc(NamedTuple):
    """A job under way.

    Parameters
    ----------
    at : its next step
    plan : that it was started for
    table : it is at
    held : version that its fence read, to be its transaction id; -1: none
    note : what it remembers else
    """

    job: str
    at: str
    run: int
    plan: int
    table: int = 0
    held: int = -1
    note: int = 0


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


def admits(constraints: int, rows: Rows, functions: tuple[Function, ...]) -> bool:
    """Return whether every constraint admits all rows."""
    for epoch, function in enumerate(functions):
        if constraints & alone(epoch) and not placed(rows, function):
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
    bits = table.constraints
    stood = table.stood | bits if bits & (bits - 1) == 0 and bits & 0b10101 else table.stood
    table = table._replace(version=table.version + 1, stood=stood)
    plans = list(state.plans)
    for i, one in enumerate(plans, 1):
        if one is not None:
            seen = one.seen[at] & ~FRESH
            if plan:
                seen |= OURS if i == plan else FOREIGN
            elif not ordinary:
                seen |= FOREIGN
            if seen != one.seen[at]:
                plans[i - 1] = Plan(one.parent, (*one.seen[:at], seen, *one.seen[at + 1 :]))
    tables = (*state.tables[:at], table, *state.tables[at + 1 :])
    return state._replace(tables=tables, plans=tuple(plans))


def in_order(state: State) -> State:
    """Return the state with versions made small and jobs in one order: what differs in neither
    acts alike."""
    tables = []
    procs = state.procs
    for t, table in enumerate(state.tables):
        held = {p.held for p in procs if p.held >= 0 and p.table == t}
        if not held:
            tables.append(table if table.version == 1 else table._replace(spent=0, version=1))
            continue
        rank = {v: i for i, v in enumerate(sorted({table.spent, table.version, *held}))}
        if rank[table.version] != table.version or rank[table.spent] != table.spent:
            table = table._replace(spent=rank[table.spent], version=rank[table.version])
            procs = tuple(
                p._replace(held=rank[p.held]) if p.held >= 0 and p.table == t else p for p in procs
            )
        tables.append(table)
    if len(procs) > 1:
        procs = tuple(sorted(procs))
    return _renamed(State(state.epochs, tuple(tables), state.runs, state.plans, procs, state.hands))


def _renamed(state: State) -> State:
    """Forget plans that no job can meet any more, and number the others anew: a file that names
    another plan than its run's reads like no file."""
    known = [i for i, p in enumerate(state.plans, 1) if p is not None]
    if not known:
        return state
    by_run = [{run.plan} for run in state.runs]
    for proc in state.procs:
        if proc.plan:
            by_run[proc.run].add(proc.plan)
    used = set().union(*by_run)
    used.update([t.owner for t in state.tables if t.owner])
    used.discard(0)
    runs = tuple(
        run
        if run.plan
        and (not run.mark or run.mark >> 1 in own)
        and (not run.migration or run.migration == 1 or run.migration >> 1 in own)
        and (not run.verified or run.verified in own)
        else Run(
            run.plan,
            run.mark if run.mark >> 1 in own else 0,
            run.migration if run.migration >> 1 in own else run.migration & 1,
            run.gate,
            run.verified if run.verified in own else 0,
        )
        for run, own in zip(state.runs, by_run, strict=True)
    )
    kept = runs == state.runs and all(e in used or not e for e in state.epochs)
    if kept and len(used) == len(known) == known[-1]:
        return state
    name = {0: 0, **{old: new for new, old in enumerate(sorted(used), 1)}}
    plans = [state.plans[old - 1] for old in sorted(used)]
    return State(
        tuple(name.get(e, 0) for e in state.epochs),
        tuple(
            t if name[t.owner] == t.owner else t._replace(owner=name[t.owner]) for t in state.tables
        ),
        tuple(
            Run(
                name[r.plan],
                name[r.mark >> 1] * 2 + (r.mark & 1),
                name[r.migration >> 1] * 2 + (r.migration & 1),
                r.gate,
                name[r.verified],
            )
            for r in runs
        ),
        (*plans, *(None,) * (len(state.plans) - len(plans))),
        tuple(p if name[p.plan] == p.plan else p._replace(plan=name[p.plan]) for p in state.procs),
        state.hands,
    )
