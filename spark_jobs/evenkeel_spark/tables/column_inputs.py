"""Inputs of each state column: a table notes them, so that its values keep their meaning."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from evenkeel.spec.custom_merges import merges
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.declared_columns import check_none_added, is_declared
from partitioning.errors import FenceError, InputError

#: Table property with the input columns of each state column, as JSON; for sketches, what they
#: hash. Tables of earlier versions get it with the next window.
INPUTS_PROPERTY = "evenkeel.inputs"
#: Types that a sketch hashes alike.
_HASHES = {"int": "numbers", "bigint": "numbers", "string": "texts", "binary": "texts"}


def made_of(
    spec: TableSpec, name: str, types: Mapping[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """Return what each column of a state table is made of: `of`, `by` and `hashes`.

    Parameters
    ----------
    types : Spark's simple name of the type of each input column; None: leave `hashes` out
    """
    found = {}
    for column, how in spec.state[name].columns.items():
        facts = {"of": how.of, "by": spec.last_by(how) if how.merge == "last" else None}
        if types is not None and how.of is not None and merges()[how.merge].sketched:
            facts["hashes"] = _HASHES.get(types[how.of], types[how.of])
        found[column] = {fact: value for fact, value in facts.items() if value is not None}
    return found


def inputs_text(spec: TableSpec, name: str, types: Mapping[str, str]) -> str:
    """Return the value of `INPUTS_PROPERTY` for a state table of the spec."""
    return json.dumps(made_of(spec, name, types), sort_keys=True)


def kept_inputs(properties: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Read it from the properties of a table; none: an earlier version made the table."""
    return dict(json.loads(properties.get(INPUTS_PROPERTY, "{}")))


def same_inputs(was: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether a column is made of the same input columns, whatever their types."""
    return all(was.get(fact) == now.get(fact) for fact in ("of", "by"))


def inputs_words(facts: Mapping[str, str]) -> str:
    """Return what a column is made of, as people read it."""
    return " by ".join(facts[fact] for fact in ("of", "by") if fact in facts) or "no column"


def check_hashes(where: str, column: str, was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse a sketch of an input whose values have other hashes by now.

    Raises
    ------
    InputError : names the column
    """
    old, new = was.get("hashes"), now.get("hashes")
    if None not in (old, new) and old != new:
        raise InputError(
            f"column {column!r} has hashes of {old}, the input has {new} by now: each value would "
            "count a second time",
            where,
            "Convert the input back. Or give the new column another name in the spec, and drop the "
            f"old one with `evenkeel evolve TABLE --drop STATE.{column}`",
        )


def check_made_of(
    spec: TableSpec,
    name: str,
    properties: Mapping[str, str],
    types: Mapping[str, str] | None = None,
    same: Collection[str] = (),
) -> None:
    """Refuse a spec that makes a state column of other input columns than the table was made of.

    Parameters
    ----------
    properties : of the table
    types : as in `made_of`; None: do not look at what sketches hash
    same : TABLE.COLUMN of which a person says that its inputs only have other names by now

    Raises
    ------
    InputError : names the first column that differs, what it was made of, and what the spec says
    """
    where, kept = f"{name} ({spec.state[name].path})", kept_inputs(properties)
    for column, now in made_of(spec, name, types).items():
        was = kept.get(column, now)
        check_hashes(where, column, was, now)
        if not same_inputs(was, now) and f"{name}.{column}" not in same:
            raise other_inputs(spec, name, column, was, now)


def check_unchanged_columns(spec: TableSpec, name: str, properties: Mapping[str, str]) -> None:
    """Refuse a table whose columns were changed since a window began, to those of another spec.

    The window would count as applied, and a column that is new would lack it for ever.

    Parameters
    ----------
    properties : of the table, as it is when the window has read what it is merged into

    Raises
    ------
    InputError : columns are being added
    FenceError : it is so
    """
    part, where = spec.state[name], f"{name} ({spec.state[name].path})"
    check_none_added(properties, where)
    kept, now = kept_inputs(properties), made_of(spec, name)
    same = is_declared(part, properties)
    if part.columns and not (same and all(same_inputs(kept.get(c, now[c]), now[c]) for c in now)):
        raise FenceError(
            "its columns are those of another spec by now: the table was changed meanwhile",
            where,
            "Run it again by the spec of now: it counts nothing twice",
        )


def other_inputs(
    spec: TableSpec, name: str, column: str, was: Mapping[str, str], now: Mapping[str, str]
) -> InputError:
    """Return the error for a column that the spec makes of other input columns."""
    old, new = inputs_words(was), inputs_words(now)
    return InputError(
        f"column {column!r} was made of {old}, the spec says {new}: its values would be merged "
        "with ones of another meaning",
        f"{name} ({spec.state[name].path})",
        "Set it back. If the input column has only another name by now, run `evenkeel evolve "
        f"{spec.table} --same {name}.{column}`. Else give the new column another name, and drop "
        "the old one with --drop",
    )
