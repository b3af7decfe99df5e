"""What a state table was made to hold: kept as a property of it, and compared with the spec."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from evenkeel.spec_parts import StateTable
from partitioning.errors import InputError

#: Merge of each state column, as JSON.
COLUMNS_PROPERTY = "evenkeel.columns"
_FIX = (
    "State columns are fixed at bootstrap: set it back, or bootstrap into another path and registry"
)


def declared(state: StateTable) -> str:
    """Value of `COLUMNS_PROPERTY` for a table of the spec."""
    return json.dumps({n: c.merge for n, c in state.columns.items()}, sort_keys=True)


def check_columns(
    name: str, state: StateTable, properties: Mapping[str, str], stored: Collection[str]
) -> None:
    """Refuse a spec whose state columns are not those that the table was made with: old values
    would be merged with new ones of another meaning.

    Parameters
    ----------
    name : of the state table, in the spec
    properties : of the Delta table; one made before the property was kept is known by its column
        names alone
    stored : names of all columns of the Delta table

    Raises
    ------
    InputError : names the first column that differs, what it was, and what it is
    """
    where = f"{name} ({state.path})"
    kept = properties.get(COLUMNS_PROPERTY)
    made: dict[str, str | None] = dict.fromkeys(stored) if kept is None else json.loads(kept)
    for column, asked in state.columns.items():
        if column not in made:
            raise InputError(
                f"there is no state column {column!r}, which the spec makes by {asked.merge}; "
                f"it was made with {', '.join(made)}",
                where,
                _FIX,
            )
        if (was := made[column]) is not None and was != asked.merge:
            raise InputError(
                f"column {column!r} was made by merge {was}, the spec says {asked.merge}",
                where,
                _FIX,
            )
    if kept is not None and (gone := [c for c in made if c not in state.columns]):
        raise InputError(
            f"column {gone[0]!r} was made by merge {made[gone[0]]}, the spec has no such column",
            where,
            _FIX,
        )
