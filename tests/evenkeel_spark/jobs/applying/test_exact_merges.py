"""Merges by property: in any order, grouping and number of windows they give what a Python program
makes of all events at once, or an error; by Spark's settings on the way as by any others."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial, reduce
from operator import or_
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.state_view import kinds
from evenkeel.spec.custom_merges import MERGES_VARIABLE, merges
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import state
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.cases.merged_values import (
    CASES,
    COLUMNS,
    EXAMPLES,
    FLAGS,
    PARTS,
    last,
    order,
    same,
    zeros,
)

pytestmark = pytest.mark.spark
decimal.getcontext().prec = 100
row = st.tuples(
    st.integers(0, PARTS - 1),
    st.none() | st.integers(0, 2),
    *(st.none() | values for _, values, _ in COLUMNS.values()),
)
#: Orders and groupings of the partials that are tried.
GROUPINGS = 4
#: As many examples of each length: lists alone are mostly short, by a chance that names decide.
rows = st.integers(1, 8).flatmap(lambda n: st.lists(row, min_size=n, max_size=n))


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "merges.yaml"
    file.write_text(yaml.safe_dump({"flags": FLAGS}))
    monkeypatch.setenv(MERGES_VARIABLE, str(file))


@pytest.fixture(params=["true", "false"], ids=["ANSI", "not ANSI"])
def other(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    """A session as readers and writers may have theirs."""
    made = spark.newSession()
    made.conf.set("spark.sql.ansi.enabled", request.param)
    made.conf.set("spark.sql.session.timeZone", "UTC")
    return made


def folded(merge: str, events: list[tuple[Any, Any]]) -> Any:
    """What one fold of all events (time, value) gives, without SQL."""
    timed = [(at, v) for at, v in events if at is not None and v is not None]
    values = [v for _, v in events if v is not None]
    makers: dict[str, Callable[[], Any]] = {
        "sum": lambda: sum(values[1:], values[0]),
        "min": lambda: min(values, key=order),
        "max": lambda: max(values, key=order),
        "copy": lambda: max(values, key=order),
        "last": lambda: last(timed),
        "set": lambda: sorted(set(values), key=order),
        "flags": lambda: reduce(or_, values),
        # To Spark's sketches an empty string is no value.
        "hll": lambda: len({*values} - {""}),
        "theta": lambda: len({*values} - {""}),
    }
    if not values:
        return {"set": []}.get(merge)
    return makers[merge]()


def drawn() -> list[list[tuple[Any, ...]]]:
    """Examples: rows of events. All are drawn before Spark starts, which would take seconds for
    each."""
    found = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(rows)
    def draw(events: list[tuple[Any, ...]]) -> None:
        found.append(events)

    draw()
    # The first are the simplest.
    found[:2] = zeros()
    return found


def grouped(pair: Callable[[Any, Any], Any], leaves: Sequence[Any], drawn: Random) -> Any:
    """Merge the leaves in a drawn order, two neighbours at a time."""
    rest = drawn.sample(leaves, len(leaves))
    while len(rest) > 1:
        at = drawn.randrange(len(rest) - 1)
        rest[at : at + 2] = [pair(*rest[at : at + 2])]
    return rest[0]


def test_any_order_grouping_and_windows_give_what_one_fold_gives(
    other: SparkSession, registered: None
) -> None:
    examples = drawn()
    assert sum(len(rows) > 2 for rows in examples) > EXAMPLES / 4
    schema = ", ".join(
        ["example int", "part int", "at int", *(f"{c} {k}" for c, (k, _, _) in COLUMNS.items())]
    )
    data = [(i, *row) for i, rows in enumerate(examples) for row in rows]
    events = other.createDataFrame(data, schema)
    names = {f"{c} {m}": (c, merges()[m]) for c, m in CASES}
    folds = [F.expr(m.fold(c, "at")).alias(n) for n, (c, m) in names.items()]
    partials = events.groupBy("example", "part").agg(*folds).persist()
    types = {f.name: f.dataType.simpleString() for f in partials.schema}
    assert kinds(partials.schema)["d28_18 sum"].upper() == "DECIMAL(38,18)"

    def part(name: str, number: int) -> str:
        return f"`{name} {number}`"

    def pair(name: str, a: str, b: str) -> str:
        return names[name][1].pair(a, b, types[name])

    wide = partials.groupBy("example").agg(
        *(
            F.expr(f"first(`{n}`, true) FILTER (WHERE part = {i})").alias(f"{n} {i}")
            for n in names
            for i in range(PARTS)
        )
    )
    ways = {
        "one fold": events.groupBy("example").agg(*folds),
        "every": partials.groupBy("example").agg(
            *(F.expr(m.every(f"`{n}`")).alias(n) for n, (_, m) in names.items())
        ),
    }
    for seed in range(GROUPINGS):
        each = {n: [part(n, i) for i in range(PARTS)] for n in names}
        ways[f"grouping {seed}"] = wide.select(
            "example",
            *(
                F.expr(grouped(partial(pair, n), its, Random(seed))).alias(n)
                for n, its in each.items()
            ),
        )
    for way, frame in ways.items():
        content = [F.expr(m.content(f"`{n}`")).alias(n) for n, (_, m) in names.items()]
        for found in frame.select("example", *content).collect():
            for (column, merge), name in zip(CASES, names, strict=True):
                at = 3 + list(COLUMNS).index(column)
                mine = [(r[2], r[at]) for r in data if r[0] == found["example"]]
                wanted, got = folded(merge, mine), found[name]
                if isinstance(got, datetime.datetime) and column == "zoned":
                    got = got.astimezone(datetime.UTC)
                if isinstance(got, bytearray):
                    got = bytes(got)
                if merge == "set" and column == "b":
                    got = [bytes(v) for v in got or []]
                if column == "zoned" and merge in ("set", "last") and got is not None:
                    zoned = [
                        v.astimezone(datetime.UTC) if isinstance(v, datetime.datetime) else v
                        for v in got
                    ]
                    got = zoned if merge == "set" else tuple(zoned)
                if merge == "last" and got is not None:
                    got = tuple(got)
                values = [v for _, v in mine if v is not None]
                assert same(got, wanted, merge, values), (way, name, got, wanted, mine)
    partials.unpersist()


#: Each precision of a decimal, with scales from none to all of its digits, and 36 at most.
DECIMALS = [
    (p, s) for p in range(1, 39) for s in sorted({0, 1, p // 3, p // 2, p - 1, p}) if s <= 36
]


def test_sums_of_decimals_of_each_precision_and_scale_are_exact(other: SparkSession) -> None:
    total, drawn, parts = merges()["sum"], Random(1), 4
    # A few of these are no more than the type holds. Of 38 digits, a sum needs one free.
    most = [max(1, (10 ** min(p, 37) - 1) // (2 * parts)) for p, _ in DECIMALS]
    rows = [
        [Decimal(drawn.randint(-m, m)).scaleb(-s) for m, (_, s) in zip(most, DECIMALS, strict=True)]
        for _ in range(parts)
    ]
    kinds = {f"c{i}": f"decimal({p},{s})" for i, (p, s) in enumerate(DECIMALS)}
    schema = ", ".join(f"{c} {kind}" for c, kind in kinds.items())
    events = other.createDataFrame(rows, schema)
    folded = events.select(*(F.expr(total.fold(c, "")).alias(c) for c in kinds)).first()
    assert [*folded] == [sum(column) for column in zip(*rows, strict=True)]
    # As a window adds to the state.
    state, window = (other.createDataFrame([row], schema) for row in rows[:2])
    added = [F.expr(total.pair(f"s.{c}", f"w.{c}", kind)) for c, kind in kinds.items()]
    both = state.alias("s").crossJoin(window.alias("w")).select(*added).first()
    assert [*both] == [a + b for a, b in zip(*rows[:2], strict=True)]


MOST = Decimal(10**19 - 1)
#: Type, two values whose sum its type does not hold.
OVERFLOWS = [
    ("bigint", 2**63 - 1, 1),
    ("bigint", -(2**63), -1),
    ("decimal(38,0)", Decimal(10**38 - 1), Decimal(1)),
    ("decimal(38,18)", MOST, MOST * 10),
    ("decimal(20,2)", Decimal(10**18 - 1), Decimal(10**18 - 1)),
]


@pytest.mark.parametrize(("kind", "a", "b"), OVERFLOWS)
def test_an_overflow_is_an_error_whatever_the_sessions_settings(
    other: SparkSession, kind: str, a: Any, b: Any
) -> None:
    one = other.createDataFrame([(a, b)], f"a {kind}, b {kind}")
    total = merges()["sum"]
    with pytest.raises(Exception, match="evenkeel cannot merge: a . b is more than"):
        one.select(F.expr(total.pair("a", "b", kind))).collect()
    # A sum of decimals has ten digits more, as far as there are any.
    if ("38" in kind and "18" not in kind) or kind == "bigint":
        both = one.selectExpr("explode(array(a, b)) AS x")
        for sql in (total.fold("x", ""), total.every("x")):
            with pytest.raises(Exception, match="cannot merge: the sum of x is more than"):
                both.select(F.expr(sql)).collect()


def test_windows_of_tiny_decimals_add_up_and_an_overflow_writes_nothing(
    spark: SparkSession, world: World
) -> None:
    tiny, big = Decimal("1E-18"), 2**62
    at = [pd.Timestamp(f"2013-01-0{d}T12", tz="UTC") for d in (1, 2, 3)]
    world.write_events(
        pd.DataFrame({"dest": ["A"] * 3, "at": at, "price": [1, 1, 1], "n": [big, 1, big]})
    )
    events = spark.read.parquet(f"{world.folder}/events.parquet")
    prices = events.withColumn("price", F.lit("0.000000000000000001").cast("decimal(38,18)"))
    prices.write.parquet(f"{world.folder}/prices")
    columns = {"price": {"merge": "sum", "of": "price"}, "n": {"merge": "sum", "of": "n"}}
    world.respec(
        input={"path": "prices", "time": "at"},
        state={"totals": {"path": "state/totals", "columns": columns}},
    )
    caller = spark.newSession()
    caller.conf.set("spark.sql.ansi.enabled", "false")
    bootstrap(caller, world.table, datetime.date(2013, 1, 2))
    apply_window(caller, world.table, datetime.date(2013, 1, 2), datetime.date(2013, 1, 3))
    path = world.table.spec.state["totals"].path
    before = state.table_version(spark, path)
    with pytest.raises(InputError, match="cannot hold a merged value .*`n`.* is more than") as told:
        apply_window(caller, world.table, datetime.date(2013, 1, 3), datetime.date(2013, 1, 4))
    assert "\n" not in str(told.value) and "totals" in str(told.value)
    assert state.table_version(spark, path) == before
    (row,) = spark.read.format("delta").load(path).select("price", "n").collect()
    assert tuple(row) == (2 * tiny, big + 1)


def test_a_merge_of_ones_own_is_exact_in_the_sql_of_readers(
    other: SparkSession, registered: None
) -> None:
    """`every` runs in a session of the reader's, whatever its settings."""
    every = merges()["flags"].every("x")
    rows = [(2**62,), (-(2**63),), (None,), (5,)]
    frame = other.createDataFrame(rows, "x bigint")
    assert frame.select(F.expr(every)).first()[0] == reduce(or_, [x for (x,) in rows if x])
    assert frame.limit(0).select(F.expr(every)).first()[0] is None
