"""The statements that bring the columns of one state table to what its spec says.

The table's property with the merges is set last. So a change that was broken off is still one:
column by column, the table says how far it has come. While a column is added, no window writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from evenkeel.registry.state_view import sql_type
from evenkeel_spark.evolving.columns import TableColumns
from evenkeel_spark.tables.declared_columns import ADDING_PROPERTY
from evenkeel_spark.tables.schema_edits import (
    ELEMENT,
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaEdit,
)
from evenkeel_spark.tables.table_properties import properties_sql
from partitioning.function.sql import quoted

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
    wanted = [_sql(edit) for change in changes for edit in change.edits]
    enabling = dict(_enabling(table, wanted))
    found = [f"SET TBLPROPERTIES {properties_sql({n: v})}" for n, v in enabling.items()] + wanted
    now = table.wanted_properties()
    if ADDING_PROPERTY in (*table.properties, *enabling):
        now[ADDING_PROPERTY] = "false"
    if changes and any(table.properties.get(name) != value for name, value in now.items()):
        found.append(f"SET TBLPROPERTIES {properties_sql(now)}")
    return found


def _sql(edit: SchemaEdit) -> str:
    """Write the rest of a statement `ALTER TABLE ...`."""
    if isinstance(edit, RenameColumn):
        return f"RENAME COLUMN {quoted(edit.name)} TO {quoted(edit.new)}"
    if isinstance(edit, DropColumn):
        return f"DROP COLUMN {quoted(edit.name)}"
    if isinstance(edit, AddColumn):
        return f"ADD COLUMNS ({quoted(edit.name)} {sql_type(edit.kind)})"
    at = ".".join(part if part == ELEMENT else quoted(part) for part in edit.path)
    return f"ALTER COLUMN {at} TYPE {edit.kind.simpleString()}"


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
