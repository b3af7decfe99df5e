"""Learn: exact loads, bounded error, incremental sketches, and the weight of the state."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from evenkeel.registry.epochs import TableVersion
from evenkeel_spark.events.daily_sketches import sketch_days
from evenkeel_spark.events.sketch_store import Sketches
from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.jobs import learn as job
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.tables.delta import state
from partitioning.errors import InputError
from partitioning.function.hashing import key_hash, slot_of
from partitioning.workload.profile import Profile
from tests.conftest import World
from tests.support.raw_json import read_json

pytestmark = pytest.mark.spark


def in_window(events: pd.DataFrame, start: str, end: str) -> pd.DataFrame:
    days = events["at"].dt.strftime("%Y-%m-%d")
    return events[(days >= start) & (days < end)]


def test_profile_is_exact_where_it_says_so(spark, ready: World):
    profile, weight = learn(spark, ready.table, date(2013, 1, 8))
    versions = weight.versions
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
    footers, size = [], 0.0
    for part in ready.table.spec.state.values():
        files = [*Path(part.path).glob("channel=*/*.parquet")]
        sizes = [f.stat().st_size for f in files]
        size += sum(sizes)
        start = np.polyfit([pq.read_metadata(f).num_rows for f in files], sizes, 1)[1]
        footers.append(start if 0 < start < min(sizes) else min(sizes))
    assert profile.bytes.sum() == pytest.approx(size)
    assert weight.footer == pytest.approx(np.mean(footers))
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


def test_today_is_not_stored_even_if_an_end_after_it_is_asked_for(spark, ready: World):
    today, last = pd.Timestamp.now("UTC").normalize(), pd.Timestamp("2013-01-10", tz="UTC")
    events = ready.events
    events = events[events["at"] < last + pd.Timedelta(days=1)]
    ready.write_events(events.assign(at=events["at"] + (today - last)))
    end = (today + pd.Timedelta(days=1)).date()
    profile, _ = learn(spark, ready.table, end)
    assert profile.events == len(in_window(events, "2013-01-04", "2013-01-11"))
    stored = {p.stem for p in ready.folder.glob("registry/sketches/*/*.npz")}
    assert str(today.date()) not in stored
    assert str((today - pd.Timedelta(days=1)).date()) in stored


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


def test_days_without_events_are_counted(spark, ready: World, capsys):
    learn(spark, ready.table, date(2013, 1, 17))
    assert "2 of 7 days have no events: left out" in capsys.readouterr().out
    learn(spark, ready.table, date(2013, 1, 15))
    assert "no events" not in capsys.readouterr().out


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


def test_without_a_decay_in_the_spec_a_day_weighs_half_of_the_next(spark, ready: World, capsys):
    end = date(2013, 1, 8)
    half, _ = learn(spark, ready.respec(decay=0.5).table, end)
    spec = yaml.safe_load(Path(ready.spec_path).read_text())
    del spec["decay"]
    Path(ready.spec_path).write_text(yaml.safe_dump(spec))
    default, _ = learn(spark, ready.table, end)
    assert (default.load == half.load).all() and default.chance == half.chance
    assert "decay 0.5" in capsys.readouterr().out
