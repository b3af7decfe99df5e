"""Checks of a spec's Iceberg tables, before any is touched."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from evenkeel.registry.epochs import Registry
from evenkeel.registry.state_view import COLUMNS_PROPERTY, iceberg_name, slot_column
from evenkeel.spec.loading import check_slot_multiple
from evenkeel.spec.parts import CHANNEL
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.column_inputs import check_made_of
from evenkeel_spark.tables.declared_columns import (
    ROWS_PROPERTY,
    check_columns,
    check_made_from_events,
)
from evenkeel_spark.tables.iceberg.table import ADDED, SLOT_NAME, IcebergTable
from evenkeel_spark.tables.membership import (
    check_members,
    check_not_released,
    known_tables,
    lost_tables,
    table_in_errors,
    without_tables,
)
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.rows.comparable import incomparable
from evenkeel_spark.tables.table_properties import REGISTRY_PROPERTY, SLOTS_PROPERTY, TABLE_PROPERTY
from partitioning.errors import InputError, UnderWayError
from partitioning.function.function import PartitioningFunction

#: A move writes moved rows and deletion vectors, and no row that stays.
UPDATES_WELL = {"write.update.mode": "merge-on-read"}


def iceberg_table(spark: SparkSession, spec: TableSpec, name: str) -> IcebergTable:
    """Return one state table, as it is now.

    Raises
    ------
    SetupError, InputError : as for `IcebergTable.refresh`
    """
    found = IcebergTable(spark, spec.state[name].path)
    found.refresh()
    return found


def adopted_tables(
    spark: SparkSession, spec: TableSpec, *, members: bool = True, lost: Collection[str] = ()
) -> dict[str, IcebergTable]:
    """Return the spec's tables by name; all must be adopted, as the spec has them.

    Parameters
    ----------
    members : they must be those that the registry knows. A run is given up without: tables may
        have joined or left since it began
    lost : names of tables that may be missing, and are left out

    Raises
    ------
    InputError : names the table that is missing, not adopted, of another spec, or changed since
    """
    if members:
        check_members(spec, lambda path: owner_of(IcebergTable(spark, path)))
    found = {}
    for name, part in without_tables(spec, lost).state.items():
        table = found[name] = iceberg_table(spark, spec, name)
        properties = check_adopted(spec, name, table)
        if not part.plain:
            check_columns(name, part, properties, table.schema().names)
            check_made_of(spec, name, properties)
    return found


def lost_icebergs(spark: SparkSession, spec: TableSpec) -> list[str]:
    """Return the names of tables that are gone, and that the others can go without."""
    return lost_tables(spec, lambda path: IcebergTable(spark, path).exists())


def check_adopted(spec: TableSpec, name: str, table: IcebergTable) -> dict[str, str]:
    """Return the properties of a table, which must be the spec's, whatever its state columns.

    Raises
    ------
    InputError : it is not adopted, or in another way; or lacks a column by which rows are placed
    """
    part, where = spec.state[name], table_in_errors(spec, name)
    properties = table.properties()
    if (owner := properties.get(TABLE_PROPERTY)) is None:
        if part.plain:
            check_not_released(spec, name)
            raise InputError("is not adopted", where, f"Run `evenkeel adopt {spec.table}`")
        if known_tables(Registry(spec.registry)).get(name) == table.name:
            raise InputError(
                "has lost the properties of Evenkeel: it was let go, or brought back to before it "
                "was made",
                where,
                "Bring back the registry or the table that goes with the other; or take it out of "
                f"the spec, and run `evenkeel evolve {spec.table} --drop {name}`",
            )
        raise InputError(
            "expected state that bootstrap has made, found another table",
            where,
            "Correct the path in the spec",
        )
    if owner != spec.table:
        raise InputError(
            f"is adopted as a table of {owner!r}",
            where,
            "Release it there, or correct the spec",
        )
    check_registry(spec, name, properties)
    if not part.plain:
        check_made_from_events(properties, where)
    elif COLUMNS_PROPERTY in properties:
        raise InputError(
            "expected a table of the team, found state that Evenkeel made from events",
            where,
            "Give its columns in the spec",
        )
    if (rows := properties.get(ROWS_PROPERTY)) != part.rows:
        raise InputError(
            f"is adopted with rows: {rows}, the spec says rows: {part.rows}",
            where,
            "Set it back; or release the table, and adopt it again",
        )
    check_slot_multiple(spec, properties.get(SLOTS_PROPERTY, "none"), where)
    _check_layout(spec, name, table)
    for problem in incomparable(table.schema(), where):
        raise problem
    return properties


def _check_layout(spec: TableSpec, name: str, table: IcebergTable) -> None:
    """Refuse a table that lacks a column or the field by which its rows are placed.

    Raises
    ------
    InputError : it does, as after createOrReplace; or two columns may be the slot's
    """
    names, where = table.schema().names, table_in_errors(spec, name)
    if missing := [c for c in spec.key if c not in names]:
        raise InputError(
            f"lacks the key column {', '.join(missing)}, found {', '.join(names)}",
            where,
            "Bring the missing one back, by its old name",
        )
    slots = [c for c in names if SLOT_NAME.fullmatch(c)]
    if len(slots) > 1:
        raise InputError(
            f"expected one column slot_N, found {', '.join(slots)}",
            where,
            "Rename the one that is not Evenkeel's",
        )
    if not slots or CHANNEL not in names or CHANNEL not in table.partitions():
        # Columns that are added by hand would be optional, and old files would not be by channel.
        again = f"Run `evenkeel release {spec.table}`, then `evenkeel adopt {spec.table}`"
        dropped = f"Take it out of the spec, and run `evenkeel evolve {spec.table} --drop {name}`"
        raise InputError(
            f"expected columns slot_N and {CHANNEL}, and partitions by {CHANNEL}; found columns "
            f"{', '.join(names)}, and partitions by {', '.join(table.partitions()) or 'nothing'}",
            where,
            again if spec.state[name].plain else dropped,
        )


def check_properties(
    spec: TableSpec, name: str, table: IcebergTable, wanted: Mapping[str, str]
) -> None:
    """Refuse a table whose writes would be slow by a property that somebody has changed.

    Parameters
    ----------
    wanted : values by property, that Evenkeel has set

    Raises
    ------
    InputError : names the property, and the statement that sets it back
    """
    properties = table.properties()
    for key, value in wanted.items():
        if (found := properties.get(key)) != value:
            raise InputError(
                f"expected {key} to be {value}, found {found}: a window or a move would write "
                "whole files again, or send all of the table's rows",
                table_in_errors(spec, name),
                f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{key}' = '{value}')",
            )


def our_columns(schema: StructType) -> list[str]:
    """List the columns that an adoption has added: a team may have others of their names."""
    names = [c.name for c in schema if c.metadata.get("comment") == ADDED]
    return [name for name in names if name == CHANNEL or SLOT_NAME.fullmatch(name)]


def check_slot_column(
    spec: TableSpec, tables: dict[str, IcebergTable], function: PartitioningFunction
) -> None:
    """Refuse tables that another epoch's writers write.

    Raises
    ------
    UnderWayError : names the table and its column
    """
    for name, table in tables.items():
        if (found := table.epoch()) != function.epoch:
            raise UnderWayError(
                f"has the column slot_{found}, expected {slot_column(function.epoch)}: a rebalance "
                "is under way, or was broken off",
                table_in_errors(spec, name),
                repair_advice(spec.table),
            )


def check_registry(spec: TableSpec, name: str, properties: Mapping[str, str]) -> None:
    """Refuse a table that another registry's epochs place.

    Raises
    ------
    InputError : names both registries
    """
    if (found := properties.get(REGISTRY_PROPERTY)) != spec.registry:
        table = iceberg_name(spec.state[name].path)
        raise InputError(
            f"is adopted with registry {found}, the spec has {spec.registry}",
            table_in_errors(spec, name),
            f"Correct the spec. If that registry has moved: ALTER TABLE {table} SET TBLPROPERTIES "
            f"('{REGISTRY_PROPERTY}' = '{spec.registry}')",
        )


def owner_of(table: IcebergTable) -> str | None:
    """Return the spec that a table is adopted by; None: by none, or there is no such table."""
    try:
        table.refresh()
    except InputError:
        return None
    return table.properties().get(TABLE_PROPERTY)
