"""Merges: partials that meet in any order and grouping give what one owner would have had."""

from __future__ import annotations

import datetime
import math
from functools import reduce
from operator import or_

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenkeel.spec.custom_merges import merges
from evenkeel_spark.jobs.bootstrap import bootstrap
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.cases.merged_values import FLAGS

pytestmark = pytest.mark.spark

#: How many partials there are.
PARTS = 5
SCHEMA = T.StructType(
    [
        T.StructField("part", T.IntegerType()),
        T.StructField("at", T.DateType()),
        T.StructField("n", T.LongType()),
        T.StructField("x", T.DoubleType()),
        T.StructField("s", T.StringType()),
        T.StructField("d", T.DecimalType(10, 2)),
        T.StructField("t", T.TimestampType()),
        T.StructField("b", T.BooleanType()),
    ]
)
#: What is merged of which column.
CASES = {
    "count": ("count", "n"),
    "sum n": ("sum", "n"),
    "sum x": ("sum", "x"),
    "min n": ("min", "n"),
    "max s": ("max", "s"),
    "last n": ("last", "n"),
    "last s": ("last", "s"),
    "set n": ("set", "n"),
    "set s": ("set", "s"),
    "hll s": ("hll", "s"),
    "theta n": ("theta", "n"),
    "copy n": ("copy", "n"),
    "copy s": ("copy", "s"),
    "sum d": ("sum", "d"),
    "max d": ("max", "d"),
    "set d": ("set", "d"),
    "min t": ("min", "t"),
    "last t": ("last", "t"),
    "set t": ("set", "t"),
    "copy t": ("copy", "t"),
    "max b": ("max", "b"),
    "last b": ("last", "b"),
    "set b": ("set", "b"),
    "flags n": ("flags", "n"),
}


def orders(spark, rows, tree=((0, 1), (2, (3, 4))), groups=(0, 1, 0, 1, 0)):
    """Each merged column's content, by how it came about: by one owner; all at once; in groups,
    then all; two by two, as a tree says."""
    events = spark.createDataFrame(rows, SCHEMA)
    known = {c: (merges()[m], of) for c, (m, of) in CASES.items()}
    folds = [F.expr(m.fold(of, "at")).alias(c) for c, (m, of) in known.items()]
    partials = events.groupBy("part").agg(*folds).persist()

    def every(frame):
        return frame.agg(*(F.expr(m.every(f"`{c}`")).alias(c) for c, (m, _) in known.items()))

    wide = partials.agg(
        *(
            F.expr(f"first(`{c}`, true) FILTER (WHERE part = {i})").alias(f"{c} {i}")
            for c in CASES
            for i in range(PARTS)
        )
    )

    def pair(name, merge, branch):
        if isinstance(branch, int):
            return f"`{name} {branch}`"
        return merge.pair(*(pair(name, merge, b) for b in branch))

    group = F.element_at(F.array(*map(F.lit, groups)), F.col("part") + 1)
    contents = [F.expr(m.content(f"`{c}`")).alias(c) for c, (m, _) in known.items()]
    found = {
        "one owner": events.agg(*folds),
        "every": every(partials),
        "grouped": every(every(partials.groupBy(group.alias("group")))),
        "tree": wide.select(*(F.expr(pair(c, m, tree)).alias(c) for c, (m, _) in known.items())),
    }
    answers = {name: frame.select(*contents).first().asDict() for name, frame in found.items()}
    partials.unpersist()
    return answers


@st.composite
def trees(draw):
    """The partials in any order, joined two by two in any order."""
    left = draw(st.permutations(range(PARTS)))
    while len(left) > 1:
        at = draw(st.integers(0, len(left) - 2))
        left = [*left[:at], (left[at], left[at + 1]), *left[at + 2 :]]
    return left[0]


events = st.tuples(
    st.integers(0, PARTS - 1),
    st.none() | st.dates(datetime.date(2013, 1, 1), datetime.date(2013, 1, 4)),
    st.none() | st.integers(-5, 5),
    st.none() | st.floats(-1e6, 1e6),
    st.none() | st.text("abé", max_size=2),
    st.none() | st.decimals(-1000, 1000, places=2),
    st.none()
    | st.datetimes(
        datetime.datetime(2013, 1, 1),
        datetime.datetime(2013, 1, 2),
        timezones=st.just(datetime.UTC),
    ),
    st.none() | st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(events, min_size=1, max_size=40),
    trees(),
    st.lists(st.integers(0, 2), min_size=PARTS, max_size=PARTS),
)
def test_any_order_and_grouping_gives_what_one_owner_would_have(
    spark, registered, rows, tree, groups
):
    registered({"flags": FLAGS})
    answers = orders(spark, rows, tree, groups)
    alone = answers.pop("one owner")
    for how, merged in answers.items():
        for name, value in alone.items():
            if name == "sum x" and value is not None:
                assert math.isclose(merged[name], value, rel_tol=1e-9, abs_tol=1e-3), (how, name)
            else:
                assert merged[name] == value, (how, name)
    got = [r for r in rows if r[1] is not None and r[2] is not None]
    last = max(((r[1], r[2]) for r in got), default=None)
    assert alone["last n"] == last
    assert alone["set s"] == sorted({r[4] for r in rows if r[4] is not None})
    assert alone["count"] == len(rows)
    assert alone["sum d"] == (sum(d) if (d := [r[5] for r in rows if r[5] is not None]) else None)
    bits = [r[2] for r in rows if r[2] is not None]
    assert alone["flags n"] == (reduce(or_, bits) if bits else None)
    # The greatest, should it not be one value: so that all owners agree.
    assert alone["copy s"] == max((r[4] for r in rows if r[4] is not None), default=None)


@pytest.mark.slow
def test_sketches_of_many_values_keep_to_their_error(spark, registered):
    registered({"flags": FLAGS})
    day = datetime.date(2013, 1, 1)
    rows = [(i % PARTS, day, i, 0.0, f"v{i}", None, None, None) for i in range(30_000)]
    answers = orders(spark, rows)
    for name, error in (("hll s", 0.05), ("theta n", 0.05)):
        for how, merged in answers.items():
            assert math.isclose(merged[name], len(rows), rel_tol=error), (how, name)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            {"merge": "sum", "of": "dest"},
            "column 'dest' is string. Allowed: a number, of decimals one with at most 36 digits "
            "after the point, for sum (state.totals.columns.x)",
        ),
        (
            {"merge": "hll", "of": "weight"},
            "column 'weight' is double. Allowed: a string, binary, int or bigint, for hll",
        ),
        ({"merge": "set", "of": "weight"}, "column 'weight' is double. Allowed: a string, binary"),
        (
            {"merge": "last", "of": "miles", "by": "weight"},
            "column 'weight' is double. Allowed: a date, timestamp or whole number, for `by`",
        ),
        ({"merge": "last", "of": "miles", "by": "when"}, "there is no column 'when'"),
    ],
)
def test_a_merge_that_its_column_cannot_do_is_refused(spark, world: World, column, message):
    world.respec(state={"totals": {"path": "state/totals", "columns": {"x": column}}})
    with pytest.raises(InputError) as caught:
        bootstrap(spark, world.table)
    assert message in str(caught.value)
    assert not (world.folder / "state").exists()
