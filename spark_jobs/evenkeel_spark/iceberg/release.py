"""Release Iceberg tables: take Evenkeel out. No row is written, whatever the size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Registry
from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.adoption.leaving import (
    OUR_PROPERTIES,
    check_not_kept,
    check_not_lost,
    made_by_us,
    mark_released,
)
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.checks import (
    UPDATES_WELL,
    check_registry,
    iceberg_table,
    our_columns,
    owner_of,
)
from evenkeel_spark.tables.iceberg.schema_commit import columns_in_use
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.moving import check_no_run_moves
from evenkeel_spark.tables.table_properties import (
    ADOPTING_PROPERTY,
    BEFORE_PROPERTY,
    REGISTRY_PROPERTY,
    TABLE_PROPERTY,
)
from partitioning.errors import InputError, UnderWayError
from partitioning.function.sql import quoted


def release(
    spark: SparkSession,
    table: Table,
    drop_columns: bool = False,
    dry_run: bool = False,
    registry_lost: bool = False,
) -> list[str]:
    """Release every table of a spec.

    Parameters
    ----------
    drop_columns : take slot and channel out, too. Iceberg writes no rows for that. On a table with
        other partition fields, channel stays as an optional column
    dry_run : say what would be done; change nothing
    registry_lost : release a table of a registry that is lost for good, too

    Returns
    -------
    Names of the tables that were released, or would be.

    Raises
    ------
    InputError : a table is another spec's or another registry's
    FenceError : a rebalance is under way
    """
    spec, registry = table.spec, table.registry
    for name, part in spec.state.items():
        if not part.plain:
            raise made_by_us(name, part.path)
    check_no_run_moves(spec, registry)
    found = {name: iceberg_table(spark, spec, name) for name in spec.state}
    for name, one in found.items():
        _check_ours(table, name, one.properties(), registry_lost)
    ours = [name for name, one in found.items() if _has_ours(one, drop_columns)]
    for name in ours if drop_columns else ():
        _check_droppable(spec, name, found[name])
    if not dry_run:
        _disown(spec, registry, [found[name] for name in ours])
    for name in ours:
        what = "would be released" if dry_run else "releasing"
        say(f"{name}: {what}{', without slot and channel' if drop_columns else ''}")
        if not dry_run:
            _release(name, found[name], drop_columns)
    if not dry_run:
        mark_released(table, lambda path: owner_of(IcebergTable(spark, path)))
    return ours


def _check_ours(
    table: Table, name: str, properties: Mapping[str, str], registry_lost: bool
) -> None:
    """Refuse a table that Evenkeel made, or that another spec or registry has."""
    spec = table.spec
    # A spec can be edited: the table itself knows who made it.
    if COLUMNS_PROPERTY in properties:
        raise made_by_us(name, spec.state[name].path)
    owner = properties.get(TABLE_PROPERTY, properties.get(ADOPTING_PROPERTY))
    if owner is None:
        return
    if owner != spec.table:
        raise InputError(
            f"is a table of {owner!r}", table_in_errors(spec, name), "Correct the spec"
        )
    check_not_kept(table, name, properties.get(REGISTRY_PROPERTY), registry_lost)
    if not registry_lost:
        check_registry(spec, name, properties)
        # An adoption that was broken off may have no epoch yet.
        if TABLE_PROPERTY in properties:
            check_not_lost(table, name)


def _check_droppable(spec: TableSpec, name: str, table: IcebergTable) -> None:
    """Refuse to drop columns that the team has named in the table, before anything is changed."""
    own = f"the partition field {CHANNEL}"
    used = columns_in_use(table)
    for column in our_columns(table.schema()):
        if (what := used.get(column)) is not None and (column, what) != (CHANNEL, own):
            raise InputError(
                f"cannot drop column {column!r}: it is named by {what}",
                table_in_errors(spec, name),
                "Take it out of there, or release the table with its columns",
            )


def _has_ours(table: IcebergTable, drop_columns: bool) -> bool:
    # BEFORE_PROPERTY stays for as long as one of the columns does.
    ours = our_columns(table.schema())
    left = CHANNEL in ours
    found = (n for n in table.properties() if n != BEFORE_PROPERTY or not left)
    properties = any(name.startswith(OUR_PROPERTIES) for name in found)
    kept = BEFORE_PROPERTY in table.properties()
    return properties or (drop_columns and kept and any(name != CHANNEL for name in ours))


def _files_need_channel(table: IcebergTable) -> bool:
    """Return whether Iceberg 1.12 could not plan the table `files` without the column.

    It gives a field's id to another column once the field's own column is dropped, if the table has
    other partition fields, now or before.
    """
    # Spark may have cached this table as it was before its fields changed.
    table.refresh()
    found = table.spark.table(f"{table.sql}.partitions")
    fields = found.select("partition.*").columns if "partition" in found.columns else []
    return CHANNEL in fields and len(fields) > 1


def _disown(spec: TableSpec, registry: Registry, tables: Sequence[IcebergTable]) -> None:
    """Take away whose the tables are: from here on every job refuses them.

    Raises
    ------
    UnderWayError : a run has begun to move rows meanwhile, and needs the tables; they stay as they
        were
    """
    owned = [t for t in tables if t.properties().get(TABLE_PROPERTY) == spec.table]
    for table in owned:
        table.alter(f"UNSET TBLPROPERTIES ('{TABLE_PROPERTY}')")
        crash_point("unowned")
    try:
        # It writes down that it moves rows, then looks whose the tables are.
        check_no_run_moves(spec, registry)
    except UnderWayError:
        for table in owned:
            table.set_properties({TABLE_PROPERTY: spec.table})
        raise


def _release(name: str, table: IcebergTable, drop_columns: bool) -> None:
    """Release one table. Each step looks whether it is done."""
    properties = table.properties()
    table.drop_branches()
    # Without that property the columns are the team's own.
    columns = our_columns(table.schema())
    if drop_columns and BEFORE_PROPERTY in properties and columns not in ([], [CHANNEL]):
        if CHANNEL in columns and CHANNEL in table.partitions():
            table.alter(f"DROP PARTITION FIELD {CHANNEL}")
        crash_point("unpartitioned")
        if CHANNEL in columns and _files_need_channel(table):
            table.alter(f"ALTER COLUMN {CHANNEL} DROP NOT NULL")
            columns.remove(CHANNEL)
            say(f"{name}: {CHANNEL} stays, optional: without it Iceberg could not list files")
        table.alter(f"DROP COLUMNS ({', '.join(map(quoted, columns))})")
    crash_point("dropped")
    kept = json.loads(properties.get(BEFORE_PROPERTY, "{}")).get("properties", {})
    # A value that the team has set since stays.
    ours = {n: v for n, v in kept.items() if properties.get(n) == UPDATES_WELL.get(n)}
    back = {n: v for n, v in ours.items() if v is not None}
    gone = [n for n, v in ours.items() if v is None and n in properties]
    gone += [n for n in properties if n.startswith(OUR_PROPERTIES) and n != TABLE_PROPERTY]
    # A later adoption, or release, finds that the columns are ours.
    if stays := CHANNEL in our_columns(table.schema()) and BEFORE_PROPERTY in properties:
        gone = [n for n in gone if n != BEFORE_PROPERTY]
    if back:
        table.set_properties(back)
    if gone:
        listed = ", ".join(f"'{n}'" for n in gone)
        table.alter(f"UNSET TBLPROPERTIES ({listed})")
    if stays:
        # Last: what it notes is brought back by then.
        table.set_properties({BEFORE_PROPERTY: json.dumps({"properties": {}})})
    say(f"{name}: released")
    if not drop_columns:
        say(f"{name}: {SLOT}_N and {CHANNEL} stay; --drop-columns takes them out")
