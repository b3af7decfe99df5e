"""The windows that are in a state table.

The table's commits say it, from the newest one back, through each RESTORE and CLONE. If they do
not, a person must say up to which day the table has all events. Delta's transaction id keeps a
window from being added to another state than the one that was seen. It has the app
`evenkeel/TABLE/windows/count`, and as the version one more than the number that was seen. So of all
windows that have seen one state, only one is added, and Delta skips the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenkeel.table import Table
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits
from evenkeel_spark.windows import window_commits
from evenkeel_spark.windows.ancestry import DisturbedError, UnknownError
from evenkeel_spark.windows.window_commits import Days, added
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction


@dataclass(frozen=True)
class Applied:
    """The windows in a state table.

    Parameters
    ----------
    until : all events before this day are in; None: no window is, and bootstrap made it empty
    version : of the table, when this was found
    count : number of the newest window or note, by Delta's transaction id; 0: none
    id : of the commit that made the version; None: not known
    """

    until: date | None
    version: int
    count: int
    id: str | None = None


class WindowTables(Protocol):
    """The state tables of a spec, in one format, as a window meets them."""

    def check(self) -> None:
        """Refuse tables that are not as the spec has them."""

    def check_admits(self, function: PartitioningFunction) -> None:
        """Refuse tables that are under another epoch."""

    def check_events(
        self, names: Iterable[str], events: DataFrame, function: PartitioningFunction
    ) -> None:
        """Refuse an input that tables were not made of."""

    def schema(self, name: str) -> StructType:
        """Return the columns of a table."""

    def applied(self, name: str) -> Applied:
        """Return the windows that are in a table."""

    def windows(self, name: str) -> Iterator[Days]:
        """Yield the days of each window in a table, newest first, as far as known."""


def applied(spark: SparkSession, table: Table, name: str) -> Applied:
    """Find out which windows are in a state table.

    Raises
    ------
    InputError : no commit tells; or Delta would forget transaction ids while a window is applied
    """
    path, whose = table.spec.state[name].path, table.spec.table
    commits.check_remembers(spark, path, name)
    # The number first: a window that comes between spends it, so this one is not added. Then the
    # commit: a table that takes this one's place from now on has others.
    count, day = commits.windows_count(spark, path, whose), commits.day_id(spark, path, whose)
    seen = commits.newest(spark, path)
    try:
        found = window_commits.committed_windows(spark, path, seen.version)
        unheard = day is None and found.back is None
        if found.until is None and unheard and table.registry.files.window_ends():
            raise UnknownError("its commits name no window")
    except DisturbedError as disturbed:
        raise InputError(
            "expected each window upon the rows that it had seen, found one upon others "
            f"({disturbed})",
            f"{name} ({path})",
            f"Run `evenkeel repair {whose} --undo-window --dry-run`, which says what it takes "
            f"back, then without --dry-run, or the DAG repair_{whose} with undo_window. Then run "
            "this again",
        ) from None
    except UnknownError as unknown:
        recorded = max(table.registry.files.window_ends(), default=None)
        known = "" if recorded is None else f"; the registry has a window that ends at {recorded}"
        raise InputError(
            f"expected a commit that tells which windows are in, found none ({unknown}){known}",
            f"{name} ({path})",
            "Find out before which day its rows hold all events, then say so with "
            f"`evenkeel job apply_window` --holds-until DAY --of {name}",
        ) from None
    if found.back is not None:
        until = found.until
        say(f"{name}: version {found.back} brought rows back; commits tell: windows up to {until}")
    return Applied(found.until, seen.version, count, seen.id)


def check_applied(
    spark: SparkSession, table: Table, name: str, start: date, end: date, seen: Applied
) -> Applied | None:
    """Ask whether a window's MERGE was skipped, because another window or note has come first.

    Parameters
    ----------
    seen : what the window had found in the table

    Returns
    -------
    None if the window is in. If nothing but a note has come first, what is in the table now: the
    window may be applied to that.

    Raises
    ------
    InputError : another window is in the table; or rows were brought back meanwhile
    """
    path = table.spec.state[name].path
    now = applied(spark, table, name)
    newest = next(added(window_commits.windows(spark, path)), None)
    if now.until == end and newest == (start, end):
        return None
    if now.until == seen.until and now.count > seen.count and now.until != end:
        return now
    if now.until is None or now.until <= start or newest is None:
        raise InputError(
            f"the window from {start} to {end} was applied, and is in the table no more: its rows "
            "were brought back meanwhile",
            f"{name} ({path})",
            "Run it again",
        )
    there, until = newest
    raise InputError(
        f"another run has applied the window from {there} to {until} meanwhile: the one from "
        f"{start} to {end} was not applied",
        f"{name} ({path})",
        f"Go on with --start {until}; to complete the other window in all tables, run it again: "
        f"--start {there} --end {until}",
    )
