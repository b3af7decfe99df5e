"""The two faces of the function agree bit for bit: NumPy's lookup and Spark's expression."""

import datetime
import random
from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import functions as F

from evenkeel.registry.epochs import Epoch
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import KeyColumn, key_hash, slot_of
from partitioning.function.sql import channel_sql, check_sql, hash_sql, slot_sql
from partitioning.moves.partial_rows import settled_sql
from tests.conftest import compiled

pytestmark = pytest.mark.spark

TYPES = ["string", "binary", "tinyint", "smallint", "int", "bigint", "date"]
ALPHABET = "aZ0 ,'\"\\`\n\0éß漢✈𝄞"


@pytest.fixture(scope="module")
def spark(spark):
    return compiled(spark)


def values(kind, count, rng):
    """Random values of a type, its edges and nulls among them."""

    def one():
        if kind == "string":
            return "".join(rng.choices(ALPHABET, k=rng.randrange(40)))
        if kind == "binary":
            return rng.randbytes(rng.randrange(40))
        if kind == "date":
            return datetime.date(1, 1, 2) + datetime.timedelta(rng.randrange(3_650_000))
        bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[kind]
        edges = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1]
        return rng.choice([*edges, rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))])

    return [None if rng.random() < 0.1 else one() for _ in range(count)]


@pytest.mark.parametrize(("slots", "channels"), [(1, 1), (97, 7), (4096, 300)])
@pytest.mark.parametrize("key", [[t] for t in TYPES] + [["string", "bigint"], ["date", "binary"]])
def test_the_faces_agree(spark, key, slots, channels):
    rng = random.Random(f"{key}{slots}")
    columns = [values(kind, 300, rng) for kind in key]
    hashes = key_hash(columns, key)
    heavy = np.unique(hashes[::3])
    function = PartitioningFunction(
        tuple(KeyColumn(f"k {i}", kind) for i, kind in enumerate(key)),
        numbered_channels(channels),
        np.array([rng.randrange(channels) for _ in range(slots)]),
        heavy,
        np.array([rng.randrange(channels) for _ in heavy]),
    )
    epoch = Epoch(0, function, None, {}, "")
    schema = ", ".join(f"`{c.name}` {c.type}" for c in function.key)
    rows = spark.createDataFrame(list(zip(*columns, strict=True)), schema)
    found = (
        rows.select(
            epoch.route().alias("channel"),
        )
        .selectExpr("channel")
        .collect()
    )
    slotted = rows.selectExpr("*", f"{slot_sql(function.key, slots)} AS slot")
    sql = slotted.selectExpr(
        f"{hash_sql(function.key)} AS h", "slot", f"{check_sql(function, 'slot')} AS checked"
    ).collect()
    assert [r.checked for r in sql] == epoch.lookup(*columns).tolist()
    assert [r.h for r in sql] == hashes.tolist()
    assert [r.slot for r in sql] == slot_of(hashes, slots).tolist()
    assert [r.channel for r in found] == epoch.lookup(*columns).tolist()


