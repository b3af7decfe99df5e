"""Table properties of Evenkeel that both formats have."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel.table import Table
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY, inputs_text
from evenkeel_spark.tables.declared_columns import declared
from partitioning.function.sql import string_sql

#: Table property with the name of the spec.
TABLE_PROPERTY = "evenkeel.table"
#: Property of an Iceberg table whose adoption has begun: the name of the spec.
ADOPTING_PROPERTY = "evenkeel.adopting"
#: Table property with the registry at the time when the table was made. It may have moved since.
REGISTRY_PROPERTY = "evenkeel.registry"
#: Table property with the number of slots that rows know, which never changes.
SLOTS_PROPERTY = "evenkeel.slots"
#: Table property with digests of how a bootstrap made the table, and of what events. Another
#: bootstrap must not complete it.
MADE_PROPERTY = "evenkeel.bootstrap"
#: Table property with the properties and columns that a table had before its adoption, as JSON.
BEFORE_PROPERTY = "evenkeel.before"


def owner_properties(table: Table, slots: int) -> dict[str, str]:
    """Return the properties that say whose a state table is, and where its rows belong.

    Parameters
    ----------
    table : its spec and registry
    slots : that its rows know
    """
    return {
        TABLE_PROPERTY: table.spec.table,
        SLOTS_PROPERTY: str(slots),
        REGISTRY_PROPERTY: table.registry.url,
    }


def made_properties(
    table: Table, name: str, types: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the properties of Evenkeel with which a state table is made.

    Parameters
    ----------
    table : its spec and registry
    name : of the state table, in the spec
    types : Spark's simple name of the type of each input column; None: leave out the property
        that depends on them
    """
    spec = table.spec
    # A table that joins has the slots that rows of the others know.
    slots = table.epoch().function.row_slots if table.registry.numbers() else spec.slots
    inputs = {} if types is None else {INPUTS_PROPERTY: inputs_text(spec, name, types)}
    columns = {COLUMNS_PROPERTY: declared(spec.state[name])}
    return {**inputs, **owner_properties(table, slots), **columns}


def properties_sql(wanted: Mapping[str, str]) -> str:
    """Return table properties as `SET TBLPROPERTIES` takes them."""
    pairs = (f"{string_sql(name)} = {string_sql(value)}" for name, value in wanted.items())
    return f"({', '.join(pairs)})"
