"""Learn with sketches: what they list, on which executors, and how few keys are grouped."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from evenkeel_spark.events import daily_sketches
from evenkeel_spark.events.daily_sketches import Passes, heavy_keys, sketch_days
from evenkeel_spark.events.heavy_hitters import entries
from evenkeel_spark.jobs import learn as job
from evenkeel_spark.jobs.learn import learn
from partitioning.errors import InputError
from partitioning.function.hashing import KeyColumn, key_hash, slot_of
from tests.conftest import World

pytestmark = pytest.mark.spark
STRING = (KeyColumn("dest", "string"),)


@pytest.mark.parametrize("policy", ["drop", "keep"])
def test_composite_keys_with_nulls(spark, world: World, policy: str):
    events = world.events.assign(carrier=pd.array([1, None, 2] * 1000, dtype="Int64"))
    frame = spark.createDataFrame(
        [
            (d, None if pd.isna(c) else int(c))
            for d, c in zip(events["dest"], events["carrier"], strict=True)
        ],
        "dest string, carrier int",
    )
    spec = world.respec(key=["dest", "carrier"], null_keys=policy, input={"path": "x"}).table.spec
    key = (*STRING, KeyColumn("carrier", "int"))
    # A number of slots that is no power of two, and a share that makes every key heavy.
    sketch = sketch_days(frame, spec, Passes(key, 100, 1e-9, np.empty(0, np.int64)))[0]
    kept = events if policy == "keep" else events[events["carrier"].notna()]
    counts = kept.groupby(["dest", "carrier"], dropna=False).size().reset_index(name="n")
    hashes = key_hash([counts["dest"], pa.array(counts["carrier"])], ["string", "int"])
    np.testing.assert_array_equal(
        sketch.load, np.bincount(slot_of(hashes, 100), counts["n"], minlength=100)
    )
    found = dict(zip(sketch.heavy.tolist(), sketch.heavy_load.tolist(), strict=True))
    assert found == dict(zip(hashes.tolist(), counts["n"].tolist(), strict=True))
    assert any(", null]" in n for n in sketch.heavy_names) == (policy == "keep")


@pytest.mark.parametrize("kind", ["exact", "space_saving"])
def test_a_column_of_the_key_may_have_a_name_like_ours(spark, world: World, kind: str):
    names = ["_day", "_hash", "_load"]
    frame = spark.range(100).selectExpr(*(f"CAST(id % 10 AS STRING) AS {n}" for n in names))
    spec = world.respec(key=names, input={"path": "x"}).table.spec
    key = tuple(KeyColumn(n, "string") for n in names)
    sketch = sketch_days(frame, spec, Passes(key, 64, 0.01, np.empty(0, np.int64), kind))[0]
    assert {*sketch.heavy_names} == {f"{i} | {i} | {i}" for i in range(10)}
    assert sketch.heavy_load.tolist() == [10.0] * 10


@pytest.mark.parametrize(
    ("seed", "share", "kind", "load"),
    [
        (0, 0.02, "space_saving", "n"),
        (1, 0.0005, "lossy_counting", None),
        *(
            pytest.param(*drawn, *sketch, marks=pytest.mark.slow)
            for drawn in ((0, 0.25), (0, 0.0005), (1, 0.02))
            for sketch in (("approx_top_k", None), ("space_saving", "n"), ("lossy_counting", None))
        ),
    ],
)
def test_sketches_list_what_exact_passes_list(
    spark, world: World, seed: int, share: float, kind: str, load: str | None
):
    """More keys than they hold (at the larger shares), over days and partitions."""
    random = np.random.default_rng(seed)
    days = random.integers(0, 3, 60_000)
    keys = np.where(random.random(60_000) < 0.5, random.zipf(1.5, 60_000) % 500, 10**6 + days)
    keys = np.where(random.random(60_000) < 0.4, random.integers(0, 20_000, 60_000), keys)
    rows = pd.DataFrame({"dest": keys.astype(str), "d": days, "n": random.integers(0, 8, 60_000)})
    frame = spark.createDataFrame(rows)
    frame = frame.selectExpr("dest", "n", "date_add(DATE'2013-01-01', int(d)) AS at").repartition(5)
    spec = world.respec(input={"path": "x", "time": "at"}, load=load).table.spec
    light = np.sort(key_hash([["19999"]], ["string"]))
    exact, found = (
        sketch_days(frame, spec, Passes(STRING, 4, share, light, name)) for name in ("exact", kind)
    )
    assert exact.keys() == found.keys() and len(exact) == 3
    for day, sketch in exact.items():
        assert len(sketch.heavy) >= (1 if share > 0.1 else 2)
        np.testing.assert_array_equal(found[day].load, sketch.load)
        np.testing.assert_array_equal(found[day].heavy, sketch.heavy)
        np.testing.assert_array_equal(found[day].heavy_load, sketch.heavy_load)
        assert (found[day].heavy_names, found[day].error) == (sketch.heavy_names, sketch.error)


@pytest.mark.parametrize("kind", ["exact", "space_saving"])
def test_a_day_with_few_events_makes_no_key_of_another_day_heavy(spark, world: World, kind: str):
    full = spark.range(20_000).selectExpr("string(id % 1000) AS dest", "DATE'2013-01-01' AS at")
    hot = spark.range(2_000).selectExpr("'hot' AS dest", "DATE'2013-01-01' AS at")
    few = spark.range(1).selectExpr("'7' AS dest", "DATE'2013-01-02' AS at")
    spec = world.respec(input={"path": "x", "time": "at"}).table.spec
    passes = Passes(STRING, 64, 0.01, np.empty(0, np.int64), kind)
    (_, first), (_, second) = sorted(sketch_days(full.union(hot).union(few), spec, passes).items())
    assert first.heavy_names == ("hot",) and second.heavy_names == ("7",)


def test_relearn_forgets_a_day_whose_events_are_gone(spark, ready: World, capsys):
    arguments = (spark, ready.table, date(2013, 1, 8))
    full, _ = learn(*arguments)
    events = ready.events
    ready.write_events(events[events["at"].dt.strftime("%Y-%m-%d") != "2013-01-03"])
    # Without it, what is known of the day counts: the input may keep few days.
    kept, _ = learn(*arguments)
    assert kept.events == full.events
    gone, _ = learn(*arguments, relearn=True)
    assert gone.events < full.events
    assert "removed the sketches of 1 days, whose events are gone" in capsys.readouterr().out
    assert learn(*arguments)[0].events == gone.events


def test_all_passes_over_a_delta_input_see_the_same_events(spark, ready: World, monkeypatch):
    path = str(ready.folder / "events")
    events = spark.read.parquet(str(ready.folder / "events.parquet"))
    events.write.format("delta").save(path)
    ready.respec(input={"path": "events", "format": "delta", "time": "at"})
    before, _ = learn(spark, ready.table, date(2013, 1, 8))
    real = daily_sketches.heavy_keys

    def later(*args):
        events.write.format("delta").mode("append").save(path)
        return real(*args)

    monkeypatch.setattr(daily_sketches, "heavy_keys", later)
    found, _ = learn(spark, ready.table, date(2013, 1, 8), relearn=True)
    np.testing.assert_array_equal(found.load, before.load)
    np.testing.assert_array_equal(found.heavy_load, before.heavy_load)


def test_executors_without_our_python(spark, world: World, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/python")
    frame = spark.range(9).selectExpr("string(id) AS dest")
    spec = world.respec(input={"path": "x"}).table.spec
    with pytest.raises(
        InputError, match=r"space_saving needs Python on every executor.*\"/no/python\".*exact"
    ):
        sketch_days(frame, spec, Passes(STRING, 64, 0.01, np.empty(0, np.int64), "space_saving"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["approx_top_k", "space_saving", "lossy_counting"])
def test_sketches_leave_few_keys_to_group(spark, ready: World, monkeypatch, kind: str):
    grouped = []

    def counted(*given):
        grouped.append(given[-1])
        return heavy_keys(*given)

    monkeypatch.setattr(daily_sketches, "heavy_keys", counted)
    plain = learn(spark, ready.table, date(2013, 1, 8))[0]
    ready.respec(sketch=kind)
    monkeypatch.setattr(job, "HEAVY_SHARE", 0.4)  # a tenth of a day's load
    profile = learn(spark, ready.table, date(2013, 1, 8), relearn=True)[0]
    assert grouped[0] is None
    # No more than twice ten a day, of all the keys that there are.
    assert 0 < grouped[1].distinct().count() < ready.events["dest"].nunique() / 2
    np.testing.assert_array_equal(profile.load, plain.load)
    listed = np.isin(plain.heavy, profile.heavy)
    assert 0 < listed.sum() < len(listed)


def test_where_spark_tracks_too_few_items_the_error_says_so():
    sure = Passes(STRING, 64, 1e-4, np.empty(0, np.int64), "approx_top_k")
    assert entries(sure.share) == 2**17 and sure.found == 1e-4
    over = Passes(STRING, 64, 1e-7, np.empty(0, np.int64), "approx_top_k")
    assert entries(over.share) * 0.75 <= 1_000_000
    assert over.found == 7 / entries(over.share) > over.share
    for kind in ("exact", "space_saving", "lossy_counting"):
        assert Passes(STRING, 64, 1e-7, np.empty(0, np.int64), kind).found == 1e-7


def test_member_sql_is_set_membership(spark):
    for members in ([], [0], [63, 64, 127], [5, 999, 1000, 65535]):
        values = sorted({0, 1, 5, 62, 63, 64, 65, 127, 128, 999, 1000, 65534, 65535})
        frame = spark.createDataFrame([(v,) for v in values], "v int")
        found = frame.where(
            F.expr(daily_sketches._member_sql("v", np.array(members, dtype=np.int64)))
        )
        assert [r.v for r in found.collect()] == members
