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
