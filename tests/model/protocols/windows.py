"""Jobs that belong to no run: windows of one or two days, notes of what is in, and maintain
(spark_jobs/evenkeel_spark/windows, jobs/apply_window.py, jobs/maintain.py)."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.moves import write_rows
from tests.model.protocols.protocol import Outcome, Scenario, Step, on
from tests.model.rows import MOVED, NEXT, SHARED, WINDOW, gathered, several, windowed
from tests.model.state import UNKNOWN, Proc, State, Table, admits, alone, commit, stands

#: First day of each window, and the day after its last.
DAYS = {"window": (0, 1), "wide window": (0, 2), "next window": (1, 2)}
_EVENTS = (WINDOW, NEXT)


def start_alone(scenario: Scenario, state: State, job: str) -> Iterable[Outcome]:
    """Start a job of no run: it needs every table at rest, under the current epoch alone."""
    if any(stands(state, t) != alone(state.epoch) for t in state.tables):
        return []
    seen = tuple((t.until, t.count, t.back) for t in state.tables)
    if job in DAYS and not _waiting(job, [t.until for t in state.tables]):
        return []
    if job in ("holds", "undo"):
        t = next((i for i, t in enumerate(state.tables) if t.until == UNKNOWN), None)
        if t is None or bool(state.tables[t].undo) != (job == "undo"):
            return []
        proc = Proc(job, "write", -1, 0, table=t, seen=seen)
        return [("is told to by the error", on(state, proc, "write"))]
    proc = Proc(job, "write", -1, 0, note=state.epoch, seen=seen)
    return [("reads the epoch, and finds the tables under it alone", on(state, proc, "write"))]


def start_before(scenario: Scenario, state: State, job: str) -> Iterable[Outcome]:
    """Start as before commits told anything: by transaction ids alone."""
    if any(stands(state, t) != alone(state.epoch) for t in state.tables):
        return []
    if job in DAYS and all(t.day >= DAYS[job][1] for t in state.tables):
        return []
    proc = Proc(job, "write", -1, 0, note=state.epoch)
    return [("reads the epoch, and finds the tables under it alone", on(state, proc, "write"))]


def _waiting(job: str, untils: list[int]) -> bool:
    """Return whether a window may be applied: none of its days is in, none before it is missing."""
    start, end = DAYS[job]
    newest = max(untils)
    if UNKNOWN in untils or any(u != newest and start >= newest > 0 for u in untils):
        return False
    if any(u < start or start < u < end for u in untils):
        return False
    return any(u <= start for u in untils)


def _next(scenario: Scenario, state: State, proc: Proc, text: str) -> Iterable[Outcome]:
    if proc.table + 1 < scenario.tables:
        return [(text, on(state, proc, "write", table=proc.table + 1))]
    return [(text, state)]


def _merged(table: Table, rows, job: str) -> Table:
    """Return the table with a window's events; truth has each day's events once."""
    truth, (start, end) = list(table.truth), DAYS[job]
    for day in range(start, end):
        if not table.held >> day & 1:
            truth[MOVED] += _EVENTS[day]
            truth[SHARED] += _EVENTS[day]
    days = sum(1 << day for day in range(start, end))
    return table._replace(
        rows=rows, truth=tuple(truth), held=table.held | days, due=table.due | days
    )


def _value(job: str) -> int:
    return sum(_EVENTS[day] for day in range(*DAYS[job]))


def window_by_day(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Merge a window into one table: what was routed by an epoch since replaced is refused. The
    day of its end is the transaction id, so Delta skips it where a later day is spent."""
    table, function = state.tables[proc.table], scenario.functions[proc.note]
    if stands(state, table) != alone(proc.note):
        return [("stops: the epoch was replaced meanwhile", state)]
    end = DAYS[proc.job][1]
    if table.day >= end:
        return _next(scenario, state, proc, "finds the window applied already")
    rows = windowed(table.rows, function, _value(proc.job))
    if rows is None or not admits(table.constraints, rows, scenario.functions):
        return [("stops: the constraint refuses the window", state)]
    merged = _merged(table, rows, proc.job)._replace(day=end, until=end)
    state = commit(state, proc.table, merged, 0)
    return _next(scenario, state, proc, "merges the window's events")