@pytest.mark.parametrize("row", ["string", "bigint"])
@pytest.mark.parametrize(("slots", "channels"), [(97, 7), (4096, 300)])
def test_the_faces_agree_on_split_keys(spark, slots, channels, row):
    rng = random.Random(f"{row}{slots}")
    key = (KeyColumn("k", "string"), KeyColumn("n", "int"))
    types = [c.type for c in key]
    distinct = list(zip(*(values(kind, 40, rng) for kind in types), strict=True))
    hashes = np.unique(key_hash(list(zip(*distinct, strict=True)), types)).tolist()

    def some(most):
        return rng.sample(range(channels), rng.randrange(2, min(most, channels) + 1))

    function = replace(
        successor(
            key,
            None,
            numbered_channels(channels),
            [rng.randrange(channels) for _ in range(slots)],
            "x",
            explicit={h: rng.randrange(channels) for h in hashes[::3]},
            split={h: {c: rng.random() for c in some(60)} for h in hashes[1::3]},
        ),
        row=KeyColumn("the row", row),
    )
    columns = list(zip(*rng.choices(distinct, k=1000), strict=True))
    rows = values(row, 1000, rng)
    schema = "k string, n int, `the row` " + row
    epoch = Epoch(0, function, None, {}, "")
    routed = (
        spark.createDataFrame(list(zip(*columns, rows, strict=True)), schema)
        .withColumn("named otherwise", F.col("the row"))
        .withColumn("channel", epoch.route("k", "n", row="named otherwise"))
        .withColumn("again", epoch.route())
        .withColumn("split", epoch.is_split("k", "n"))
        .withColumn("slot", F.expr(slot_sql(key, slots)))
        .withColumn("elsewhere", F.expr(f"pmod(channel + 1, {channels})"))
    )
    found = routed.select(
        "channel",
        "again",
        "split",
        F.expr(check_sql(function, "slot")).alias("checked"),
        F.expr(check_sql(function, "slot", "elsewhere")).alias("other"),
        F.expr(settled_sql(function, "slot", "elsewhere")).alias("settled"),
    ).collect()
    assert [r.channel for r in found] == epoch.lookup(*columns, row=rows).tolist()
    assert [r.again for r in found] == [r.channel for r in found]
    assert [r.checked for r in found] == [r.channel for r in found]
    # One channel further is right where that is another owner of the row's split key.
    split, key_of = function.split, function.split.find(key_hash(columns, types))
    assert [r.split for r in found] == (key_of >= 0).tolist()
    owners = [set(c.tolist()) for c in np.split(split.channels, split.starts[1:-1])]
    for r, k in zip(found, key_of.tolist(), strict=True):
        further = (r.channel + 1) % channels
        expected = r.channel if k < 0 else further if further in owners[k] else None
        assert r.other == expected
        # A partial that stands elsewhere belongs to the home.
        assert r.settled == (int(split.homes[k]) if expected is None else expected)


def test_the_faces_agree_where_entries_are_over_32_bits(spark):
    """Channels and named keys so many that a slot's channel and displacement are no INT."""
    rng, keys = np.random.default_rng(3), range(40_000)
    hashes = key_hash([keys], ["bigint"])
    function = PartitioningFunction(
        (KeyColumn("id", "bigint"),),
        numbered_channels(70_000),
        rng.integers(0, 70_000, 70_000),
        np.sort(hashes[:20_000]),
        rng.integers(0, 70_000, 20_000),
    )
    epoch = Epoch(0, function, None, {}, "")
    assert "ARRAY<BIGINT>)[pmod" in channel_sql(function)
    found = spark.range(40_000).select("id", epoch.route("id").alias("channel")).collect()
    channels = dict(map(tuple, found))
    assert [channels[k] for k in keys] == epoch.lookup(keys).tolist()


def test_routing_takes_columns_of_other_names_and_types(spark):
    function = PartitioningFunction(
        (KeyColumn("id", "bigint"),), numbered_channels(5), np.arange(64) % 5
    )
    epoch = Epoch(0, function, None, {}, "")
    rows = spark.createDataFrame([(i,) for i in range(-50, 50)], "other int")
    assert not any(r[0] for r in rows.select(epoch.is_split("other")).collect())
    found = [r[0] for r in rows.select(epoch.route("other")).collect()]
    assert found == epoch.lookup(list(range(-50, 50))).tolist()


def test_routing_is_one_expression_without_join_or_python(spark):
    hashes = np.arange(500, dtype=np.int64) * 7919
    function = PartitioningFunction(
        (KeyColumn("id", "bigint"),),
        numbered_channels(5),
        np.arange(4096) % 5,
        hashes,
        np.zeros(500, np.int32),
    )
    routed = spark.range(10).select(Epoch(0, function, None, {}, "").route("id").alias("channel"))
    plan = routed._jdf.queryExecution().executedPlan().toString()
    assert "Join" not in plan and "Python" not in plan and "Exchange" not in plan
    assert dict(routed.dtypes) == {"channel": "int"}
