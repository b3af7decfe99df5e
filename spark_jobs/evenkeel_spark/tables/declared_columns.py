"""The columns that a state table was made with, by its properties, on Delta and on Iceberg."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from evenkeel.registry.state_view import COLUMNS_PROPERTY, check_merges, goes_by, noted_merge
from evenkeel.spec.parts import StateTable
from partitioning.errors import InputError

#: Table property that is true while `evolve` adds columns: no window may write then.
ADDING_PROPERTY = "evenkeel.adding"
#: Property of each adopted table: rows a key, as in the spec.
ROWS_PROPERTY = "evenkeel.rows"
_FIX = (
    "Set it back; or run `evenkeel evolve TABLE`, which changes the tables (--dry-run: says what "
    "it would do)"
)


def declared(state: StateTable) -> str:
    """Return the value of `COLUMNS_PROPERTY` for a table of the spec."""
    return json.dumps({n: noted_merge(c.merge) for n, c in state.columns.items()}, sort_keys=True)


def is_declared(state: StateTable, properties: Mapping[str, str]) -> bool:
    """Return whether a table has the columns of the spec, and no others, as far as it tells."""
    made = json.loads(properties.get(COLUMNS_PROPERTY, declared(state)))
    columns = {name: column.merge for name, column in state.columns.items()}
    return made.keys() == columns.keys() and all(goes_by(made[n], m) for n, m in columns.items())


def check_made_from_events(properties: Mapping[str, str], where: str) -> None:
    """Refuse a table that was adopted, where the spec has columns that Evenkeel makes.

    Parameters
    ----------
    properties : of the table
    where : the table, for errors

    Raises
    ------
    InputError : advises what the spec has to say
    """
    if ROWS_PROPERTY in properties:
        raise InputError(
            f"expected state that Evenkeel made from events, found a table adopted with "
            f"rows: {properties[ROWS_PROPERTY]}",
            where,
            f"Set rows: {properties[ROWS_PROPERTY]} in place of columns in the spec",
        )


def check_none_added(properties: Mapping[str, str], where: str) -> None:
    """Refuse a table to which `evolve` has begun to add columns, and has not ended.

    A window by the old spec would count as applied, and a new column would lack it for ever.

    Parameters
    ----------
    properties : of the table
    where : the table, for errors

    Raises
    ------
    InputError : advises to run it again
    """
    if properties.get(ADDING_PROPERTY) == "true":
        raise InputError(
            "evolve has begun to add columns, and has not ended",
            where,
            "Run `evenkeel evolve TABLE` again, with the same spec and options; or with the spec "
            "as it was before, which gives the change up",
        )


def check_columns(
    name: str,
    state: StateTable,
    properties: Mapping[str, str],
    stored: Collection[str],
    added: bool = False,
) -> None:
    """Refuse a spec whose state columns differ from those that the table was made with.

    Old values would be merged with new ones of another meaning.

    Parameters
    ----------
    name : of the state table, in the spec
    state : its part of the spec
    properties : of the table. A table of an early version lacks the property, and is
        compared by the names of its columns alone
    stored : names of all columns of the table
    added : allow columns of the spec that the table was not made with, and has by now

    Raises
    ------
    InputError : names the first column that differs, what it was, and what it is
    """
    where = f"{name} ({state.path})"
    check_made_from_events(properties, where)
    if not added:
        check_none_added(properties, where)
    check_merges(name, state, properties)
    kept = properties.get(COLUMNS_PROPERTY)
    made: dict[str, str | None] = dict.fromkeys(stored) if kept is None else json.loads(kept)
    for column, asked in state.columns.items():
        if column not in made and not (added and (column in stored or kept is None)):
            raise InputError(
                f"there is no state column {column!r}, which the spec makes by {asked.merge}; "
                f"it was made with {', '.join(made)}",
                where,
                _FIX,
            )
    if kept is not None and (gone := [c for c in made if c not in state.columns]):
        raise InputError(
            f"column {gone[0]!r} was made by merge {made[gone[0]]}, the spec has no such column",
            where,
            _FIX,
        )
