"""Hashes of keys: against frozen vectors, and what is refused."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.errors import InputError
from partitioning.function.hashing import key_hash, slot_of

# What Spark 4.2.0 prints for SELECT xxhash64(CAST(... AS ...)).
VECTORS = [
    (["string"], ["ORD"], 1358878907523830835),
    (["string"], [""], -7444071767201028348),
    (["string"], [None], 42),
    (["string"], ["Zürich ✈"], 1213809317664618075),
    (["string"], ["a longer key, over thirty-two bytes of UTF-8"], -5359149168148790314),
    (["binary"], [b"\x00\xff\x10"], 5415089035989094387),
    (["tinyint"], [-7], 4987848727247274714),
    (["smallint"], [-7], 4987848727247274714),
    (["int"], [-7], 4987848727247274714),
    (["bigint"], [-7], -1663473129717591079),
    (["date"], [datetime.date(2013, 1, 1)], 1349268229983960169),
    (["string", "bigint"], ["ORD", -7], 8259297757139033525),
    (["string", "int"], [None, 5], 504019808641096632),
]

NOON = datetime.datetime(2013, 1, 1, 12)


def decimals(scale):
    return pa.array([Decimal(0)], pa.decimal128(20, scale))


@pytest.mark.parametrize(("types", "row", "expected"), VECTORS)
def test_hash_equals_spark(types, row, expected):
    assert key_hash([[value] for value in row], types).tolist() == [expected]


def test_hash_of_nulls_among_values_leaves_the_others_alone():
    mixed = key_hash([["ORD", None, ""]], ["string"])
    assert mixed.tolist() == [1358878907523830835, 42, -7444071767201028348]


def test_texts_of_numbers_dates_categories_and_nulls_are_those_of_spark():
    day, nan = datetime.date(2013, 1, 2), float("nan")
    for values, texts in (
        ([7, None], ["7", None]),
        ([day, nan], ["2013-01-02", None]),
        (decimals(6), ["0.000000"]),
        (pd.Categorical(["a"]), ["a"]),
    ):
        assert key_hash([values], ["string"]).tolist() == key_hash([texts], ["string"]).tolist()


def test_times_without_a_zone_and_columns_of_nulls_have_a_hash():
    day, null = [NOON.date()], pa.array([None], pa.timestamp("us"))
    assert key_hash([[NOON]], ["date"]).tolist() == key_hash([day], ["date"]).tolist()
    assert key_hash([null], ["bigint"]).tolist() == [42]


@pytest.mark.parametrize(
    ("columns", "types", "message"),
    [
        ([[1.5]], ["double"], "type 'double' cannot be hashed"),
        ([["x"]], ["bigint"], "not of the declared type bigint"),
        ([[2**40]], ["int"], "not of the declared type int"),
        # Spark casts these to others: to "1.0", to seconds, to a day in a zone, to all digits.
        ([[1.0, None]], ["string"], "not of the declared type string .double"),
        ([[NOON]], ["string"], "declared type string .timestamp"),
        ([[NOON]], ["bigint"], "declared type bigint .timestamp"),
        ([[datetime.timedelta(1)]], ["bigint"], "declared type bigint .duration"),
        ([pa.array([NOON], pa.timestamp("us", "UTC"))], ["date"], "declared type date .timestamp"),
        ([decimals(8)], ["string"], "declared type string .decimal"),
        ([decimals(-2)], ["string"], "declared type string .decimal"),
        ([pd.Categorical([1.5])], ["string"], "declared type string .double"),
        ([pd.Categorical([NOON])], ["string"], "declared type string .timestamp"),
        ([pd.Categorical([NOON])], ["bigint"], "declared type bigint .timestamp"),
        ([[1], [2]], ["int"], "2 key columns given where 1 are declared"),
        ([[1], [2, 3]], ["int", "int"], "different lengths"),
    ],
)
def test_hash_refuses(columns, types, message):
    with pytest.raises(InputError, match=message):
        key_hash(columns, types)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 5000))
def test_slots_are_never_negative(hashes, slots):
    found = slot_of(np.array(hashes, dtype=np.int64), slots)
    assert found.tolist() == [h % slots for h in hashes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_that_may_have_been_rounded_are_no_whole_numbers(dtype: str) -> None:
    """A null makes pandas turn 9007199254740993 into a float, which is ...992: another key."""
    exact = 2 ** (24 if dtype == "float32" else 53) - 1
    held = np.array([-exact, 5, exact, np.nan], dtype=dtype)
    expected = key_hash([[-exact, 5, exact, None]], ["bigint"])
    assert (key_hash([held], ["bigint"]) == expected).all()
    with pytest.raises(InputError, match="may have been another number"):
        key_hash([np.array([exact + 1], dtype=dtype)], ["bigint"])


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.string()])
@pytest.mark.parametrize("categorical", [False, True])
def test_texts_of_every_arrow_type_are_read_alike(kind: pa.DataType, categorical: bool) -> None:
    def texts(*values: str) -> pa.Array:
        made = pa.array(values)
        return made.dictionary_encode() if categorical else made.cast(kind)

    assert (key_hash([texts("7", "10")], ["int"]) == key_hash([[7, 10]], ["int"])).all()
    with pytest.raises(InputError, match="hexadecimal"):
        key_hash([texts("7", "0x10")], ["int"])
