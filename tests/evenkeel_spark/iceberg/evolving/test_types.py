"""Types that Iceberg widens or keeps by another name: the same as its own rule."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.evolving.widening import iceberg_widens
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.iceberg.schema_commit import as_kept
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.iceberg.evolved import heads, totals, with_columns
from tests.support.iceberg.fed import day, one
from tests.support.worlds.windows import typed

pytestmark = pytest.mark.spark

PLAIN = ["int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz", "string"]
PLAIN += ["binary", "boolean"]
PLAIN += [f"decimal({p},{s})" for p, s in ((5, 0), (10, 0), (10, 2), (12, 2), (12, 3), (38, 18))]


def test_each_pair_is_as_iceberg_has_it(lake: SparkSession) -> None:
    jvm: Any = lake._jvm
    types = {text: _parse_datatype_string(text) for text in PLAIN}
    convert = jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert
    from_json = jvm.org.apache.spark.sql.types.DataType.fromJson
    theirs = {text: convert(from_json(kind.json())) for text, kind in types.items()}
    rule = jvm.org.apache.iceberg.types.TypeUtil.isPromotionAllowed
    wide = 0
    for narrow, wider in itertools.permutations(PLAIN, 2):
        expected = bool(rule(theirs[narrow], theirs[wider].asPrimitiveType()))
        assert iceberg_widens(types[narrow], types[wider]) == expected, (narrow, wider)
        wide += expected
    assert wide == 4


def test_columns_are_wanted_by_the_types_that_iceberg_keeps(lake: SparkSession) -> None:
    made = StructType.fromDDL(
        "a TINYINT, b ARRAY<SMALLINT>, c STRUCT<x: INT, `y.z`: DECIMAL(9, 2)>"
    )
    kept = StructType.fromDDL("a INT, b ARRAY<INT>, c STRUCT<x: INT, `y.z`: DECIMAL(9, 2)>")
    assert as_kept(lake, made) == kept


#: Types of an input, the merge of it, and whether the column must be widened, or None: it cannot.
CASES = {
    "float": ("float", "double", "max", True),
    "digits": ("decimal(10,2)", "decimal(12,2)", "max", True),
    "short": ("smallint", "int", "max", False),
    "narrower": ("bigint", "int", "max", False),
    "sum": ("double", "int", "sum", False),
    "scale": ("decimal(10,2)", "decimal(12,3)", "max", None),
    "whole": ("int", "double", "max", None),
    "date": ("date", "timestamp_ntz", "max", None),
}


@pytest.mark.parametrize("case", CASES)
def test_an_input_that_gets_another_type(lake: SparkSession, fed: World, case: str) -> None:
    before, later, merge, widened = CASES[case]
    with_columns(fed, {"x": {"merge": merge, "of": "x"}})
    old = typed(lake, fed, before)
    bootstrap(lake, fed.table, day(8))
    kept = one(lake, "totals").schema()["x"].dataType
    new = typed(lake, fed, later)
    if widened is None:
        found = heads(lake)
        with pytest.raises(InputError, match="Iceberg cannot widen the one to the other"):
            evolve(lake, fed.table, Intent.of())
        assert heads(lake) == found
        return
    made = evolve(lake, fed.table, Intent.of())
    assert [c.kind for c in made] == [Kind.widen_column] * widened
    now = one(lake, "totals").schema()["x"].dataType
    assert now == (_parse_datatype_string(later) if widened else kept)
    apply_window(lake, fed.table, day(8), day(10))
    old = old.where("at < '2013-01-08'").selectExpr("dest", "double(x) x")
    new = new.where("at >= '2013-01-08' AND at < '2013-01-10'").selectExpr("dest", "double(x) x")
    wanted = dict(old.union(new).groupBy("dest").agg({"x": merge}).collect())
    assert {key: float(value) for key, value in totals(lake)["x"].items()} == wanted
