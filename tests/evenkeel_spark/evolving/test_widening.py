"""Types that can be widened: the same as Delta's own rule, for every pair of types."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, LongType, _parse_datatype_string

from evenkeel_spark.evolving.widening import delta_widens, widenings
from evenkeel_spark.tables.schema_edits import ELEMENT, WidenColumn

pytestmark = pytest.mark.spark

PLAIN = ["tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp"]
PLAIN += ["timestamp_ntz", "string", "binary", "boolean"]
PLAIN += [f"decimal({p},{s})" for p, s in ((5, 0), (9, 0), (10, 0), (10, 2), (12, 2), (12, 3))]
PLAIN += [f"decimal({p},{s})" for p, s in ((19, 0), (20, 0), (22, 2), (38, 0), (38, 18))]


def test_each_pair_is_as_delta_has_it(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    types = {text: _parse_datatype_string(text) for text in PLAIN}
    theirs = {
        text: jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json())
        for text, kind in types.items()
    }
    rule = jvm.org.apache.spark.sql.delta.TypeWidening.isTypeChangeSupported
    wide = 0
    for one, other in itertools.permutations(PLAIN, 2):
        expected = bool(rule(theirs[one], theirs[other]))
        assert delta_widens(types[one], types[other]) == expected, (one, other)
        wide += expected
    assert wide > 40


def test_parts_of_arrays_and_structs_are_widened_by_their_place(spark: SparkSession) -> None:
    def found(stored: str, wanted: str) -> list[WidenColumn] | None:
        one, other = _parse_datatype_string(stored), _parse_datatype_string(wanted)
        return widenings(one, other, ("c",), delta_widens)

    assert found("int", "int") == [] and found("bigint", "int") == []
    assert found("array<int>", "array<bigint>") == [WidenColumn(("c", ELEMENT), LongType())]
    assert found("struct<a:int,b:float>", "struct<a:int,b:double>") == [
        WidenColumn(("c", "b"), DoubleType())
    ]
    assert found("struct<a:int>", "struct<b:int>") is None
    assert found("string", "int") is None and found("array<string>", "array<int>") is None
