"""The windows that are in an Iceberg table, as its snapshots tell.

Each snapshot of ours says in its summary what it added. They are read from the newest one of main
back. So a table that was rolled back has the windows of the snapshot that it was rolled back to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenkeel.table import Table
from evenkeel_spark.events.reader import check_key
from evenkeel_spark.forgetting.meanwhile import FORGET
from evenkeel_spark.tables.column_inputs import check_made_of
from evenkeel_spark.tables.iceberg.checks import (
    adopted_tables,
    check_slot_column,
    iceberg_table,
)
from evenkeel_spark.tables.iceberg.commits import PLACED, SUMMARY, IcebergCommit, commits_back
from evenkeel_spark.tables.iceberg.schema_commit import EVOLVE
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.windows.applied_windows import Applied
from evenkeel_spark.windows.window_commits import STEPS, CommittedWindows, Days, days_in
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction

#: In the summary of a snapshot whose rows were brought over from another branch.
_BROUGHT = "source-snapshot-id"
#: Steps of ours that bring no row.
_WITHOUT_ROWS = ("holds_until", FORGET, EVOLVE)


def find_said(table: IcebergTable, head: int) -> CommittedWindows | None:
    """Read which windows are in a table as of a snapshot; None: its snapshots do not tell."""
    for read, commit in enumerate(commits_back(table.spark, table.sql, head), 1):
        if _tells_nothing(commit):
            return None
        if _step(commit) in STEPS:
            end = commit.summary.get(f"{SUMMARY}end")
            return CommittedWindows(date.fromisoformat(end) if end else None, read, commit.moment)
    return None


def windows_at(table: IcebergTable, head: int) -> Iterator[Days]:
    """Yield the days of each window in a table as of a snapshot, newest first.

    Those before a snapshot that replaced all rows are in the table no more.
    """
    for commit in commits_back(table.spark, table.sql, head):
        if _tells_nothing(commit):
            return
        if _step(commit) in STEPS:
            yield days_in({f: commit.summary.get(f"{SUMMARY}{f}") for f in ("start", "end")})


def known_placed(table: IcebergTable, head: int, function: PartitioningFunction) -> bool:
    """Return whether snapshots tell that all rows of a snapshot are where a function puts them.

    A bootstrap and a move tell it, and so does a window: it follows a snapshot whose rows were so,
    and adds rows by the same function. Files that are written again, our notes, changes of columns,
    and keys that are forgotten bring no row. Any other snapshot may have brought rows, so they must
    be read.
    """
    for commit in commits_back(table.spark, table.sql, head):
        if _BROUGHT in commit.summary:
            return False
        if (by := commit.summary.get(f"{SUMMARY}{PLACED}")) is not None:
            return by == function.digest
        if commit.operation != "replace" and _step(commit) not in _WITHOUT_ROWS:
            return False
    return False


def _tells_nothing(commit: IcebergCommit) -> bool:
    """Return whether nobody knows the windows of its rows.

    It brought over what may be rows of a window. Or somebody emptied the table, or put rows of
    another time into it.
    """
    return _BROUGHT in commit.summary or (_step(commit) is None and commit.replaces)


def _step(commit: IcebergCommit) -> str | None:
    return commit.summary.get(f"{SUMMARY}step")


@dataclass(frozen=True)
class IcebergWindows:
    """The Iceberg tables of a spec, as a window meets them: see `WindowTables`."""

    spark: SparkSession
    table: Table

    def check(self) -> None:
        """Refuse tables that are not as the spec has them."""
        adopted_tables(self.spark, self.table.spec)

    def check_admits(self, function: PartitioningFunction) -> None:
        """Refuse tables that are under another epoch."""
        spec = self.table.spec
        check_slot_column(spec, adopted_tables(self.spark, spec), function)

    def check_events(
        self, names: Iterable[str], events: DataFrame, function: PartitioningFunction
    ) -> None:
        """Refuse an input that tables were not made of."""
        spec = self.table.spec
        check_key(events, spec, function.key)
        for name in names:
            properties = iceberg_table(self.spark, spec, name).properties()
            check_made_of(spec, name, properties, dict(events.dtypes))

    def schema(self, name: str) -> StructType:
        """Return the columns of a table."""
        return iceberg_table(self.spark, self.table.spec, name).schema()

    def applied(self, name: str) -> Applied:
        """Return the windows that are in a table."""
        one = iceberg_table(self.spark, self.table.spec, name)
        return self.applied_at(name, one, one.head())

    def applied_at(self, name: str, one: IcebergTable, head: int) -> Applied:
        """Return the windows that are in a table as of a snapshot.

        Raises
        ------
        InputError : no snapshot tells
        """
        if (found := find_said(one, head)) is None:
            raise InputError(
                "expected a snapshot that tells which windows are in, found none: it has expired, "
                "or somebody has written all rows again",
                table_in_errors(self.table.spec, name),
                "Find out before which day its rows hold all events, then say so with "
                f"`evenkeel job apply_window` --holds-until DAY --of {name}",
            )
        return Applied(found.until, head, 0)

    def windows(self, name: str) -> Iterator[Days]:
        """Yield the days of each window in a table, newest first, as far as known."""
        one = iceberg_table(self.spark, self.table.spec, name)
        return windows_at(one, one.head())
