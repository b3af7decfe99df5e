"""Notes of what a state table holds: commits without rows, by a person or by `maintain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from functools import partial

from pyspark.sql import SparkSession

from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.windows import window_commits
from partitioning.errors import InputError

#: Seconds of a day.
DAY_SECONDS = 86_400
#: Part of `keep` after which `renew` notes again, and number of commits since. Lower: more commits
#: without rows. The part must be well below 1, because Delta cleans the log up after `keep` days.
RENEW_SHARE, RENEW_COMMITS = 0.5, 2_000
#: Days until `maintain` may look next: a week, and a day more. And days for which a note is new.
NEXT_LOOK, NEW_NOTE = 8, 0.5


def hold_until(spark: SparkSession, table: Table, day: date, names: Iterable[str]) -> None:
    """Note that state tables hold all events before a day, and none after, as a person says.

    A table whose commits tell what is in may be said to hold what another one holds: a window that
    it lacks is left out of it. Records of later windows are removed from the registry where
    these are in no table any more.

    Raises
    ------
    InputError : no such state table; or a table whose commits tell otherwise, also if a window
        comes between
    """
    spec = table.spec
    for name in names:
        check_of(spec, name)
        path = spec.state[name].path
        others = [part.path for other, part in spec.state.items() if other != name]
        ahead = window_commits.newest_end(spark, others)
        while True:
            count = commits.windows_count(spark, path, spec.table)
            seen = commits.newest(spark, path)
            known = window_commits.find_committed_windows(spark, path, seen.version)
            if known is not None:
                check_said(known.until, day, name, path, ahead)
                if known.back is None and known.until == day:
                    break
            # A forget may come first and spend the number: then look, and note again.
            note(spark, spec, name, day, seen, count)
        say(f"{name}: holds all events before {day}")
    forget_later(table, partial(newest_of_all, spark, table))


def check_of(spec: TableSpec, name: str) -> None:
    """Refuse the name of no state table."""
    if name not in spec.state:
        raise InputError(f"no state table {name!r}", "--of", f"Known: {', '.join(spec.state)}")


def newest_of_all(spark: SparkSession, table: Table) -> date | None:
    """Return the end of the newest window of all tables; None: unknown, or there is none."""
    return window_commits.newest_end(spark, [part.path for part in table.spec.state.values()])


def forget_later(table: Table, newest_end: Callable[[], date | None]) -> None:
    """Remove the records of windows that are in no table any more.

    Parameters
    ----------
    newest_end : returns that of all tables; None: unknown, or there is none
    """
    # Listed before the tables are read, so a window that commits meanwhile keeps its record.
    recorded = table.registry.files.window_ends()
    newest = newest_end()
    for end in recorded:
        if newest is not None and end > newest:
            table.registry.files.window(end).remove()


def renew(spark: SparkSession, table: Table, now: float) -> str:
    """Note again what the state tables hold, before Delta cleans up the commit that tells it.

    The note makes the next window's look at the commits short, too. A table whose commits do not
    tell is left as it is.

    Parameters
    ----------
    now : seconds since 1970

    Returns
    -------
    The work that was done, in words.
    """
    spec, done = table.spec, []
    for name, part in spec.state.items():
        while True:
            count = commits.windows_count(spark, part.path, spec.table)
            seen = commits.newest(spark, part.path)
            known = window_commits.find_committed_windows(spark, part.path, seen.version)
            if known is None:
                done.append(f"the commits of {name} do not tell which are in")
                break
            if not is_due(known.commits, known.moment, spec.keep, now):
                break
            note(spark, spec, name, known.until, seen, count)
            # A window or a forget may have come first: then Delta has skipped the note.
            since = commits.history_since(spark, part.path, seen.version)
            if any(commit.meta.get("seen_id") == seen.id for commit in since):
                done.append(f"noted again that {name} has those up to {known.until}")
                break
    return "; ".join(done) or "the commits tell which are in"


def is_due(commits_read: int, moment: float, keep: int, now: float) -> bool:
    """Return whether to note again what a table holds.

    Parameters
    ----------
    commits_read : commits that were read to find what is in
    moment : when the commit that tells it was made, seconds since 1970
    keep : days, as in the spec
    now : seconds since 1970
    """
    days = min(RENEW_SHARE * keep, max(keep - NEXT_LOOK, NEW_NOTE))
    # A moment to come is of a clock that was wrong: Delta's log is cleaned by the store's clock.
    return commits_read > RENEW_COMMITS or not 0 <= now - moment <= days * DAY_SECONDS


def note(
    spark: SparkSession,
    spec: TableSpec,
    name: str,
    day: date | None,
    seen: commits.Commit,
    count: int,
) -> None:
    """Commit, without rows, that a state table holds all events before a day.

    Delta skips it if a window has come since.

    Parameters
    ----------
    day : None: no window is in
    seen : the table's newest commit when its windows were looked at
    count : number of its newest window or note then
    """
    path = spec.state[name].path
    end = None if day is None else f"{day}"
    meta = {"step": "holds_until", "end": end, "seen": seen.version, "seen_id": seen.id}
    app = commits.windows_app(spec.table)
    with commits.our_commit(spark, app, count + 1, meta) as own:
        nothing = own.createDataFrame([], state.schema(spark, path))
        nothing.write.format("delta").mode("append").save(path)


def check_said(until: date | None, day: date, name: str, path: str, ahead: date | None) -> None:
    """Refuse a day that the table's commits gainsay.

    Parameters
    ----------
    until : all events before this day are in, as commits tell
    ahead : the newest such day of the other state tables

    Raises
    ------
    InputError : says up to which day windows are in
    """
    if until == day or (day == ahead and (until is None or until < day)):
        return
    if until is None:
        raise InputError(
            f"its commits tell that no window is in, so it does not hold those before {day}",
            f"{name} ({path})",
            "Apply the first window: choose its --start and --end",
        )
    raise InputError(
        f"its commits tell that windows are applied up to {until}, not {day}",
        f"{name} ({path})",
        f"Go on with --start {until}",
    )
