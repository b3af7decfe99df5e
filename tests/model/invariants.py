"""What must hold in every state, and after every step of a job."""

from __future__ import annotations

from tests.model.protocol import Scenario
from tests.model.rows import placed, sums
from tests.model.state import State, alone, moving

EXACT = "no row lost or doubled"
PLACED = "at rest placed by the epoch in force"
PUBLISHED = "an epoch is published only over tables that stand under it"
UNDER = "no job takes tables from under a published epoch"
READERS = "readers see all or none of an epoch"
WAY_OUT = "some sequence of jobs leads to rest"


def violated(scenario: Scenario, state: State) -> str | None:
    """Name the invariant that a state breaks; None: none."""
    for table in state.tables:
        if sums(table.rows) != table.truth:
            return EXACT
        rest = not state.procs and table.constraints == alone(state.epoch)
        if rest and not placed(table.rows, scenario.functions[state.epoch]):
            return PLACED
    return None


def under(state: State) -> bool:
    """Return whether every table stands under the current epoch, or on its way to the next."""
    e = state.epoch
    fine = alone(e) | moving(e + 1) | alone(e + 1)
    return all(t.constraints and not t.constraints & ~fine for t in state.tables)


def broken_by(before: State, after: State, fine: bool) -> str | None:
    """Name the invariant that a job's step breaks; None: none. What hands have broken is for
    `at_rest` to ask about.

    Parameters
    ----------
    fine : whether `under` holds before
    """
    published = len(after.epochs) > len(before.epochs)
    if not published and after.tables == before.tables:
        return None
    if published or fine:
        if not under(after):
            return PUBLISHED if published else UNDER
        if any(not t.stood & alone(after.epoch) for t in after.tables):
            return READERS
    return None


def at_rest(scenario: Scenario, state: State) -> bool:
    """Return whether nothing is under way, and every table admits the current epoch alone."""
    return (
        not state.procs
        and all(t.constraints == alone(state.epoch) for t in state.tables)
        and violated(scenario, state) is None
    )
