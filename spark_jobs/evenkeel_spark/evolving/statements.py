"""The statements that bring the columns of one state table to what its spec says.

The table's property with the merges is set last. So a change that was broken off is still one:
column by column, the table says how far it has come. While a column is added, no window writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel_spark.evolving.columns import TableColumns
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY, inputs_text
from evenkeel_spark.tables.declared_columns import ADDING_PROPERTY, declared
from evenkeel_spark.tables.delta.state import properties_sql

#: Delta's property for columns that are renamed or dropped without a rewrite. `evolve` sets it
#: before it does either.
_MAPPING = "delta.columnMapping.mode"
_MAPPED = ("name", "id")
#: Delta's property for columns that get a wider type without a rewrite. `evolve` sets it
#: before it does that.
_WIDENING = "delta.enableTypeWidening"


def statements(table: TableColumns) -> list[str]:
    """List the rest of the statements `ALTER TABLE ...` that are left to be made, in order.

    Raises
    ------
    InputError : as `changes` of the columns does
    """
    changes = table.changes()
    wanted = [sql for change in changes for sql in change.sql]
    enabling = dict(_enabling(table, wanted))
    found = [f"SET TBLPROPERTIES {properties_sql({n: v})}" for n, v in enabling.items()] + wanted
    now = {
        COLUMNS_PROPERTY: declared(table.spec.state[table.name]),
        INPUTS_PROPERTY: inputs_text(table.spec, table.name, table.types),
    }
    if ADDING_PROPERTY in (*table.properties, *enabling):
        now[ADDING_PROPERTY] = "false"
    if changes and any(table.properties.get(name) != value for name, value in now.items()):
        found.append(f"SET TBLPROPERTIES {properties_sql(now)}")
    return found


def _enabling(table: TableColumns, wanted: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the properties to set before the statements."""
    adds = any(sql.startswith("ADD") for sql in wanted)
    if adds and table.properties.get(ADDING_PROPERTY) != "true":
        yield ADDING_PROPERTY, "true"
    moved = any(sql.startswith(("RENAME", "DROP")) for sql in wanted)
    if moved and table.properties.get(_MAPPING) not in _MAPPED:
        yield _MAPPING, "name"
    widened = any(sql.startswith("ALTER COLUMN") for sql in wanted)
    if widened and table.properties.get(_WIDENING) != "true":
        yield _WIDENING, "true"
