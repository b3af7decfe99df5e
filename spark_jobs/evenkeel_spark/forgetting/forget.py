"""Forget keys: delete their rows from every state table, and their names from the registry.

No statement has a key in its text, because Delta's history keeps the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from evenkeel.registry.forgetting import check_at_rest, forget_in_sketches, forget_names
from evenkeel.table import Table
from evenkeel_spark.forgetting.delta_rows import DeltaRows
from evenkeel_spark.forgetting.iceberg_rows import IcebergRows
from evenkeel_spark.forgetting.keys import KeyedRows, WantedKeys
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta.state import owning_spec
from evenkeel_spark.tables.iceberg.checks import owner_of
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import half_left
from partitioning.errors import FenceError

_NO_KEY = (
    "there was nothing of these keys. If none of them was forgotten before, they are not written "
    "as the table has them"
)


def forget(
    spark: SparkSession, table: Table, keys: Sequence[str], dry_run: bool = False
) -> dict[str, int]:
    """Delete the rows and the names of keys. A second call finds nothing left.

    Windows and learns that have read events before are refused: see `meanwhile`.

    Older versions of the tables hold the rows until maintain removes them. The input is not
    touched: events of the keys that stay there bring them back.

    Parameters
    ----------
    keys : as a person writes them, see `key_columns`
    dry_run : count the rows, and change nothing

    Returns
    -------
    Rows deleted, or that would be, by state table.

    Raises
    ------
    InputError : a text is no key of the table, or a state table is not ours
    FenceError : a run is moving state of one of the keys, or writers never let us commit
    """
    spec, registry = table.spec, table.registry
    function = table.epoch().function
    wanted = WantedKeys.of(spark, keys, function)
    tables: KeyedRows = (
        IcebergRows(spark, spec) if spec.iceberg else DeltaRows(spark, spec, function)
    )
    tables.check()
    _check_none_left(spark, table)
    check_at_rest(registry, wanted.hashes)
    if dry_run:
        found = {name: tables.count(name, wanted) for name in spec.state}
        for name, rows in found.items():
            say(f"{name}: {rows:,} rows would be deleted")
        return found
    # A learn that has read names before sees the commits below, and one after them reads none.
    early, _ = forget_in_sketches(registry, wanted.hashes)
    deleted = {}
    for name in spec.state:
        deleted[name] = tables.delete(name, wanted)
        say(f"{name}: {deleted[name]:,} rows deleted")
    gone = forget_names(registry, wanted.hashes, wanted.texts)
    if early:
        gone["sketches"] = gone.get("sketches", 0) + early
    say(f"registry: {', '.join(f'{n:,} {kind}' for kind, n in gone.items()) or 'no names'}")
    if not gone and not any(deleted.values()):
        say(_NO_KEY)
    _say_how_long(spec.state, tables)
    return deleted


def _check_none_left(spark: SparkSession, table: Table) -> None:
    """Refuse while a table that has left may come back with its rows.

    Raises
    ------
    FenceError : names it
    """
    spec, here = table.spec, {part.path for part in table.spec.state.values()}
    for name, gone in half_left(table.registry).items():
        at = gone.path
        owner = owner_of(IcebergTable(spark, at)) if spec.iceberg else owning_spec(spark, at)
        if owner == spec.table and at not in here:
            raise FenceError(
                f"state table {name!r} has left, and may still come back with rows of the keys",
                at,
                f"Run `evenkeel evolve {spec.table}`, which lets it go, then this again. Its files "
                "stay: delete the rows there yourself",
            )


def _say_how_long(names: Sequence[str], tables: KeyedRows) -> None:
    """Say until when older versions hold the rows."""
    kept = {name: tables.days_kept(name) for name in names}
    for name in (n for n, days in kept.items() if days is None):
        say(f"{name}: older versions stay for ever, because the table says so, and hold the rows")
    if days := [d for d in kept.values() if d is not None]:
        until = (datetime.now(UTC) + timedelta(days=max(days))).date()
        say(f"older versions hold the rows until maintain runs after {until}")
