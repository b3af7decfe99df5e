"""Checks before any table is touched: state tables fit their spec and may be written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Registry
from evenkeel.spec.loading import check_slot_multiple
from evenkeel.spec.parts import CHANNEL, SLOT, StateTable
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.column_inputs import check_made_of
from evenkeel_spark.tables.declared_columns import ROWS_PROPERTY, check_columns
from evenkeel_spark.tables.delta.state import (
    VECTORS_PROPERTY,
    check_comparable,
    check_owner,
    is_on,
    owning_spec,
    properties,
    schema,
    snapshot,
    sql_name,
    table_version,
)
from evenkeel_spark.tables.membership import (
    check_members,
    check_not_released,
    known_tables,
    refuse_missing,
    without_tables,
)
from evenkeel_spark.tables.table_properties import SLOTS_PROPERTY, TABLE_PROPERTY
from partitioning.errors import InputError


def check_tables(
    spark: SparkSession, spec: TableSpec, added: bool = False, lost: Collection[str] = ()
) -> None:
    """Refuse state tables that are missing, not this spec's, or do not fit it.

    They must have the spec's columns, and all must have the same number of slots. None that the
    current epoch has may be left out of the spec.

    Parameters
    ----------
    added : let the spec name a column that somebody has added to the table since bootstrap, and a
        team's table have other partitions
    lost : names of tables that may be missing, and are left out

    Raises
    ------
    InputError : names the folder, or both folders if two tables disagree
    """
    check_members(spec, partial(owning_spec, spark))
    spec = without_tables(spec, lost)
    found = {name: check_ours(spark, spec, name) for name in spec.state}
    check_slot_count(spec, found)
    check_comparable(spark, spec)
    for name, state in spec.state.items():
        metadata = snapshot(spark, state.path).metadata()
        stored = metadata.schema().fieldNames()
        if state.plain:
            _check_adopted(name, state, found[name], spec.key, list(stored))
            if not added:
                _check_partitions(name, state, list(metadata.partitionSchema().fieldNames()))
        else:
            check_columns(name, state, found[name], list(stored), added)
            check_made_of(spec, name, found[name])
        if not is_on(found[name], VECTORS_PROPERTY):
            raise InputError(
                "its deletion vectors are off: a move would rewrite whole files",
                f"{name} ({state.path})",
                f"ALTER TABLE {sql_name(state.path)} SET TBLPROPERTIES "
                f"('{VECTORS_PROPERTY}' = 'true')",
            )


def check_slot_count(spec: TableSpec, found: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse state tables whose rows know no equal number of slots, or none that the spec splits.

    Parameters
    ----------
    found : properties of each state table, by its name in the spec

    Raises
    ------
    InputError : names the folder, or all folders if tables disagree
    """
    slots = {
        f"{name} ({spec.state[name].path})": those.get(SLOTS_PROPERTY, "none")
        for name, those in found.items()
    }
    if len(set(slots.values())) > 1:
        said = ", ".join(f"{place} {count}" for place, count in slots.items())
        raise InputError(
            f"state tables disagree on the number of slots: {said}",
            f"state of {spec.table}",
            "The number that rows know never changes: bootstrap the odd one again from its input",
        )
    for place, made in slots.items():
        check_slot_multiple(spec, made, place)


def check_ours(spark: SparkSession, spec: TableSpec, name: str) -> dict[str, str]:
    """Return the properties of a state table of a spec.

    Raises
    ------
    InputError : it is missing, or not this spec's. If the registry knows it, the advice brings it
        back
    """
    path = spec.state[name].path
    if table_version(spark, path) < 0:
        refuse_missing(spec, name)
    elif TABLE_PROPERTY not in properties(spark, path):
        check_not_released(spec, name)
        registry = Registry(spec.registry)
        if known_tables(registry).get(name) == path:
            raise InputError(
                f"has lost the properties of Evenkeel: it was released, or was brought back to "
                f"before Evenkeel took it (epoch {registry.current().number} knows it)",
                f"{name} ({path})",
                _take_again(spec, name, schema(spark, path).fieldNames()),
            )
    return check_owner(spark, path, spec.table)


def _take_again(spec: TableSpec, name: str, columns: Collection[str]) -> str:
    """Return the commands that bring a table without our properties under Evenkeel again."""
    part = spec.state[name]
    if {SLOT, CHANNEL} <= set(columns):
        slots = Registry(spec.registry).current().function.row_slots
        wanted = {TABLE_PROPERTY: spec.table, SLOTS_PROPERTY: str(slots)}
        if part.plain:
            wanted[ROWS_PROPERTY] = str(part.rows)
        listed = ", ".join(f"'{n}' = '{value}'" for n, value in wanted.items())
        return (
            f"ALTER TABLE {sql_name(part.path)} SET TBLPROPERTIES ({listed}), "
            f"then run `evenkeel repair {spec.table}`"
        )
    if part.plain:
        return f"Run `evenkeel adopt {spec.table}`, then `evenkeel repair {spec.table}`"
    return (
        "Find in DESCRIBE HISTORY who took its columns away, RESTORE the table to the version "
        f"before, then run `evenkeel repair {spec.table}`"
    )


def _check_adopted(
    name: str,
    state: StateTable,
    properties: Mapping[str, str],
    key: Collection[str],
    stored: Collection[str],
) -> None:
    """Refuse a team's table that was not adopted, was adopted otherwise, or lost a key column."""
    where = f"{name} ({state.path})"
    if (rows := properties.get(ROWS_PROPERTY)) != state.rows:
        raise InputError(
            f"expected a table adopted with rows: {state.rows}, found "
            + (f"rows: {rows}" if rows else "state that Evenkeel made from events"),
            where,
            f"Set rows: {rows} in the spec" if rows else "Give its columns in the spec",
        )
    if missing := [c for c in (SLOT, CHANNEL, *key) if c not in stored]:
        raise InputError(
            f"expected column {', '.join(map(repr, missing))}, found {', '.join(stored)}",
            where,
            "Find in DESCRIBE HISTORY who took it away, and bring it back",
        )


def _check_partitions(name: str, state: StateTable, found: Sequence[str]) -> None:
    """Refuse a team's table that was written again with other partitions."""
    if found != (wanted := [CHANNEL, *state.partitions]):
        raise InputError(
            f"expected partitions {', '.join(wanted)}, found {', '.join(found) or 'none'}",
            f"{name} ({state.path})",
            "Set them back, in the table or in the spec; or release the table with --drop-columns, "
            "and adopt it again",
        )
