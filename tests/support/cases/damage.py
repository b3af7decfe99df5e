"""Values and bytes that are damaged at random."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from tests.support import airflow_env  # noqa: F401 - before plugins import Airflow

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "../../etc/passwd", "inf", "9" * 400, "s3://x", "dest", "\x00", "1e999"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything inside of a JSON value."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:3])
        if isinstance(value, list)
        else ()
    )
    return [where, *(p for k, v in inside for p in places(v, (*where, k)))]


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """The value with one to three places in it replaced, removed, or doubled."""
    made = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.sampled_from(places(made)[1:] or [()]))
        if not where:
            return draw(VALUES)
        holder = made
        for part in where[:-1]:
            holder = holder[part]
        how = draw(st.sampled_from(["replace", "remove", "grow"]))
        if how == "replace":
            holder[where[-1]] = draw(VALUES)
        elif how == "remove":
            del holder[where[-1]]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[where[-1]]))
        else:
            holder[draw(st.text(max_size=6))] = draw(VALUES)
    return made


@st.composite
def torn(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes cut off, some of them replaced, or others added."""
    made = bytearray(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(made) - 1)))
        made[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
    return bytes(made)
