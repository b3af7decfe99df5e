"""Types that merges refuse, by the names that Spark gives them."""

from __future__ import annotations

import pytest

from evenkeel.spec.merges import MERGES


@pytest.mark.parametrize(
    "kind",
    [
        "string collate UTF8_LCASE",
        "array<string collate UNICODE_CI>",
        "struct<name:string collate UNICODE>",
        "map<string,int>",
        "variant",
        "interval",
    ],
)
def test_no_merge_takes_a_type_whose_order_would_choose_by_arrival(kind: str) -> None:
    """The first of two strings that a collation takes for equal would stay."""
    assert [name for name, merge in MERGES.items() if merge.takes(kind)] == []


@pytest.mark.parametrize("kind", ["interval year to month", "interval day to second", "string"])
def test_what_has_an_order_is_taken(kind: str) -> None:
    assert all(MERGES[name].takes(kind) for name in ("min", "max", "last", "copy"))
