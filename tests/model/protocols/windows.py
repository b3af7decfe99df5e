"""Jobs that belong to no run: apply_window and maintain."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.protocol import Outcome, Scenario, Step, on
from tests.model.rows import MOVED, SHARED, WINDOW, windowed
from tests.model.state import Proc, State, admits, alone, commit, stands

#: A window is in the table's state: by its transaction id; or for good, its id forgotten.
APPLIED, FORGOTTEN = 1, 2


def start_alone(scenario: Scenario, state: State, job: str) -> Iterable[Outcome]:
    """Start a job of no run: it needs every table at rest, under the current epoch alone."""
    if any(stands(state, t) != alone(state.epoch) for t in state.tables):
        return []
    if job == "window" and all(t.window == APPLIED for t in state.tables):
        return []
    proc = Proc(job, "write", -1, 0, note=state.epoch)
    return [("reads the epoch, and finds the tables under it alone", on(state, proc, "write"))]


def window_once(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Merge the window into one table, but not where its transaction id was forgotten, and into one
    row of a channel."""
    if state.tables[proc.table].window == FORGOTTEN:
        return [("stops: the window is in the table's history, its transaction id is not", state)]
    return window(scenario, state, proc, True)


def window(scenario: Scenario, state: State, proc: Proc, once: bool = False) -> Iterable[Outcome]:
    """Merge the window into one table: what was routed by an epoch since replaced is refused, and a
    second time is skipped by its transaction id."""
    table, function = state.tables[proc.table], scenario.functions[proc.note]
    if stands(state, table) != alone(proc.note):
        return [("stops: the epoch was replaced meanwhile", state)]
    text = "finds the window applied already"
    if table.window != APPLIED:
        rows = windowed(table.rows, function, once)
        if rows is None or not admits(table.constraints, rows, scenario.functions):
            return [("stops: the constraint refuses the window", state)]
        truth = list(table.truth)
        if table.window != FORGOTTEN:
            truth[MOVED] += WINDOW
            truth[SHARED] += WINDOW
        merged = table._replace(rows=rows, truth=tuple(truth), window=APPLIED)
        state = commit(state, proc.table, merged, 0)
        text = "merges the window's events"
    if proc.table + 1 < scenario.tables:
        return [(text, on(state, proc, "write", table=proc.table + 1))]
    return [(text, state)]


def optimize(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Rewrite the files of a table: a commit that moves nothing."""
    state = commit(state, proc.table, state.tables[proc.table], 0)
    if proc.table + 1 < scenario.tables:
        return [("rewrites files", on(state, proc, "write", table=proc.table + 1))]
    return [("rewrites files", state)]


WINDOWS: dict[str, dict[str, Step]] = {
    "window": {"write": window},
    "maintain": {"write": optimize},
}
