"""Merges: how a column of state is made from events, and how partial values of it become one.

Spark SQL as text, one entry a merge; `own_merges` adds a deployment's. Each is commutative and
associative, so that partials may meet in any order and grouping, and a null is no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_INEXACT = frozenset({"float", "double"})
_NUMBERS = _WHOLE | _INEXACT | {"decimal"}
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
#: What Spark's sketches take.
_SKETCHED = frozenset({"int", "bigint", "string", "binary"})
#: Floats are none: neither NaN nor -0.0 equals what it seems to.
_MEMBERS = _WHOLE | _MOMENTS | {"decimal", "string", "binary", "boolean"}
#: Types without an order, and those that hold them.
_UNORDERED = ("map<", "variant", "geometry", "geography")


@dataclass(frozen=True)
class Merge:
    """One way to merge.

    Parameters
    ----------
    fold : SQL aggregate of events, by the SQL of the column and of the time column
    pair : SQL value that two partials become, by their SQL, of which either may be null
    every : SQL aggregate of partials, by the SQL of the state column
    content : SQL that is equal for equal contents, by the SQL of a merged value: bytes of a sketch
        may differ by how it came about
    width : SQL for the bytes of a value, by the SQL of the state column; None: like any other's
    types : names of the types, without parameters, that its column may have; None: any with an
        order
    told : the same in words
    copied : every owner of a split key has a copy of the value, not a part of it
    """

    fold: Callable[[str, str], str]
    pair: Callable[[str, str], str]
    every: Callable[[str], str]
    content: Callable[[str], str] = "{}".format
    width: Callable[[str], str] | None = None
    types: frozenset[str] | None = None
    told: str = "a type that has an order"
    copied: bool = False

    def takes(self, kind: str) -> bool:
        """Whether its column may be of a type, by Spark's simple name of it."""
        if self.types is None:
            return not any(u in kind for u in _UNORDERED) and kind != "interval"
        return kind.partition("(")[0] in self.types


def _some(value: str) -> Callable[[str, str], str]:
    """`value`, a SQL template of two partials, where one may be null."""
    return lambda a, b: f"coalesce({value.format(a, b)}, {a}, {b})"


def _sketch(name: str) -> Merge:
    """One of Spark's sketches of distinct values."""
    return Merge(
        lambda of, by: f"{name}_sketch_agg({of})",
        _some(f"{name}_union({{}}, {{}})"),
        f"{name}_union_agg({{}})".format,
        f"{name}_sketch_estimate({{}})".format,
        width="octet_length({})".format,
        types=_SKETCHED,
        told="a string, binary, int or bigint",
    )


_ADDED = _some("{0} + {1}")
_LATER: Callable[[str, str], str] = "greatest({}, {})".format

MERGES: dict[str, Merge] = {
    "count": Merge(lambda of, by: "count(1)", _ADDED, "sum({})".format),
    "sum": Merge(
        lambda of, by: f"sum({of})", _ADDED, "sum({})".format, types=_NUMBERS, told="a number"
    ),
    "min": Merge(lambda of, by: f"min({of})", "least({}, {})".format, "min({})".format),
    "max": Merge(lambda of, by: f"max({of})", _LATER, "max({})".format),
    # Of equal times the greatest value: which came first nobody can tell.
    "last": Merge(
        lambda of, by: (
            f"max(IF({by} IS NULL OR {of} IS NULL, NULL, struct({by} AS at, {of} AS value)))"
        ),
        _LATER,
        "max({})".format,
    ),
    "set": Merge(
        lambda of, by: f"array_sort(collect_set({of}))",
        _some("array_sort(array_union({}, {}))"),
        lambda x: f"array_sort(array_distinct(flatten(collect_list({x}))))",
        width="octet_length(CAST({} AS STRING))".format,
        types=_MEMBERS,
        told="a string, binary, boolean, date, timestamp, decimal or whole number",
    ),
    "hll": _sketch("hll"),
    "theta": _sketch("theta"),
    # One value a key, which never changes; of several the greatest, so that all owners agree.
    "copy": Merge(lambda of, by: f"max({of})", _LATER, "max({})".format, copied=True),
}
#: Merges whose state has the type's own rounding: sums of these in another order differ.
INEXACT = _INEXACT
#: Types by which a value may be the last.
TIMES = _MOMENTS | _WHOLE
