"""What must hold in every state, and after every step of a job."""

from __future__ import annotations

from tests.model.protocols.protocol import Scenario
from tests.model.rows import copied, placed, sums
from tests.model.state import State, alone, moving, repairing, stands

EXACT = "no row lost or doubled"
PLACED = "at rest placed by the epoch in force"
COPIES = "at rest each owner of a copied key has its copy"
PUBLISHED = "an epoch is published only over tables that admit it"
UNDER = "no job takes tables from under a published epoch"
READERS = "readers see all or none of an epoch"
WAY_OUT = "some sequence of jobs leads to rest"


def violated(scenario: Scenario, state: State) -> str | None:
    """Name the invariant that a state breaks; None: none."""
    for table in state.tables:
        # Where a window came upon other rows than it saw, `undo` leads out.
        if sums(table.rows) != table.truth and not table.undo:
            return EXACT
        rest = not state.procs and stands(state, table) == alone(state.epoch)
        if rest and not placed(table.rows, scenario.functions[state.epoch]):
            return PLACED
        if rest and not copied(table.rows, scenario.functions[state.epoch]):
            return COPIES
    return None


def under(state: State) -> bool:
    """Return whether a constraint on every table admits no row but by the current epoch, or on its
    way to the next one."""
    e = state.epoch
    guards = alone(e) | moving(e + 1) | alone(e + 1) | repairing(e) | repairing(e + 1)
    return all(stands(state, t) & guards for t in state.tables)


def broken_by(before: State, after: State, fine: bool) -> str | None:
    """Name the invariant that a job's step breaks; None: none. What hands have broken is for
    `at_rest` to ask about.

    Parameters
    ----------
    fine : whether `under` holds before
    """
    if len(after.epochs) > len(before.epochs):
        # A hand may come between the last look and the epoch. Then the job looks again and says so.
        told = any(p.at == "look again" for p in after.procs)
        if not told and any(not t.constraints & alone(after.epoch) for t in after.tables):
            return PUBLISHED
        if any(not t.stood & alone(after.epoch) for t in after.tables):
            return READERS
        return None
    if fine and after.tables != before.tables and not under(after):
        return UNDER
    return None


def at_rest(scenario: Scenario, state: State) -> bool:
    """Return whether nothing is under way, and every table admits the current epoch alone and has
    every window that was applied to any of them."""
    due = 0
    for table in state.tables:
        due |= table.due
    return (
        not state.procs
        and all(t.held == due and t.until >= 0 for t in state.tables)
        and all(stands(state, t) == alone(state.epoch) for t in state.tables)
        and violated(scenario, state) is None
    )
