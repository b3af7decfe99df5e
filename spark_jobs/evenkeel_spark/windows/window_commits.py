"""The windows in a state table, as read from its commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.windows.ancestry import DisturbedError, UnknownError, ancestors, replaces

#: Steps of our commits that add or record events.
STEPS = ("apply_window", "bootstrap", "holds_until")


#: First day of a window, and the day after its last. No first day: a bootstrap, or a person who
#: says what is in. Then it is all before that day.
Days = tuple[date | None, date]


def days_in(meta: Mapping[str, Any]) -> Days:
    """Return the days that a commit of ours adds or records."""
    start, end = meta.get("start"), meta.get("end")
    # A bootstrap of empty tables has no end.
    ended = date.fromisoformat(end) if end else date.min
    return date.fromisoformat(start) if start else None, ended


def added(days: Iterable[Days]) -> Iterator[tuple[date, date]]:
    """Yield those of the days that windows have added."""
    return ((start, end) for start, end in days if start is not None)


class CommittedWindows(NamedTuple):
    """Hold what the commits of a table tell of its windows.

    Parameters
    ----------
    until : all events before this day are in; None: no window is
    commits : how many were read
    moment : when the commit that tells `until` was made, in seconds since 1970
    back : newest version that brought other rows back since; None: none has, or it is Iceberg's
    """

    until: date | None
    commits: int
    moment: float
    back: int | None = None


def committed_windows(spark: SparkSession, path: str, version: int) -> CommittedWindows:
    """Read from the commits up to a version which windows are in the table.

    Delta's transaction ids do not count: they survive a RESTORE that the log has forgotten.

    Raises
    ------
    UnknownError : the commits do not say it
    """
    back = None
    for read, (where, commit) in enumerate(ancestors(spark, path, version), 1):
        if _is_step(commit):
            _check_undisturbed(spark, where, commit)
            if "end" not in commit.meta:
                raise UnknownError(f"version {commit.version} of {where} does not say its end")
            end = commit.meta["end"]
            until = None if end is None else date.fromisoformat(end)
            return CommittedWindows(until, read, commit.timestamp, back)
        if back is None and replaces(spark, where, commit):
            back = commit.version
    raise AssertionError


def find_committed_windows(spark: SparkSession, path: str, version: int) -> CommittedWindows | None:
    """Read the same as `committed_windows`; None if the commits do not say it."""
    try:
        return committed_windows(spark, path, version)
    except UnknownError:
        return None


def newest_end(spark: SparkSession, paths: Iterable[str]) -> date | None:
    """Return the newest day before which any of these tables has all events.

    None: the commits of one do not say it, or no table has a window.
    """
    return newest_of(
        find_committed_windows(spark, path, state.table_version(spark, path)) for path in paths
    )


def newest_of(found: Iterable[CommittedWindows | None]) -> date | None:
    """Return as `newest_end`, from what is found in each table. Stops at the first unknown."""
    ends: list[date] = []
    for known in found:
        if known is None:
            return None
        ends += [] if known.until is None else [known.until]
    return max(ends, default=None)


def _is_step(commit: commits.Commit) -> bool:
    """Tell whether a commit is one of these steps of ours.

    Delta compacts files in the same session, with the same metadata, where a table asks for it.
    """
    return commit.meta.get("step") in STEPS and commit.operation != "OPTIMIZE"


def _check_undisturbed(spark: SparkSession, path: str, commit: commits.Commit) -> None:
    """Refuse a window that was added to other rows than those that were asked.

    Raises
    ------
    DisturbedError : rows were brought back between the look at the table and the commit, another
        window was applied, or the table is another one
    """
    seen = commit.meta.get("seen", commit.version - 1)
    if seen >= commit.version:
        raise DisturbedError(
            f"version {commit.version} applied a window that had seen version {seen}, so that of "
            "another table in this place",
            path,
            commit,
        )
    seen_id = commit.meta.get("seen_id")
    for other in commits.newest_first(spark, path, commit.version - 1):
        if other.version <= seen:
            if None not in (seen_id, other.id) and seen_id != other.id:
                raise DisturbedError(
                    f"version {seen} is not the commit that version {commit.version} had seen "
                    "when it applied a window: another table was put in this place",
                    path,
                    commit,
                )
            return
        if replaces(spark, path, other) or _is_step(other):
            what = other.meta.get("step", other.operation)
            raise DisturbedError(
                f"version {other.version} is {what}, made while version {commit.version} "
                "applied a window",
                path,
                commit,
            )


def windows(spark: SparkSession, path: str) -> Iterator[Days]:
    """Yield the days of the windows that are in, newest first, as far as commits tell."""
    try:
        for _, commit in ancestors(spark, path, state.table_version(spark, path)):
            if _is_step(commit):
                if "end" not in commit.meta:
                    # Evenkeel 0.1.0 did not say it.
                    return
                yield days_in(commit.meta)
    except UnknownError:
        return
