"""The registry's records of state tables that join a spec whose epochs go on, or leave it.

A new table is there, empty and guarded, before the registry's record; other jobs refuse it until
then. A table that leaves has its record before its guard goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.registry.files.records import Membership
from evenkeel.table import Table
from evenkeel_spark.evolving.state_tables import StateTables
from partitioning.errors import FenceError
from partitioning.function.function import PartitioningFunction


def record_members(
    table: Table, tables: StateTables, function: PartitioningFunction
) -> dict[str, Membership | None]:
    """Have the registry know the tables that join, and no more those that leave.

    Returns
    -------
    The record that each of them had before.

    Raises
    ------
    FenceError : another epoch was published meanwhile; nothing was recorded
    """
    check_current(table, function)
    joined = {
        name: Membership(
            epoch=function.epoch,
            function=function.digest,
            path=table.spec.state[name].path,
            left=False,
        )
        for name in tables.new
    }
    changed, files = joined | tables.left, table.registry.files
    before = {name: files.member(name).find() for name in changed}
    for name, one in changed.items():
        files.member(name).write(one)
    return before


def check_current(table: Table, function: PartitioningFunction) -> None:
    """Refuse to go on under an epoch that is not the current one any more.

    Raises
    ------
    FenceError : names both epochs
    """
    now = table.epoch().function
    if now.digest != function.digest:
        raise FenceError(
            f"epoch {now.epoch} was published meanwhile; this began under {function.epoch}",
            table.registry.url,
            "Run this again: it goes by the new epoch",
        )


def restore_members(table: Table, before: Mapping[str, Membership | None]) -> None:
    """Undo `record_members`."""
    for name, one in before.items():
        file = table.registry.files.member(name)
        if one is None:
            file.remove()
        else:
            file.write(one)
