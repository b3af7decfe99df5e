"""Bring rows to where a function puts them, by one UPDATE of main or of a branch."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.registry.epochs import Registry
from evenkeel.registry.state_view import slot_column
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.commits import STATEMENT_TRIES, once_free
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.rows.checksums import duplicate_keys
from evenkeel_spark.tables.rows.placement_sql import misplaced_sql
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql, quoted, slot_sql


def update_sql(target: str, slot: str, function: PartitioningFunction) -> str:
    """Write the UPDATE that brings every row of a table or branch where a function puts it.

    Parameters
    ----------
    target : SQL of the table or branch
    slot : name of the slot's column
    """
    channel = channel_sql(function)
    number = slot_sql(function.key, function.row_slots)
    return (
        f"UPDATE {target} SET {quoted(slot)} = {number}, {CHANNEL} = {channel} "
        f"WHERE NOT ({CHANNEL} <=> {channel} AND {quoted(slot)} <=> {number})"
    )


def count_misplaced(table: IcebergTable, function: PartitioningFunction) -> int:
    """Count the rows of main that are not where a function puts them."""
    return table.rows().where(misplaced_sql(function)).count()


def place(
    table: IcebergTable, where: str, function: PartitioningFunction, meta: Mapping[str, object]
) -> int:
    """Bring the rows of main where a function puts them. Return how many were elsewhere.

    A writer by an older epoch may land long after its columns were renamed: a file that it had
    begun knows no names. The statement fails if another writer changes the rows that it reads, or
    if another epoch's column stands there: it names that of the function.

    Raises
    ------
    FenceError : other writers were first each time, or another epoch's writers write
    """

    def once() -> int:
        if (epoch := table.epoch()) != function.epoch:
            raise FenceError(
                f"has the column slot_{epoch} by now, expected {slot_column(function.epoch)}",
                where,
                "Run this again: another epoch was published, or is about to be",
            )
        if found := count_misplaced(table, function):
            statement = update_sql(table.sql, slot_column(function.epoch), function)
            table.write(meta, lambda own: own.sql(statement))
        return found

    found = once_free(where, table.refresh, once, STATEMENT_TRIES)
    if found:
        crash_point("placed")
        say(f"{where}: {found:,} rows placed")
    return found


def place_late(
    table: IcebergTable,
    where: str,
    function: PartitioningFunction,
    meta: Mapping[str, object],
    whole: bool,
) -> int:
    """Do as `place`, unless a key that may have one row only has several.

    Parameters
    ----------
    whole : a key has one row

    Raises
    ------
    InputError : some keys have several. Their channels still tell which row is by an older epoch
    """
    table.refresh()
    late = whole and count_misplaced(table, function) > 0
    if late and (several := duplicate_keys(table.rows(), function)):
        raise InputError(
            f"{several:,} keys have several rows: a writer has routed by an older epoch",
            where,
            "Find out which rows are the newest, and delete the others",
        )
    return place(table, where, function, meta)


def name_column(registry: Registry, table: IcebergTable, epoch: int) -> None:
    """Let writers by an epoch write, or by the current one if that is a later one by now.

    It renames, then looks: a job that wakes late must not shut the current epoch's writers out. Nor
    may it open a table that the plan of the next epoch is about to publish: it has shut it.
    """
    table.refresh()
    was, claim = table.epoch(), registry.files.claim(epoch + 1)
    if (opens := was == epoch + 1) and claim.exists():
        return
    if was != epoch:
        table.rename(slot_name(table), slot_column(epoch))
        crash_point("named")
    if (known := registry.numbers()) and known[-1] > epoch:
        table.rename(slot_column(epoch), slot_column(known[-1]))
    elif opens and claim.exists():
        table.rename(slot_column(epoch), slot_column(epoch + 1))


def slot_name(table: IcebergTable) -> str:
    """Return the name that the slot's column has now."""
    epoch = table.epoch()
    return SLOT if epoch is None else slot_column(epoch)
