"""Whether a window may come next in each state table, and what to run first where it may not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from evenkeel.table import Table
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.windows.applied_windows import Applied, WindowTables
from evenkeel_spark.windows.window_commits import Days, added
from partitioning.errors import InputError


def waiting(
    tables: WindowTables, table: Table, start: date, end: date, allow_gap: bool
) -> dict[str, Applied]:
    """Find the state tables that the window [start, end) is not in yet, and what is in them.

    A table that was brought back gets the windows that it lacks, in order; the others have them.

    Raises
    ------
    InputError : the window overlaps another one that is in. Or it leaves out days, which could
        never be applied later, and `allow_gap` is not given or another table may have them. Or
        nothing tells what is in a table
    """
    spec = table.spec
    found = {name: tables.applied(name) for name in spec.state}
    newest = max((a.until for a in found.values() if a.until is not None), default=None)
    missing, same, until, first = {}, False, None, _first_recorded(table)
    for name, there in found.items():
        until, path = there.until, spec.state[name].path
        if until != newest and newest is not None and start >= newest:
            ahead = next(n for n, a in found.items() if a.until == newest)
            raise InputError(
                f"the window that ends at {newest} is in {ahead} and not in {name}",
                f"{name} ({path})",
                _catch_up(tables, ahead, name, until, newest),
            )
        waits = until or first
        if until is None:
            _check_first(tables, table, found, name, start, allow_gap)
        if waits is not None and waits < start:
            _check_gap(tables, table, found, name, waits, start)
        if waits is not None and waits < start and not allow_gap:
            back = "" if until else "the window that began there is in no table any more, and "
            raise InputError(
                f"windows are applied up to {waits}: {back}the one from {start} to {end} would "
                "leave out the days between for ever",
                f"{name} ({path})",
                f"Go on with --start {waits}, or give --allow-gap"
                if newest is None or end > newest
                else "Give --allow-gap, as another state table has this window",
            )
        if until is None or until <= start:
            missing[name] = there
        elif until < end:
            raise _twice(until, start, end, f"{name} ({path})")
        elif until == end:
            began = next((s for s, e in tables.windows(name) if e == end), None)
            same = same or start == (began or _recorded_start(table, end))
    if until is not None and not missing and not same:
        raise _twice(until, start, end, f"{name} ({path})")
    for name in found.keys() - missing.keys() if missing else ():
        if _lacks(tables.windows(name), start, end):
            less = min((a.until for a in missing.values() if a.until is not None), default=None)
            raise InputError(
                f"the window from {start} to {end} is not in {name}, which has a later one: it "
                f"would be added to {', '.join(missing)} alone",
                f"{name} ({spec.state[name].path})",
                "Complete that one first: "
                + _missed(tables.windows(name), less, found[name].until),
            )
    return missing


def _check_gap(
    tables: WindowTables,
    table: Table,
    found: Mapping[str, Applied],
    name: str,
    waits: date,
    start: date,
) -> None:
    """Refuse to leave days out of one table that another may have: no later window brings them."""
    ends = {other: there.until for other, there in found.items() if there.until is not None}
    for other, until in ends.items():
        if until > waits and _may_hold(tables.windows(other), waits, start):
            raise InputError(
                f"windows are applied up to {waits}, and {other} has days between {waits} and "
                f"{start}, which {name} would lack for ever",
                table_in_errors(table.spec, name),
                _catch_up(tables, other, name, waits, max(ends.values())),
            )


def _check_first(
    tables: WindowTables,
    table: Table,
    found: Mapping[str, Applied],
    name: str,
    start: date,
    allow_gap: bool,
) -> None:
    """Refuse to begin an empty table at a later day than another one: no later window brings them.

    The records of the registry do not tell it, because they may be gone.
    """
    ends = {other: there.until for other, there in found.items() if there.until is not None}
    for other in ends:
        days = list(tables.windows(other))
        has = any(began < start for began, _ in added(days))
        if has or not (allow_gap or _tells_all(days)):
            raise InputError(
                f"no window is in it, and {other} {'has' if has else 'may have'} days before "
                f"{start}, which {name} would lack for ever",
                table_in_errors(table.spec, name),
                _catch_up(tables, other, name, None, max(ends.values())),
            )


def _tells_all(days: Sequence[Days]) -> bool:
    """Tell whether a table began empty, and each window since is known.

    Parameters
    ----------
    days : that are in it, newest first, as far as known
    """
    older = [ended for _, ended in days[1:]]
    # A note says again what was there before it.
    said = [
        ended
        for (began, ended), before in zip(days, [*older, None], strict=True)
        if began is None and ended != before
    ]
    return said == [date.min]


def _catch_up(tables: WindowTables, ahead: str, name: str, until: date | None, newest: date) -> str:
    """Return the advice for a table that lacks windows which another one has."""
    return (
        f"Run this first: {_missed(tables.windows(ahead), until, newest)}. If the input has lost "
        f"its events, leave them out of {name} for ever: `evenkeel job apply_window` --holds-until "
        f"{newest} --of {name}"
    )


def _may_hold(windows: Iterator[Days], start: date, end: date) -> bool:
    """Tell whether a table has a day of [start, end), or nothing tells that it lacks them all.

    Parameters
    ----------
    windows : that are in it, newest first, as far as known
    """
    for began, ended in windows:
        if ended <= start:
            return False
        if began is None or began < end:
            return True
    return True


def _lacks(windows: Iterator[Days], start: date, end: date) -> bool:
    """Tell whether a table is known to lack days of [start, end).

    Parameters
    ----------
    windows : that are in it, newest first, as far as known
    """
    for began, ended in windows:
        if ended < end:
            return True
        if began is None or began <= start:
            return False
        end = min(end, began)
    return False


def _missed(windows: Iterator[Days], until: date | None, newest: date | None) -> str:
    """Return the arguments for the first window after `until` that another table already has."""
    days = list(windows)
    if until is None and not _tells_all(days):
        end = min((ended for _, ended in days if ended > date.min), default=newest)
        return f"--start DAY --end {end} --allow-gap, with the first day of its events as DAY"
    known = [window for window in added(days) if until is None or window[1] > until]
    start, end = min(known, default=(until, newest))
    if until is None or start is None:
        return f"--start {start or 'its first day'} --end {end}"
    if start <= until:
        return f"--start {until} --end {end}"
    if not _may_hold(iter(days), until, start):
        return f"--start {start} --end {end} --allow-gap"
    # No commit tells the windows of these days any more; a note tells up to where they are in.
    told = (ended for began, ended in days if began is None and until < ended < start)
    return f"--start {until} --end {max(told, default=start)}"


def _twice(until: date, start: date, end: date, where: str) -> InputError:
    return InputError(
        f"windows are applied up to {until}: the one from {start} to {end} would count events "
        "twice",
        where,
        f"Go on with --start {until}",
    )


def _first_recorded(table: Table) -> date | None:
    """Return the first day of the earliest window that the registry knows; None: it knows none."""
    end = min(table.registry.files.window_ends(), default=None)
    return None if end is None else _recorded_start(table, end)


def _recorded_start(table: Table, end: date) -> date | None:
    """Return the first day of the window that ends at `end`, by the registry; None: no record."""
    found = table.registry.files.window(end).find()
    return None if found is None else found.start
