"""Merges: how a state column is made from events, and how its partial values become one.

Each entry is Spark SQL as text. `custom_merges` adds a deployment's own. A merge is commutative
and associative, so partial values may meet in any order and grouping. A null is no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from partitioning.function.sql import string_sql

_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_INEXACT = frozenset({"float", "double"})
_NUMBERS = _WHOLE_NUMBERS | _INEXACT | {"decimal"}
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
#: Types that Spark's sketches accept.
_SKETCHED = frozenset({"int", "bigint", "string", "binary"})
#: Types that a set may hold. Floats may not: NaN and -0.0 compare in surprising ways.
_MEMBERS = _WHOLE_NUMBERS | _MOMENTS | {"decimal", "string", "binary", "boolean"}
#: Types without an order, and types that hold one. Intervals that mix months and days have none.
#: Strings with a collation that takes different strings for equal are here, too: which of them is
#: the greatest would depend on which came first.
_UNORDERED = re.compile(
    r"map<|variant|geometry|geography|collate|interval(?! (year|month|day|hour|minute|second))"
)
#: Text with which every error begins that the SQL of a merge raises.
RAISED = "evenkeel cannot merge"
#: Digits of Spark's widest decimal, and the digits after the point that a sum of these keeps.
_DIGITS, _KEPT_DIGITS = 38, 6
#: Most digits after the point of a decimal that is summed: with more, none is left before it.
_MAX_SCALE = 36
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class Pair(Protocol):
    """Writes the SQL of the value that two partial values become."""

    def __call__(self, a: str, b: str, kind: str = "") -> str:
        """Write the SQL; `kind` is Spark's simple name of the type, "" for any but decimals."""


@dataclass(frozen=True)
class Merge:
    """One way to merge.

    Parameters
    ----------
    fold : SQL aggregate of events, by the SQL of the column and of the time column
    pair : SQL of the value that two partial values become, by their SQL (either may be null) and
        the type of the column
    every : SQL aggregate of partial values, by the SQL of the state column
    content : SQL that is equal for equal contents, by the SQL of a merged value: two sketches
        with equal contents may differ in their bytes
    width : SQL of the bytes of a value, by the SQL of the state column; None: as for any column
    types : names of the types, without parameters, that its column may have; None: any with an
        order
    types_text : the same in words, for errors
    sketched : a value keeps hashes, which depend on whether the input has numbers or texts
    copied : every owner of a split key has a copy of the value, not a part of it
    bare : `pair` of two partial values that are not null; None: as `pair`
    adds : it adds numbers, so a decimal column needs one digit before the point to spare
    version : of the SQL of a merge of somebody's own, which may be edited under its name
    """

    fold: Callable[[str, str], str]
    pair: Pair
    every: Callable[[str], str]
    content: Callable[[str], str] = "{}".format
    width: Callable[[str], str] | None = None
    types: frozenset[str] | None = None
    types_text: str = "a type that has an order"
    copied: bool = False
    sketched: bool = False
    bare: Callable[[str, str], str] | None = None
    adds: bool = False
    version: str = ""

    def takes(self, kind: str) -> bool:
        """Return whether its column may have a type, given by Spark's simple name."""
        if self.types is None:
            return _UNORDERED.search(kind) is None
        found = _DECIMAL.fullmatch(kind)
        if self.adds and found is not None and int(found[2]) > _MAX_SCALE:
            return False
        return kind.partition("(")[0] in self.types


def raising(what: str) -> str:
    """Write SQL that fails with an error that begins with RAISED."""
    return f"raise_error({string_sql(f'{RAISED}: {what}')})"


def of_some(value: str, a: str, b: str) -> str:
    """Write the SQL of `value` if neither of two partial values is null, else of the other one."""
    return f"IF({a} IS NULL OR {b} IS NULL, coalesce({a}, {b}), {value})"


def _some(value: str) -> Pair:
    """Turn an SQL template of two partial values into a pair of which either may be null."""
    return lambda a, b, kind="": f"coalesce({value.format(a, b)}, {a}, {b})"


def _added(a: str, b: str, kind: str = "") -> str:
    """Write the SQL of the exact sum of two partial values, whatever the session's settings.

    The SQL fails if the type cannot hold the sum.
    """
    value = f"try_add({a}, {b})"
    if (found := _DECIMAL.fullmatch(kind)) is not None:
        digits, scale = map(int, found.groups())
        if digits == _DIGITS and scale > _KEPT_DIGITS:
            # Spark would round the sum to make room for one more digit before the point.
            one, other = (f"try_cast({x} AS DECIMAL({_DIGITS - 1},{scale}))" for x in (a, b))
            value = f"try_add({one}, {other})"
        value = f"try_cast({value} AS {kind})"
    # The sum with a null is null, so most rows need no look at which it is.
    more = raising(f"{a} + {b} is more than its type holds")
    return f"coalesce({value}, {of_some(more, a, b)})"


def _total(values: str) -> str:
    """Write the SQL aggregate of the exact sum, whatever the session's settings.

    The SQL fails if the type cannot hold the sum.
    """
    more = raising(f"the sum of {values} is more than its type holds")
    return f"IF(count({values}) > 0 AND try_sum({values}) IS NULL, {more}, try_sum({values}))"


def _sketch(name: str) -> Merge:
    """Return the merge of one of Spark's sketches of distinct values."""
    return Merge(
        lambda of, by: f"{name}_sketch_agg({of})",
        _some(f"{name}_union({{}}, {{}})"),
        f"{name}_union_agg({{}})".format,
        f"{name}_sketch_estimate({{}})".format,
        width="octet_length({})".format,
        types=_SKETCHED,
        sketched=True,
        types_text="a string, binary, int or bigint",
    )


_ADDABLE = f"a number, of decimals one with at most {_MAX_SCALE} digits after the point"


def _greatest(a: str, b: str, kind: str = "") -> str:
    return f"greatest({a}, {b})"


MERGES: dict[str, Merge] = {
    "count": Merge(lambda of, by: "count(1)", _added, _total),
    "sum": Merge(
        lambda of, by: _total(of), _added, _total, types=_NUMBERS, types_text=_ADDABLE, adds=True
    ),
    "min": Merge(
        lambda of, by: f"min({of})", lambda a, b, kind="": f"least({a}, {b})", "min({})".format
    ),
    "max": Merge(lambda of, by: f"max({of})", _greatest, "max({})".format),
    # At equal times take the greatest value: nothing tells which came first.
    "last": Merge(
        lambda of, by: (
            f"max(IF({by} IS NULL OR {of} IS NULL, NULL, struct({by} AS at, {of} AS value)))"
        ),
        _greatest,
        "max({})".format,
    ),
    "set": Merge(
        lambda of, by: f"array_sort(collect_set({of}))",
        _some("array_sort(array_union({}, {}))"),
        lambda x: f"array_sort(array_distinct(flatten(collect_list({x}))))",
        width="octet_length(CAST({} AS STRING))".format,
        types=_MEMBERS,
        types_text="a string, binary, boolean, date, timestamp, decimal or whole number",
    ),
    "hll": _sketch("hll"),
    "theta": _sketch("theta"),
    # A key has one value that never changes. Take the greatest, so that all owners agree.
    "copy": Merge(lambda of, by: f"max({of})", _greatest, "max({})".format, copied=True),
}
#: Types that round: sums of their values in another order differ.
INEXACT = _INEXACT
#: Types of a column that orders values for `last`.
TIMES = _MOMENTS | _WHOLE_NUMBERS
