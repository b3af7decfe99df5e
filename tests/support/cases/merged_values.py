"""Values of each type that merges take, and how Spark orders them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

#: Partials, and so windows, of each example; and examples that are merged in one Spark job.
PARTS, EXAMPLES = 4, 30
FLAGS = {"fold": "bit_or({of})", "pair": "{a} | {b}", "every": "bit_or({x})", "types": ["bigint"]}


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of which a few dozen are no more than their sum's type holds."""
    most = 10 ** min(digits, 35) - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale))


def order(value: Any) -> Any:
    """By which Spark compares: NaN is the greatest number, strings go by their UTF-8."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def last(rows: list[tuple[Any, Any]]) -> Any:
    return max(rows, key=lambda r: (r[0], order(r[1])), default=None)


FIRST_MOMENT = datetime.datetime(1970, 1, 1)
moments = st.integers(-(10**15), 10**15).map(lambda us: FIRST_MOMENT + datetime.timedelta(0, 0, us))
#: Column: its type, its values, and the merges that are tried on it.
COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any], list[str]]] = {
    "whole": ("bigint", st.integers(-(2**58), 2**58), ["sum", "min", "set", "flags", "theta"]),
    "small": ("int", st.integers(-(2**31), 2**31 - 1), ["sum", "last", "hll", "copy"]),
    "d38_18": ("decimal(38,18)", decimals(37, 18), ["sum", "max", "set"]),
    "d38_36": ("decimal(38,36)", decimals(35, 36), ["sum"]),
    "d28_18": ("decimal(28,18)", decimals(28, 18), ["sum", "last"]),
    "d38_6": ("decimal(38,6)", decimals(36, 6), ["sum"]),
    "d38_0": ("decimal(38,0)", decimals(36, 0), ["sum", "copy"]),
    "d10_2": ("decimal(10,2)", decimals(10, 2), ["sum", "min"]),
    "x": ("double", st.floats(-1e6, 1e6) | st.sampled_from([math.nan, -0.0]), ["sum", "max"]),
    "f": ("float", st.floats(width=32, allow_infinity=True), ["min", "last", "copy"]),
    "s": ("string", st.text("aAbé ß\U0001f600", max_size=3), ["max", "last", "set", "hll"]),
    "b": ("binary", st.binary(max_size=2).map(bytes), ["min", "set"]),
    "yes": ("boolean", st.booleans(), ["max", "set"]),
    "day": ("date", st.dates(), ["min", "set", "last"]),
    "zoned": (
        "timestamp",
        moments.map(lambda m: m.replace(tzinfo=datetime.UTC)),
        ["min", "last", "set"],
    ),
    "plain": ("timestamp_ntz", moments, ["max", "last", "set"]),
    "span": (
        "interval day to second",
        st.integers(-(10**15), 10**15).map(lambda us: datetime.timedelta(0, 0, us)),
        ["min", "max", "last"],
    ),
}
CASES = [(c, m) for c, (_, _, names) in COLUMNS.items() for m in names]


def same(found: Any, wanted: Any, merge: str, values: list[Any]) -> bool:
    """Return whether a merge of these values gave what it should.

    A 0 is no null and no False. Two equal zeros have one sign, unless the values have both.
    """
    if merge == "set":
        found, wanted = found or [], wanted or []
        return list(map(type, found)) == list(map(type, wanted)) and bool(found == wanted)
    if merge in ("hll", "theta"):
        # A sketch of no value is null, and so is none at all.
        return math.isclose(found or 0, wanted or 0, rel_tol=1e-9, abs_tol=1e-3)
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        pairs = zip(found, wanted, strict=True)
        return all(same(f, w, "", values) for f, w in pairs)
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, float):
        if math.isnan(wanted):
            return math.isnan(found)
        if merge == "sum":
            return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-3)
        zeros = {math.copysign(1, v) for v in values if v == 0}
        signs = len(zeros) == 2 or math.copysign(1, found) == math.copysign(1, wanted)
        return bool(found == wanted) and signs
    return bool(found == wanted)


def zeros() -> list[list[tuple[Any, ...]]]:
    """Events whose sums are 0, and whose floats are all -0.0: chance draws too few of these."""

    def event(part: int, values: dict[str, Any]) -> tuple[Any, ...]:
        return (part, part % 3, *(values.get(c) for c in COLUMNS))

    up = {"whole": 7, "small": 3, "yes": False, "s": "", "b": b"", "x": -0.0, "f": -0.0}
    down = up | {"whole": -7, "small": -3}
    for column, (kind, _, _) in COLUMNS.items():
        if kind.startswith("decimal"):
            up[column], down[column] = Decimal(5), Decimal(-5)
    nothing = {"whole": 0, "small": 0, "yes": False, "f": -0.0}
    return [[event(0, up), event(2, down)], [event(1, nothing)]]
