"""Notes of what an Iceberg table holds: snapshots without rows, by a person or by `maintain`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import partial

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.iceberg.checks import iceberg_table
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.windows.iceberg.branches import write_by_branch
from evenkeel_spark.windows.iceberg.merging import WINDOW_BRANCHES
from evenkeel_spark.windows.iceberg.snapshots import find_said
from evenkeel_spark.windows.window_commits import newest_of
from evenkeel_spark.windows.window_notes import check_of, check_said, forget_later, is_due
from partitioning.errors import FenceError

#: Times that a note is made again because others wrote meanwhile.
NOTES = 10


def note_until(spark: SparkSession, table: Table, day: date, names: Iterable[str]) -> None:
    """Note that state tables hold all events before a day, and none after, as a person says.

    Parameters and errors are as for Delta tables.
    """
    spec = table.spec
    for name in names:
        check_of(spec, name)
        one = iceberg_table(spark, spec, name)
        ahead = _newest_end(spark, table, [other for other in spec.state if other != name])
        for _ in range(NOTES):
            head = one.head()
            if (known := find_said(one, head)) is not None:
                check_said(known.until, day, name, one.name, ahead)
                if known.until == day:
                    break
            if _note(one, head, day):
                break
        else:
            raise _busy(table, name)
        say(f"{name}: holds all events before {day}")
    forget_later(table, partial(_newest_end, spark, table, spec.state))


def _newest_end(spark: SparkSession, table: Table, names: Iterable[str]) -> date | None:
    """Return as `newest_end` of Delta tables."""
    tables = (iceberg_table(spark, table.spec, name) for name in names)
    # All are read, so a table that cannot be is named whatever the others tell.
    return newest_of([find_said(one, one.head()) for one in tables])


def renew_note(table: Table, name: str, one: IcebergTable, now: float) -> str:
    """Note again what a table holds, before the snapshot that tells it expires.

    Parameters
    ----------
    now : seconds since 1970

    Returns
    -------
    The work that was done, in words.
    """
    one.refresh()
    for _ in range(NOTES):
        head = one.head()
        if (known := find_said(one, head)) is None:
            return "the snapshots do not tell which are in"
        if not is_due(known.commits, known.moment, table.spec.keep, now):
            return "the snapshots tell which are in"
        if _note(one, head, known.until):
            return f"noted again that those up to {known.until} are in"
    raise _busy(table, name)


def _note(one: IcebergTable, head: int, day: date | None) -> bool:
    """Commit without rows what a table holds; False: main has moved meanwhile."""

    def write(own: SparkSession, target: str) -> None:
        own.createDataFrame([], one.schema()).writeTo(target).append()

    said = {"step": "holds_until", "end": day or ""}
    return write_by_branch(one, head, WINDOW_BRANCHES, said, write)


def _busy(table: Table, name: str) -> FenceError:
    return FenceError(
        f"others wrote during each of {NOTES} notes",
        table_in_errors(table.spec, name),
        "Run it again when they are quieter",
    )
