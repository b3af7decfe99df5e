"""Merges: how a column of state is made from events, and how partial values of it become one.

Spark SQL as text, one entry a merge; `own_merges` adds a deployment's. Each is commutative and
associative, so that partials may meet in any order and grouping, and a null is no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_INEXACT = frozenset({"float", "double"})
_NUMBERS = _WHOLE | _INEXACT | {"decimal"}
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
#: What Spark's sketches take.
_SKETCHED = frozenset({"int", "bigint", "string", "binary"})
#: Floats are none: neither NaN nor -0.0 equals what it seems to.
_MEMBERS = _WHOLE | _MOMENTS | {"decimal", "string", "binary", "boolean"}
#: Types without an order, and those that hold them: of intervals, those that mix months and days.
#: Strings whose collation takes different strings for equal have none either: which of them is the
#: greatest would depend on which came first.
_UNORDERED = re.compile(
    r"map<|variant|geometry|geography|collate|interval(?! (year|month|day|hour|minute|second))"
)
#: What every error says that the SQL of a merge raises.
RAISED = "evenkeel cannot merge"
#: Digits of Spark's widest decimal. Sums with all of them lose digits after the point beyond 6.
_DIGITS, _KEPT = 38, 6
#: Digits after the point beyond which a sum would have none before it.
_MOST_SCALE = 36
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class Pair(Protocol):
    """SQL value that two partials become, by their SQL and the type of the column."""

    def __call__(self, a: str, b: str, kind: str = "") -> str:
        """Write the SQL; `kind` is Spark's simple name of the type, "" for any but decimals."""


@dataclass(frozen=True)
class Merge:
    """One way to merge.

    Parameters
    ----------
    fold : SQL aggregate of events, by the SQL of the column and of the time column
    pair : SQL value that two partials become, by their SQL, of which either may be null, and the
        type of the column
    every : SQL aggregate of partials, by the SQL of the state column
    content : SQL that is equal for equal contents, by the SQL of a merged value: bytes of a sketch
        may differ by how it came about
    width : SQL for the bytes of a value, by the SQL of the state column; None: like any other's
    types : names of the types, without parameters, that its column may have; None: any with an
        order
    told : the same in words
    copied : every owner of a split key has a copy of the value, not a part of it
    bare : `pair` of two partials that are not null; None: as `pair`
    adds : whether it adds numbers, of which decimals need a digit before the point
    """

    fold: Callable[[str, str], str]
    pair: Pair
    every: Callable[[str], str]
    content: Callable[[str], str] = "{}".format
    width: Callable[[str], str] | None = None
    types: frozenset[str] | None = None
    told: str = "a type that has an order"
    copied: bool = False
    bare: Callable[[str, str], str] | None = None
    adds: bool = False

    def takes(self, kind: str) -> bool:
        """Whether its column may be of a type, by Spark's simple name of it."""
        if self.types is None:
            return _UNORDERED.search(kind) is None
        found = _DECIMAL.fullmatch(kind)
        if self.adds and found is not None and int(found[2]) > _MOST_SCALE:
            return False
        return kind.partition("(")[0] in self.types


def raising(what: str) -> str:
    """SQL that fails with an error which begins with RAISED."""
    text = f"{RAISED}: {what}".replace("\\", "\\\\").replace("'", "\\'")
    return f"raise_error('{text}')"


def of_both(value: str, a: str, b: str, why: str) -> str:
    """SQL for `value`, made of two partials; of one that is null the other; an error where the
    value is null though neither is."""
    otherwise = f"IF({a} IS NULL OR {b} IS NULL, coalesce({a}, {b}), {raising(why)})"
    return f"coalesce({value}, {otherwise})"


def _some(value: str) -> Pair:
    """`value`, a SQL template of two partials, where one may be null."""
    return lambda a, b, kind="": f"coalesce({value.format(a, b)}, {a}, {b})"


def _added(a: str, b: str, kind: str = "") -> str:
    """SQL for the exact sum of two partials, or an error, whatever the session's settings."""
    value = f"try_add({a}, {b})"
    if (found := _DECIMAL.fullmatch(kind)) is not None:
        digits, scale = map(int, found.groups())
        if digits == _DIGITS and scale > _KEPT:
            # By its own rules Spark would round the sum to make room for one more digit in front.
            one, other = (f"try_cast({x} AS DECIMAL({_DIGITS - 1},{scale}))" for x in (a, b))
            value = f"try_add({one}, {other})"
        value = f"try_cast({value} AS {kind})"
    return of_both(value, a, b, f"{a} + {b} is more than its type holds")


def _total(values: str) -> str:
    """SQL aggregate for the exact sum, or an error, whatever the session's settings."""
    more = raising(f"the sum of {values} is more than its type holds")
    return f"IF(count({values}) > 0 AND try_sum({values}) IS NULL, {more}, try_sum({values}))"


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


_ADDABLE = f"a number, of decimals one with at most {_MOST_SCALE} digits after the point"


def _greatest(a: str, b: str, kind: str = "") -> str:
    return f"greatest({a}, {b})"


MERGES: dict[str, Merge] = {
    "count": Merge(lambda of, by: "count(1)", _added, _total),
    "sum": Merge(
        lambda of, by: _total(of), _added, _total, types=_NUMBERS, told=_ADDABLE, adds=True
    ),
    "min": Merge(
        lambda of, by: f"min({of})", lambda a, b, kind="": f"least({a}, {b})", "min({})".format
    ),
    "max": Merge(lambda of, by: f"max({of})", _greatest, "max({})".format),
    # Of equal times the greatest value: which came first nobody can tell.
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
        told="a string, binary, boolean, date, timestamp, decimal or whole number",
    ),
    "hll": _sketch("hll"),
    "theta": _sketch("theta"),
    # One value a key, which never changes; of several the greatest, so that all owners agree.
    "copy": Merge(lambda of, by: f"max({of})", _greatest, "max({})".format, copied=True),
}
#: Merges whose state has the type's own rounding: sums of these in another order differ.
INEXACT = _INEXACT
#: Types by which a value may be the last.
TIMES = _MOMENTS | _WHOLE
