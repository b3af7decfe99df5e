"""Keys as typed: each form is one key, and what plans write is read as the same key."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from partitioning.errors import InputError
from partitioning.function.hashing import key_hash
from partitioning.function.key_text import key_columns, key_text

DAY = date(2013, 1, 8)
TWO = ["string", "string"]


def read(text: str, types: list[str], sure: bool = True) -> list[Any]:
    return [column.to_pylist()[0] for column in key_columns([text], types, sure)]


@pytest.mark.parametrize(
    ("text", "types", "values"),
    [
        ("EWR,ORD", TWO, ["EWR", "ORD"]),
        ("EWR | ORD", TWO, ["EWR", "ORD"]),
        ("Smith, John | DE", TWO, ["Smith, John", "DE"]),
        ('["a | b", "DE"]', TWO, ["a | b", "DE"]),
        ('["a@b", null]', TWO, ["a@b", None]),
        ('["a@b", "null"]', TWO, ["a@b", "null"]),
        ('[7, "00ff", "2013-01-08"]', ["bigint", "binary", "date"], [7, b"\x00\xff", DAY]),
        ('["7", null]', ["int", "binary"], [7, None]),
        ("[null]", ["string"], [None]),
        ("[EWR]", ["string"], ["[EWR]"]),
        ("a,b | c", ["string"], ["a,b | c"]),
    ],
)
def test_forms_of_a_key(text: str, types: list[str], values: list[Any]) -> None:
    assert read(text, types) == values


@pytest.mark.parametrize(
    ("text", "types", "says"),
    [
        ("Smith, John,DE", TWO, "has 3 columns, the table's has 2. Write .*' | '.* JSON list"),
        ("a | b,DE", TWO, r'could mean \["a", "b,DE"\] or \["a \| b", "DE"\]'),
        ("a@b | null", TWO, r'could mean \["a@b", "null"\] or \["a@b", null\]'),
        ("null", ["string"], r'could mean \["null"\] or \[null\]'),
        ('["a"]', ["string"], r"""could mean the text 'a', .*Write a for .*"\[\\"a\\"\]"\]"""),
        ("5", ["string", "int"], "has 1 columns"),
        ("[5]", ["string"], "has 5 where it needs a text of type string"),
        ("[[5]]", ["int"], r"has \[5\] where it needs a text of type int"),
        ('["x"]', ["int"], "not of type int"),
        ('["xy"]', ["binary"], "not of type binary"),
    ],
)
def test_what_is_no_key_or_could_be_two_is_refused(text: str, types: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(text, types)


def test_specs_keep_the_reading_that_they_had() -> None:
    assert read("a | b,DE", TWO, sure=False) == ["a", "b,DE"]
    assert read("null", ["string"], sure=False) == ["null"]


@pytest.mark.parametrize(
    "values",
    [
        ["EWR", "ORD"],
        ["Smith, John", "DE"],
        ["Smith,John", "DE"],
        ["a | b", "DE"],
        ["a@b", None],
        ["a@b", "null"],
        [None],
        ["null"],
        ['["a"]'],
        ['["null"]'],
        ['[["a"]'],
        ['["x"]'],
        ["[5]"],
        ["", ""],
        [""],
        ["  "],
        ["", " "],
    ],
)
def test_what_plans_write_is_read_as_the_same_key(values: list[Any]) -> None:
    assert read(key_text(values), ["string"] * len(values)) == values


def test_plans_write_most_keys_plainly() -> None:
    assert key_text(["EWR", 5, b"\x01"]) == "EWR | 5 | 01"


@pytest.mark.parametrize(("value", "text"), [("", '[""]'), ("  ", '["  "]')])
def test_a_blank_key_has_a_name_that_people_can_see(value: str, text: str) -> None:
    assert key_text([value]) == text
    assert read(text, ["string"]) == [value]


@pytest.mark.parametrize("kind", ["tinyint", "int", "bigint"])
@pytest.mark.parametrize("text", ["0x10", "0XfF", "-0x1"])
def test_no_number_is_read_in_hexadecimal(kind: str, text: str) -> None:
    """Arrow reads 0x10 as 16, so `forget` would delete key 16."""
    with pytest.raises(InputError, match=f"a key is not of type {kind}"):
        key_columns([text], [kind], sure=True)
    with pytest.raises(InputError, match=f"not of the declared type {kind}"):
        key_hash([["7", text]], [kind])
