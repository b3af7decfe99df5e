"""Learn: exact loads, bounded error, incremental sketches, the weight of the state, bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel_spark.events import daily_sketches
from evenkeel_spark.events.daily_sketches import Passes, heavy_keys, sketch_days
from evenkeel_spark.events.heavy_hitters import entries
from evenkeel_spark.events.sketch_store import Sketches
from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.jobs import learn as job
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.tables.delta import state
from partitioning.errors import DamagedError, InputError
from partitioning.function.function import KeyColumn
from partitioning.function.hashing import key_hash, slot_of
from partitioning.workload.profile import Profile
from tests.conftest import World
from tests.support.raw_json import read_json

pytestmark = pytest.mark.spark
STRING = (KeyColumn("dest", "string"),)


def in_window(events: pd.DataFrame, start: str, end: str) -> pd.DataFrame:
    days = events["at"].dt.strftime("%Y-%m-%d")
    return events[(days >= start) & (days < end)]


def test_profile_is_exact_where_it_says_so(spark, ready: World):
    profile, versions = learn(spark, ready.table, date(2013, 1, 8))
    events = in_window(ready.events, "2013-01-01", "2013-01-08")
    counts = events["dest"].value_counts()
    hashes = key_hash([counts.index], ["string"])
    assert profile.events == len(events)
    assert profile.window == ("2013-01-01", "2013-01-08")
    np.testing.assert_array_equal(
        profile.load, np.bincount(slot_of(hashes, 64), counts, minlength=64)
    )
    loads = dict(zip(hashes.tolist(), counts.tolist(), strict=True))
    names = dict(zip(hashes.tolist(), counts.index, strict=True))
    for h, load, name in zip(
        profile.heavy.tolist(), profile.heavy_load, profile.heavy_names, strict=True
    ):
        assert loads[h] - profile.error <= load <= loads[h]
        assert names[h] == name
    unlisted = [n for h, n in loads.items() if h not in set(profile.heavy.tolist())]
    assert max(unlisted, default=0) <= profile.error
    # Every key's row in the state, which holds these very days.
    np.testing.assert_array_equal(profile.rows, np.bincount(slot_of(hashes, 64), minlength=64))
    assert (profile.heavy_rows == 1).all()
    size = sum(
        f.stat().st_size
        for part in ready.table.spec.state.values()
        for f in Path(part.path).glob("channel=*/*.parquet")
    )
    assert profile.bytes.sum() == pytest.approx(size)
    for name, part in ready.table.spec.state.items():
        assert versions[name] == state.table_version(spark, part.path)


def test_only_new_days_are_learned_and_add_up(spark, ready: World, monkeypatch):
    learned: list[list[int]] = []

    def spy(*args):
        found = sketch_days(*args)
        learned.append(sorted(found))
        return found

    monkeypatch.setattr(job, "sketch_days", spy)
    learn(spark, ready.table, date(2013, 1, 8))
    rolled, _ = learn(spark, ready.table, date(2013, 1, 10))
    whole, _ = learn(spark, ready.table, date(2013, 1, 10), relearn=True)
    assert [len(days) for days in learned] == [7, 2, 7]
    np.testing.assert_array_equal(rolled.load, whole.load)
    assert rolled.events == whole.events == len(in_window(ready.events, "2013-01-03", "2013-01-10"))
    stored = sorted(p.name for p in ready.folder.glob("registry/sketches/*/*.npz"))
    assert stored == [f"2013-01-{d:02d}.npz" for d in range(1, 10)]
    # More channels make lighter keys heavy; to fewer, what is stored is fine enough.
    learn(spark, ready.respec(channels=8).table, date(2013, 1, 10))
    learn(spark, ready.respec(channels=4).table, date(2013, 1, 10))
    assert [len(days) for days in learned] == [7, 2, 7, 7]


@pytest.mark.slow
@pytest.mark.parametrize("load", [None, "weight"])
def test_a_table_that_is_watched_knows_the_hours_of_its_days(spark, ready: World, load):
    """What day sketches tell the watch of the hours to come (test_waiting.py)."""

    def hours(**changes: object) -> dict[date, np.ndarray]:
        table = ready.respec(load=load, **changes).table
        learn(spark, table, date(2013, 1, 8), relearn=True)
        key = table.epoch().function.key
        days = [date(2013, 1, d) for d in range(1, 8)]
        return {d: s.hours for d, s in Sketches(table.registry, table.spec, key).read(days).items()}

    assert all(told.size == 0 for told in hours().values()), "nobody asks"
    events = ready.events
    weights = np.ones(len(events)) if load is None else events[load]
    by = [events["at"].dt.date, events["at"].dt.hour]
    expected = pd.Series(weights, events.index).groupby(by).sum().unstack(fill_value=0.0)
    found = hours(watch={})
    assert len(found) == 7
    for day, told in found.items():
        np.testing.assert_allclose(told, expected.loc[day])
    dated = ready.events
    ready.write_events(dated.assign(at=dated["at"].dt.date))
    assert all(told.size == 0 for told in hours().values()), "dates know no hours"


def test_a_day_that_may_still_be_under_way_is_not_stored(spark, ready: World):
    events = ready.events
    noon = pd.Timestamp("2013-01-10 12:00", tz="UTC")
    ready.write_events(events[events["at"] < noon])
    learn(spark, ready.table)
    stored = sorted(p.stem for p in ready.folder.glob("registry/sketches/*/*.npz"))
    assert stored == [f"2013-01-{d:02d}" for d in range(4, 10)]
    ready.write_events(events)
    profile, _ = learn(spark, ready.table, date(2013, 1, 11))
    assert profile.events == len(in_window(events, "2013-01-04", "2013-01-11"))
    # Who gives an end says that the days before it are complete.
    assert (next(ready.folder.glob("registry/sketches/*")) / "2013-01-10.npz").exists()


@pytest.mark.parametrize("year", ["2099-12-31", "9999-12-31"])
def test_events_dated_in_the_future_do_not_move_the_window(spark, ready: World, capsys, year):
    expected, _ = learn(spark, ready.table)
    assert "are dated after today" not in capsys.readouterr().out
    astray = ready.events.iloc[:2].assign(at=datetime.fromisoformat(year).replace(tzinfo=UTC))
    for events in (ready.events, ready.events.iloc[:0]):
        late = pd.concat([events.astype({"at": object}), astray.astype({"at": object})])
        ready.write_events(late)
        if len(events):
            found, _ = learn(spark, ready.table)
            assert (found.window, found.events) == (expected.window, expected.events)
            assert "2 events are dated after today (UTC)" in capsys.readouterr().out
        else:
            with pytest.raises(InputError, match=r"2 events are dated after today.* none before"):
                learn(spark, ready.table)


def test_the_profile_names_the_epoch_whose_function_learned_it(spark, ready: World, monkeypatch):
    """Somebody publishes while this runs: the plan made from it must be refused as too old."""
    table, real = ready.table, job.weigh

    def meanwhile(*args):
        function = table.epoch().function
        table.registry.publish(replace(function, epoch=1, parent=function.digest), {})
        return real(*args)

    monkeypatch.setattr(job, "weigh", meanwhile)
    assert job.main(["--spec", ready.spec_path, "--run", "r1", "--end", "2013-01-08"]) == 0
    assert read_json(table.registry.run("r1"), "profile.json")["epoch"] == 0
    assert table.registry.numbers() == [0, 1]


@pytest.mark.parametrize(("given", "expected"), [(["--relearn", "yes"], 4), ([], 3)])
def test_late_rows_come_with_relearn(spark, ready: World, given, expected):
    day = pd.DataFrame({"dest": ["a"] * 3, "at": [pd.Timestamp("2013-01-05", tz="UTC")] * 3})
    day = day.assign(miles=np.int32(1), weight=1.0)
    ready.write_events(day)
    learn(spark, ready.table, date(2013, 1, 8))
    ready.write_events(pd.concat([day, day[:1]]))
    arguments = ["--spec", ready.spec_path, "--run", "r1", "--end", "2013-01-08", *given]
    assert job.main(arguments) == 0
    run = ready.table.registry.run("r1")
    assert Profile.from_bytes(run.read("profile.npz")).events == expected


def test_another_load_column_is_learned_anew(spark, ready: World):
    by_rows, _ = learn(spark, ready.table, date(2013, 1, 8))
    by_weight, _ = learn(spark, ready.respec(load="weight").table, date(2013, 1, 8))
    events = in_window(ready.events, "2013-01-01", "2013-01-08")
    assert by_rows.load.sum() == len(events)
    assert by_weight.load.sum() == pytest.approx(events["weight"].sum())


def test_explicit_keys_are_listed_however_light(spark, ready: World):
    table, epoch = ready.table, ready.table.epoch()
    light = key_hash([["D199", "not there"]], ["string"])
    function = replace(
        epoch.function,
        epoch=1,
        parent=epoch.function.digest,
        explicit_keys=np.sort(light),
        explicit_channels=np.array([0, 1]),
    )
    table.registry.publish(function, {n: TableVersion("", 1) for n in table.spec.state})
    # No day's share makes any other key heavy.
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(job, "HEAVY_SHARE", 4.0)
        profile, _ = learn(spark, table, date(2013, 1, 15))
    events = in_window(ready.events, "2013-01-08", "2013-01-15")
    assert set(light.tolist()) == set(profile.heavy.tolist())
    at = profile.heavy.tolist().index(int(light[0]))
    assert profile.heavy_load[at] == (events["dest"] == "D199").sum()


def test_keys_are_weighed_by_their_rows_and_hidden_rows_do_not_dilute(spark, ready: World):
    spec, function = ready.table.spec, ready.table.epoch().function
    path = spec.state["totals"].path
    heavy = key_hash([["D000", "D001"]], ["string"])
    order = np.sort(heavy)
    before = weigh(spark, spec, function, order)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE dest = 'D001'")
    after = weigh(spark, spec, function, order)
    gone = np.searchsorted(order, heavy[1])
    assert before.key_rows.tolist() == [1, 1]
    assert after.key_rows[gone] == 0
    assert after.rows.sum() == before.rows.sum() - 1
    assert after.key_bytes[1 - gone] == pytest.approx(before.key_bytes[1 - gone])


def test_without_time_the_whole_input_is_learned_every_time(spark, ready: World):
    # Epoch 0 is what it is; only learning looks at input.time.
    ready.respec(input={"path": "events.parquet"})
    profile, _ = learn(spark, ready.table)
    assert profile.events == len(ready.events)
    assert profile.window == ("", "")
    assert not list(ready.folder.glob("registry/sketches/*/*"))
    with pytest.raises(InputError, match=r"input\.time is not set"):
        learn(spark, ready.table, date(2013, 1, 8))


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
    assert any(" | null" in n for n in sketch.heavy_names) == (policy == "keep")


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


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), None])
def test_a_load_that_is_no_load(spark, world: World, bad):
    spec = world.respec(load="weight", input={"path": "x"}).table.spec
    frame = spark.createDataFrame([("a", 1.0), ("b", bad)], "dest string, weight double")
    with pytest.raises(InputError, match=r"1 events have a load \(weight\) that is null, negative"):
        sketch_days(frame, spec, Passes(STRING, 64, 0.01, np.empty(0, np.int64)))


def break_file(world: World) -> None:
    (world.folder / "events.parquet").write_bytes(b"PAR1 this was a table once PAR1")


def break_middle(world: World) -> None:
    # A footer that reads well over pages that do not.
    path = world.folder / "events.parquet"
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = b"\7" * (len(data) // 2 - 4)
    path.write_bytes(data)


def null_keys(world: World) -> None:
    events = world.events
    events.loc[3, "dest"] = None
    world.write_events(events)


def null_times(world: World) -> None:
    events = world.events
    events.loc[3, "at"] = None
    world.write_events(events)


@pytest.mark.parametrize(
    ("change", "end", "message"),
    [
        (
            None,
            "2014-01-01",
            "no events in the window from 2013-12-25 to 2014-01-01. Its days end before 2013-01-15",
        ),
        (
            lambda w: w.write_events(w.events.iloc[:0].astype({"dest": "string"})),
            None,
            "the input is empty",
        ),
        (lambda w: w.respec(key=["destination"]), None, "there is no column 'destination'"),
        (lambda w: w.respec(load="wait"), None, "there is no column 'wait'"),
        (
            lambda w: w.respec(input={"path": "gone.parquet", "time": "at"}),
            None,
            "there is no parquet input",
        ),
        (
            lambda w: w.respec(input={"path": "events.parquet", "format": "delta", "time": "at"}),
            None,
            "there is no delta input",
        ),
        (break_file, None, "not readable as parquet. Replace or remove the file"),
        (break_middle, "2013-01-08", "not readable as parquet. Replace or remove the file"),
        (null_times, "2013-01-08", "1 events have a null for their time (at)"),
        (null_keys, "2013-01-08", "1 events have a null in the key (dest)"),
        (
            lambda w: w.write_events(w.events.assign(dest=1)),
            None,
            "its key is (dest bigint), the current epoch's is (dest string)",
        ),
        (
            lambda w: w.respec(slots=128),
            "2013-01-08",
            "state was made with slots = 64, the spec says 128",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(spark, ready, capsys, change, end, message):
    if change:
        change(ready)
    arguments = ["--spec", ready.spec_path, "--run", "r1", *(["--end", end] if end else [])]
    assert job.main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line.startswith("evenkeel: error: ") for line in lines] == [True]
    assert message in lines[0]
    assert str(ready.folder) in lines[0]
    registry = ready.table.registry
    assert registry.store.names("runs/r1") == ["error.json"]
    left = read_json(registry.run("r1"), "error.json")
    assert (left["job"], left["exit_code"], left["retry"]) == ("learn", 2, False)
    assert lines[0] == f"evenkeel: error: {left['message']}"
    assert registry.numbers() == [0]


def test_a_torn_sketch_is_named(spark, ready: World):
    learn(spark, ready.table, date(2013, 1, 8))
    torn = next(ready.folder.glob("registry/sketches/*/2013-01-03.npz"))
    torn.write_bytes(torn.read_bytes()[:200])
    with pytest.raises(DamagedError, match=r"2013-01-03\.npz: cannot be read.*learn again"):
        learn(spark, ready.table, date(2013, 1, 8))
    learn(spark, ready.table, date(2013, 1, 8), relearn=True)


def test_main_leaves_profile_and_what_was_weighed(spark, ready: World, capsys):
    assert (
        job.main(["--spec", ready.spec_path, "--run", "scheduled__2013-01-08T00:00:00+00:00"]) == 0
    )
    folder = next((ready.folder / "registry" / "runs").iterdir())
    meta = json.loads((folder / "profile.json").read_text())
    assert meta["epoch"] == 0
    assert meta["tables"] == {"totals": 1}
    assert meta["seconds"] > 0
    assert (folder / "profile.npz").exists()
    assert "window 2013-01-08 to 2013-01-15: 0 days known, learning 7" in capsys.readouterr().out


def test_with_a_decay_the_load_is_a_forecast(spark, ready: World):
    end = date(2013, 1, 8)
    plain, _ = learn(spark, ready.table, end)
    ahead, _ = learn(spark, ready.respec(decay="auto").table, end)
    assert ahead.load.sum() == pytest.approx(plain.load.sum())
    assert ahead.heavy.tolist() == plain.heavy.tolist()
    assert (ahead.load != plain.load).any() and (ahead.bytes == plain.bytes).all()
    assert 0 < plain.chance < 1 and 0 < ahead.chance < 1