def window(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Merge a window into one table. Its transaction id is one more than the number it has seen."""
    table, function = state.tables[proc.table], scenario.functions[proc.note]
    until, count, back = proc.seen[proc.table]
    start, end = DAYS[proc.job]
    if until > start:
        return _next(scenario, state, proc, "has seen that the window is in")
    if stands(state, table) != alone(proc.note):
        return [("stops: the epoch was replaced meanwhile", state)]
    if table.count > count:
        return [("is skipped: its transaction id is spent", on(state, proc, "check"))]
    if several(table.rows):
        return [("finds several rows of a key on one channel", on(state, proc, "gather"))]
    rows = windowed(table.rows, function, _value(proc.job))
    if rows is None or not admits(table.constraints, rows, scenario.functions):
        return [("stops: the constraint refuses the window", state)]
    merged = _merged(table, rows, proc.job)._replace(until=end, began=start, count=count + 1)
    if table.back != back:
        merged = merged._replace(until=UNKNOWN, undo=_contents(table))
    state = commit(state, proc.table, merged, 0)
    return [("merges the window's events", on(state, proc, "check"))]


def gather(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look, and begin to merge several rows of a key on one channel."""
    table = state.tables[proc.table]
    if stands(state, table) != alone(proc.note):
        return [("stops: the epoch was replaced meanwhile", state)]
    return [("looks before it gathers", on(state, proc, "gather now", held=table.version))]


def gather_now(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Merge them, by the epoch of the look, with the version of the look as transaction id."""
    rows = gathered(state.tables[proc.table].rows, scenario.functions[proc.note])
    return write_rows(scenario, state, proc, rows, "makes them one", "write")


def check(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look whether the window is in, or another came first."""
    table = state.tables[proc.table]
    until, count, _ = proc.seen[proc.table]
    if (table.began, table.until) == DAYS[proc.job]:
        return _next(scenario, state, proc, "finds its window in the table")
    if table.until == until and table.count > count:
        now = (table.until, table.count, table.back)
        seen = (*proc.seen[: proc.table], now, *proc.seen[proc.table + 1 :])
        return [("finds that a note came first", on(state, proc, "write", seen=seen))]
    return [("stops: the window is not in the table", state)]


def _contents(table: Table) -> tuple:
    return (
        table.constraints,
        table.movers,
        table.closed,
        table.rows,
        table.truth,
        table.held,
        table.until,
        table.began,
        table.undo,
    )


def note(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Note again what is in: a commit without rows, which a window that comes first skips."""
    table = state.tables[proc.table]
    until, count, back = proc.seen[proc.table]
    text = "does not know what is in"
    if until != UNKNOWN:
        text = "is skipped: a window or a note came first"
        if table.count == count:
            known = table._replace(count=count + 1, until=until)
            if table.back != back:
                known = known._replace(until=UNKNOWN, undo=_contents(table))
            state, text = commit(state, proc.table, known, 0), "notes again what is in"
    return [(text, on(state, proc, "optimize"))]


def holds(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Note what is in, as a person has found out."""
    table = state.tables[proc.table]
    _, count, back = proc.seen[proc.table]
    if table.count != count:
        return [("is skipped: a window or a note came first", state)]
    said = table._replace(count=count + 1, until=bin(table.held).count("1"), began=0)
    if table.back != back:
        said = said._replace(until=UNKNOWN, undo=_contents(table))
    return [("notes what a person says", commit(state, proc.table, said, 0))]


def undo(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Bring back the version before a window upon other rows, as `repair --undo-window` does."""
    table = state.tables[proc.table]
    if not table.undo or table.until != UNKNOWN:
        return [("finds nothing to restore", state)]
    constraints, movers, shut, rows, truth, held, until, began, before = table.undo
    put = table._replace(constraints=constraints, movers=movers, closed=shut, rows=rows)
    put = put._replace(
        truth=truth, held=held, until=until, began=began, undo=before, back=table.back + 1
    )
    return [("restores the version before", commit(state, proc.table, put, 0, False))]


def optimize(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Rewrite the files of a table: a commit that moves nothing."""
    state = commit(state, proc.table, state.tables[proc.table], 0)
    return _next(scenario, state, proc, "rewrites files")


_NOW: dict[str, Step] = {
    "write": window,
    "gather": gather,
    "gather now": gather_now,
    "check": check,
}
WINDOWS: dict[str, dict[str, Step]] = {
    **dict.fromkeys(DAYS, _NOW),
    "maintain": {"write": note, "optimize": optimize},
    "holds": {"write": holds},
    "undo": {"write": undo},
}
BY_DAY: dict[str, dict[str, Step]] = {
    **{job: {"write": window_by_day} for job in DAYS},
    "maintain": {"write": optimize},
}
