"""Input columns that change their type: state columns keep each value, or the window is refused."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import state
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.windows import day, rows, typed, versions

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("merge", "before", "later", "stored", "made"),
    [
        ("sum", "int", "double", "bigint", "double"),
        ("sum", "decimal(10,2)", "decimal(10,4)", "decimal(20,2)", "decimal(20,4)"),
        ("max", "bigint", "double", "bigint", "double"),
        ("max", "double", "bigint", "double", "bigint"),
        ("max", "date", "timestamp", "date", "timestamp"),
        ("set", "int", "decimal(4,1)", "array<int>", "array<decimal(4,1)>"),
        (
            "last",
            *("float", "double"),
            *("struct<at:timestamp,value:float>", "struct<at:timestamp,value:double>"),
        ),
    ],
)
def test_a_type_that_a_state_column_would_cut_is_refused(
    spark, world: World, merge: str, before: str, later: str, stored: str, made: str
):
    """Delta's MERGE assigns 11.7 to a BIGINT as 11, without a word."""
    world.with_columns({"x": {"merge": merge, "of": "x"}})
    typed(spark, world, before)
    bootstrap(spark, world.table, day(8))
    found, path = versions(spark, world), world.table.spec.state["totals"].path
    typed(spark, world, later)
    with pytest.raises(InputError) as error:
        apply_window(spark, world.table, day(8), day(10))
    assert str(error.value) == (
        f"totals ({path}): column 'x' is {stored} in the table, and events make {made} by now. "
        "It would cut their values. Run `evenkeel evolve trips`, which widens it where the format "
        "can, or convert the input"
    )
    assert versions(spark, world) == found
    assert not (world.folder / "registry/windows").exists()


@pytest.mark.parametrize(
    ("merge", "before", "later"),
    [
        ("max", "int", "smallint"),
        ("max", "int", "bigint"),
        ("max", "timestamp", "date"),
        ("sum", "double", "int"),
        ("sum", "decimal(10,4)", "decimal(10,2)"),
        ("sum", "decimal(38,10)", "decimal(38,2)"),
        ("max", "decimal(38,10)", "decimal(38,2)"),
    ],
)
def test_a_type_that_fits_changes_no_digit(
    spark, world: World, merge: str, before: str, later: str
):
    world.with_columns({"x": {"merge": merge, "of": "x"}})
    old = typed(spark, world, before).where("at < '2013-01-08'")
    bootstrap(spark, world.table, day(8))
    new = typed(spark, world, later).where("at >= '2013-01-08' AND at < '2013-01-10'")
    apply_window(spark, world.table, day(8), day(10))
    path = world.table.spec.state["totals"].path
    kind = state.schema(spark, path)["x"].dataType
    both = [e.groupBy("dest").agg(F.expr(f"{merge}(x)").alias("x")) for e in (old, new)]
    both = [e.select("dest", F.col("x").cast(kind)) for e in both]
    wanted = both[0].union(both[1]).groupBy("dest").agg(F.expr(f"{merge}(x)").cast(kind).alias("x"))
    found = rows(spark, world, "totals")["x"].to_dict()
    assert found == wanted.toPandas().set_index("dest")["x"].to_dict()
