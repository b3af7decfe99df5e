"""Which windows are in a state table, and which one may come next.

Delta's transaction id tells: app `evenkeel/TABLE/windows`, version the day number of a window's
end. A clone has no ids, and `delta.setTransactionRetentionDuration` lets a table forget them: then
the table's own commits tell, or those of the table that it was cloned from. Where these do not,
nothing is taken for granted: a person says up to which day the table holds everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta

from pyspark.sql import SparkSession

from evenkeel.registry.store import shaped
from evenkeel.table import Table
from evenkeel_spark.events.reader import day_number
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import DamagedError, InputError

#: In the registry: the record of each window, by its end.
FOLDER = "windows"
#: What our commits that hold or record events say of themselves.
_STEPS = ("apply_window", "bootstrap", "holds_until")
#: Commits after which rows are no longer those that the commits before have left.
_REPLACED = ("CLONE", "RESTORE", "REPLACE")
_BY_PATH = re.compile(r"delta\.`(?:file:)?(.+)`")


class _UnknownError(Exception):
    """The commits of a table do not tell which windows are in it."""


def waiting(
    spark: SparkSession, table: Table, start: date, end: date, allow_gap: bool
) -> list[str]:
    """List the state tables that the window [start, end) is not in yet.

    Raises
    ------
    InputError : the window overlaps one that is in, and is not that very one; or it leaves out
        days, which could never be applied later; or nothing tells what is in a table
    """
    spec = table.spec
    untils = {name: applied_until(spark, table, name) for name in spec.state}
    newest = max((u for u in untils.values() if u is not None), default=None)
    found = []
    for name, until in untils.items():
        part = spec.state[name]
        if until != newest and newest is not None and start >= newest:
            ahead = next(n for n, u in untils.items() if u == newest)
            begun = started(spark, spec.state[ahead].path, newest) or "its first day"
            raise InputError(
                f"the window that ends at {newest} is in {ahead} and not in {name}: a run was "
                "broken off",
                f"{name} ({part.path})",
                f"Run it again first: --start {begun} --end {newest}",
            )
        if until is not None and until < start and not allow_gap:
            raise InputError(
                f"windows are applied up to {until}: the one from {start} to {end} would leave "
                "out the days between for ever",
                f"{name} ({part.path})",
                f"Go on with --start {until}, or give --allow-gap",
            )
        if until is None or until <= start:
            found.append(name)
        elif until != end or start != (
            started(spark, part.path, end) or _recorded_start(table, end)
        ):
            raise InputError(
                f"windows are applied up to {until}: the one from {start} to {end} "
                "would count events twice",
                f"{name} ({part.path})",
                f"Go on with --start {until}",
            )
    return found


def applied_until(spark: SparkSession, table: Table, name: str) -> date | None:
    """Return the day before which all events are in a state table, by windows or by bootstrap;
    None: no window is in, and bootstrap made it empty.

    Raises
    ------
    InputError : Delta has forgotten its transaction id, and no commit tells
    """
    path, app = table.spec.state[name].path, _app(table)
    spent = commits.spent_transaction(spark, path, app)
    if spent is not None:
        return _day(spent)
    recorded = max(_recorded(table), default=None)
    try:
        found = _told(spark, path, app, state.table_version(spark, path))
        if found is None and recorded is not None:
            raise _UnknownError("its commits name no window")
    except _UnknownError as unknown:
        known = "" if recorded is None else f"; the registry has a window that ends at {recorded}"
        raise InputError(
            f"expected Delta's transaction id of the newest window, found none ({unknown}){known}",
            f"{name} ({path})",
            "Find out before which day its rows hold all events, then say so with "
            f"apply_window.py --holds-until DAY --of {name}",
        ) from None
    if found is not None:
        say(f"{name}: Delta has forgotten its transaction id; commits tell: up to {found}")
    return found


def started(spark: SparkSession, path: str, end: date) -> date | None:
    """Return the first day of the newest window applied, which ends at `end`; None where history
    is gone."""
    for commit in commits.newest_first(spark, path):
        if commit.meta.get("step") == "apply_window" and commit.meta.get("end") == f"{end}":
            return date.fromisoformat(commit.meta["start"])
    return None


def check_applied(spark: SparkSession, path: str, start: date, end: date) -> None:
    """Refuse to go on where the window's MERGE was skipped for one with the same end.

    Delta skips a write whose transaction id another run has spent, and says nothing.

    Raises
    ------
    InputError : the window in the table begins on another day
    """
    there = started(spark, path, end)
    if there != start:
        raise InputError(
            f"another run has applied the window from {there} to {end} meanwhile: the one from "
            f"{start} was not applied",
            path,
            f"Go on with --start {end}; to complete the other window in all tables, run it again: "
            f"--start {there} --end {end}",
        )


def hold_until(spark: SparkSession, table: Table, day: date, names: Iterable[str]) -> None:
    """Note that state tables hold all events before a day, and none after, as a person says.

    An empty commit spends the transaction id of that day. Records of later windows are removed
    from the registry: these are in the tables no more.

    Raises
    ------
    InputError : no such state table, or a table whose commits tell otherwise
    """
    spec = table.spec
    for name in names:
        if name not in spec.state:
            raise InputError(f"no state table {name!r}", "--of", f"Known: {', '.join(spec.state)}")
        path = spec.state[name].path
        spent = commits.spent_transaction(spark, path, _app(table))
        if spent is not None and _day(spent) != day:
            raise InputError(
                f"Delta's transaction id says that windows are applied up to {_day(spent)}, not "
                f"{day}",
                f"{name} ({path})",
                f"Go on with --start {_day(spent)}",
            )
        if spent is None:
            meta = {"step": "holds_until", "end": f"{day}"}
            with commits.commit_session(spark, _app(table), day_number(day), meta) as own:
                nothing = own.createDataFrame([], state.schema(spark, path))
                nothing.write.format("delta").mode("append").save(path)
            say(f"{name}: holds all events before {day}")
    for end in _recorded(table):
        if end > day:
            table.registry.store.remove(f"{FOLDER}/{end}.json")


def _app(table: Table) -> str:
    return commits.app_id(table.spec.table, commits.WINDOWS)


def _day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number)


def _recorded(table: Table) -> list[date]:
    """Ends of the windows that the registry has a record of."""
    names = (n.removesuffix(".json") for n in table.registry.store.names(FOLDER))
    return [date.fromisoformat(n) for n in names if re.fullmatch(r"\d{4}-\d{2}-\d{2}", n)]


def _recorded_start(table: Table, end: date) -> date | None:
    """First day of the window that ends at `end`, as the registry has it; None: no record."""
    store, file = table.registry.store, f"{FOLDER}/{end}.json"
    if not store.exists(file):
        return None
    return date.fromisoformat(shaped(store.read_json(file), store.path(file), start=str)["start"])


def _told(spark: SparkSession, path: str, app: str, version: int) -> date | None:
    """What the commits up to a version tell of the windows that are in; None: none is.

    Raises
    ------
    _UnknownError : they do not tell
    """
    for number in range(version, -1, -1):
        commit = commits.commit_at(spark, path, number)
        if commit is None:
            raise _UnknownError(f"its history reaches back to version {number + 1} only")
        if commit.meta.get("step") in _STEPS:
            end = commit.meta.get("end")
            return None if end is None else date.fromisoformat(end)
        if commit.operation == "CLONE":
            return _told_by_source(spark, app, commit)
        if any(word in commit.operation for word in _REPLACED):
            raise _UnknownError(f"version {number} is {commit.operation}")
    raise _UnknownError("its commits name no bootstrap")


def _told_by_source(spark: SparkSession, app: str, clone: commits.Commit) -> date | None:
    """As `_told`, of the version of the table that a clone was made from."""
    source, version = (clone.parameters.get(n) for n in ("source", "sourceVersion"))
    unknown = f"it was cloned from version {version} of {source}"
    path = _BY_PATH.fullmatch(source or "")
    if path is None or version is None or not version.isdigit():
        raise _UnknownError(unknown)
    try:
        there = state.snapshot_at(spark, path[1], int(version)).transactions()
        spent = state.python_dict(spark, there).get(app)
        return _told(spark, path[1], app, int(version)) if spent is None else _day(int(spent))
    except (DamagedError, _UnknownError):
        raise _UnknownError(unknown) from None
