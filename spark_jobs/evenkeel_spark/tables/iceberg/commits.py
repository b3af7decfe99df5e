"""Commits of an Iceberg table: what one says of itself, and whether another writer was first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

from evenkeel_spark.tables.spark_errors import SPARK_ERRORS, first_line
from partitioning.errors import FenceError

Result = TypeVar("Result")

#: Times that a small commit is tried again after another writer was first.
TRIES = 20
#: Times that a statement which reads rows of main is tried beside other writers.
STATEMENT_TRIES = 5
#: Prefix of what our commits say of themselves in the summary of their snapshot.
SUMMARY = "evenkeel."
#: In the summary of a snapshot of ours: digest of the function that has placed all of its rows.
PLACED = "placed"
#: Lists the data files of a table, each with the mean of its partition. Iceberg 1.12 cannot plan
#: `files` once a column is dropped that has partitioned them, as release does.
FILES_SQL = (
    "SELECT record_count / file_count AS rows, total_data_file_size_in_bytes / file_count AS size, "
    "explode(sequence(1, file_count)) AS file FROM {}.partitions WHERE file_count > 0"
)
#: Lists what `IcebergCommit` holds of each commit.
_COMMITS_SQL = (
    "SELECT snapshot_id, parent_id, coalesce(summary, map()) AS summary, "
    "CAST(unix_timestamp(committed_at) AS DOUBLE) AS moment, operation FROM {}.snapshots"
)
#: Parts of the messages of a commit that another writer has beaten.
_LOST = ("CommitFailedException", "ValidationException", "Cannot commit", "not an ancestor")


@dataclass(frozen=True)
class IcebergCommit:
    """One commit of an Iceberg table.

    Parameters
    ----------
    number, parent : its id, and that of the one before; no parent: the first one
    summary : what the commit says of itself
    moment : when it was made, in seconds since 1970
    operation : Iceberg's name of what it did; `replace` leaves the rows as they are
    """

    number: int
    parent: int | None
    summary: Mapping[str, str]
    moment: float = 0.0
    operation: str | None = None

    def count(self, name: str) -> int:
        """Return a number of the summary; 0: it has none."""
        return int(self.summary.get(name, 0))

    @property
    def replaces(self) -> bool:
        """Whether it took away every data file that there was, and not to write the rows again."""
        gone = self.count("deleted-data-files")
        kept = self.count("total-data-files") - self.count("added-data-files")
        return self.operation != "replace" and gone > 0 and kept == 0

    @property
    def epoch(self) -> int | None:
        """The epoch that our move or placement of rows leads to; None: it is another writer's."""
        found = self.summary.get(f"{SUMMARY}epoch")
        return None if found is None else int(found)

    @property
    def under(self) -> int | None:
        """The epoch that rows of main stand under since it; None: it does not tell."""
        found = self.summary.get(f"{SUMMARY}under")
        return self.epoch if found is None else int(found)


def commits_back(spark: SparkSession, table: str, head: int) -> Iterator[IcebergCommit]:
    """Yield the commits that led to a snapshot, newest first, as far as none has expired.

    Parameters
    ----------
    table : its name as SQL has it
    """
    listed = spark.sql(_COMMITS_SQL.format(table)).collect()
    by_number = {r[0]: IcebergCommit(*r) for r in listed}
    at: int | None = head
    while at in by_number:
        yield by_number[at]
        at = by_number[at].parent


def beaten(error: Exception) -> bool:
    """Return whether a commit failed because another writer was first."""
    return any(part in str(error) for part in _LOST)


def once_free(
    table: str, refresh: Callable[[], None], commit: Callable[[], Result], tries: int | None = None
) -> Result:
    """Make a commit, and make it again while another writer is first.

    Parameters
    ----------
    tries : times that it is made at most; None: `TRIES`, which is for commits that read no row

    Raises
    ------
    FenceError : it has lost each time
    """
    tries = TRIES if tries is None else tries
    for attempt in range(tries):
        refresh()
        try:
            return commit()
        except SPARK_ERRORS as error:
            if not beaten(error):
                raise
            reason = first_line(error)
        time.sleep(min(2.0, 0.05 * 2**attempt))
    raise FenceError(
        f"other writers were first {tries} times ({reason[:200]})",
        table,
        "Run this step again when they are quieter",
    )
