"""The watch on real tables: light epochs as skew comes and goes, and what holds them back."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel.pipeline import steps
from evenkeel.registry.files.migration_records import MigrationRecord, TableMigrated
from evenkeel.spec.run_params import Params
from evenkeel.watch.state_file import watch_record
from evenkeel_spark.events.sketch_store import Sketches
from evenkeel_spark.jobs import learn
from evenkeel_spark.jobs.apply_window import merge_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.learn import learn as learn_window
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.watching.micro_batch import measure_batch
from evenkeel_spark.watching.streaming import carry_out
from partitioning.errors import DamagedError
from partitioning.function.channels import Channel
from partitioning.function.hashing import Hashes, key_hash
from partitioning.workload.profile import Floats, Sketch
from tests.conftest import FIRST_DAY
from tests.support.placed import crashing_at
from tests.support.raw_json import table_moved, write_json
from tests.support.state_tables import drop_constraint
from tests.support.worlds.live import CHANNELS, FAIR, FIRST, HOT, SPEC, Live

pytestmark = [pytest.mark.spark, pytest.mark.slow]
#: Of a sketch: none is listed.
NO_KEYS: tuple[Hashes, Floats, tuple[str, ...]] = (np.zeros(0, np.int64), np.zeros(0), ())


def hashed(key: str) -> int:
    (found,) = key_hash([[key]], ["string"]).tolist()
    return int(found)


def partials(spark: SparkSession, live: Live) -> int:
    path = live.table.spec.state["totals"].path
    return spark.read.format("delta").load(path).where(f"dest = '{HOT}'").count()


def test_helpers_have_their_copies_before_they_help(spark: SparkSession, tmp_path: Path) -> None:
    live, cities = (
        Live(tmp_path),
        {"path": "cities", "columns": {"city": {"merge": "copy", "of": "city"}}},
    )
    spec = {**SPEC, "state": {**SPEC["state"], "cities": cities}}
    Path(live.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    live.batch(0, 0.1, city="C")
    bootstrap(spark, live.table)
    assert not live.look(spark, 0)
    live.batch(2, 4.0, city="C").apply(spark, 0, 2)
    merge_window(
        spark, live.table.spec, "cities", live.window(spark, 0, 2), live.table.epoch().function
    )
    assert live.turn(spark, 2) == 1
    (owners,) = live.table.epoch().function.split.to_dict()["owners"]
    rows = spark.read.format("delta").load(live.table.spec.state["cities"].path)
    held = {r["channel"]: r["city"] for r in rows.where(f"dest = '{HOT}'").collect()}
    assert held == dict.fromkeys(owners, "C") and len(owners) > 1
    plan = steps.read_plan(live.table.registry.run("w2"))
    assert plan.bytes > 0 and sum(m.rows for m in plan.moves) == len(owners) - 1


def test_no_more_share_a_key_than_the_budget_pays_to_hand_back(
    spark: SparkSession, live: Live, tmp_path: Path
) -> None:
    live.batch(2, 4.0).apply(spark, 0, 2)
    other = Live(tmp_path / "other")
    shutil.copytree(live.folder, other.folder)
    live.respec(budget=0)
    assert not live.look(spark, 2)
    (size,) = re.findall(r"([0-9,]+) bytes would move to hand it back", live.known.outcome)
    assert "hand it back, the budget is 0" in live.known.outcome
    # It pays for two helpers of three, and 2% for what Delta adds.
    other.respec(budget=int(size.replace(",", "")) * 2 * 102 // 300 + 2)
    assert other.turn(spark, 2) == 1
    assert len(other.table.epoch().function.split.channels) == 3


def test_micro_batches_that_came_while_nobody_looked_wait_too(
    spark: SparkSession, live: Live
) -> None:
    """More than are remembered."""
    home = int(live.table.epoch().lookup([HOT])[0])
    begun = live.known
    for number in range(1, 6):
        live.batch(number, 8.0)
    assert not live.look(spark, 5, busy="rebalance_trips is running")
    assert len(live.known.watch.sample) == live.watching.memory == 2
    waiting = begun.backlog[home]
    totals = [FAIR * CHANNELS + int(0.1 * FAIR), *[FAIR * (CHANNELS + 8)] * 5]
    for number in range(1, 6):
        # A mean channel's load of those that are remembered, and of the new one.
        usual = np.mean(totals[max(number - 2, 0) : number + 1]) / CHANNELS
        waiting += 9 * FAIR - live.watching.speed * usual
    assert live.known.backlog[home] == pytest.approx(waiting)


def test_a_key_turns_hot_is_split_and_handed_back(
    spark: SparkSession, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = int(live.table.epoch().lookup([HOT])[0])
    live.batch(2, 4.0)
    assert live.apply(spark, 0, 2)[home] > 5 * FAIR, "it has turned hot"
    for step in ("decided", "folded"):
        with crashing_at(step, monkeypatch):
            live.look(spark, 2)
    assert live.look(spark, 2) and len(live.known.watch.sample) == 2
    outcome = live.known.outcome
    assert outcome.startswith(f"the watch, batch {FIRST + 2}: HOT goes to channel ")
    assert f"until {home} has caught up" in outcome

    # Killed while it verifies; started again, the same look says the same, and it goes on.
    with crashing_at("measured", monkeypatch):
        carry_out(spark, live.table, live.spec_path, "w2")
    assert live.known.watch.spread == {}, "it holds for moved what is not"
    assert live.turn(spark, 2) == 1
    function = live.table.epoch().function
    assert len(function.split) == 1 and home in function.split.channels
    plan = steps.read_plan(live.table.registry.run("w2"))
    assert plan.bytes == 0 and {m.reason for m in plan.moves} == {outcome}

    # The very next batch is as even as it gets while one catches up.
    live.batch(3, 4.0).batch(4, 4.0)
    loads = live.apply(spark, 3, 4)
    assert max(loads) < 1.3 * sum(loads) / CHANNELS and loads[home] == 2 * FAIR
    assert live.turn(spark, 4) == 2, "the helpers have caught up, and share from now on"
    assert f"HOT is shared by channel {', '.join(map(str, range(CHANNELS)))}" in live.known.outcome

    # Calm again. A key moves at most twice in 20 batches; and the job has not run for a while.
    for number in (22, 23, 24):
        live.batch(number, 0.1)
    live.apply(spark, 22, 23, 24)
    partials = spark.read.format("delta").load(live.table.spec.state["totals"].path)
    partials = partials.where(f"dest = '{HOT}'")
    assert partials.count() == CHANNELS
    live.respec(budget=0)
    assert not live.look(spark, 23)
    assert "bytes would move, the budget is 0" in live.known.outcome
    live.respec(budget=None)
    assert live.turn(spark, 24) == 3
    assert f"HOT goes back to channel {home}" in live.known.outcome
    function = live.table.epoch().function
    assert len(function.split) == 0 and function.lookup([HOT]).tolist() == [home]
    assert partials.count() == 1
    live.check(spark)
    assert live.known.settled(live.table.epoch(), "w25", live.watching).watch.spread == {}


@pytest.mark.parametrize("more", [0, 1])
def test_what_an_older_epoch_has_routed_tells_nothing(
    spark: SparkSession, live: Live, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    def overtaken(*given: Any) -> Any:
        """Somebody publishes while a micro-batch is measured."""
        found, epoch = measure_batch(*given), live.table.epoch()
        channels = (*epoch.function.channels, *[Channel("new")] * more)
        moved = replace(epoch.function, epoch=1, parent=epoch.function.digest, channels=channels)
        live.table.registry.publish(moved, epoch.tables, "another's plan")
        return found

    live.batch(2, 4.0)
    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.watching.evaluate.measure_batch", overtaken)
        assert not live.look(spark, 2)
    assert "routed by epoch 0: they tell nothing of 1" in live.known.outcome
    watch = live.known.watch
    assert watch.last == FIRST + 2 and len(watch.sample) == 0 and not live.known.backlog.any()


def test_what_holds_the_watch_back(
    spark: SparkSession, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One story of looks at one skew, none of which may act."""
    live.batch(2, 4.0)
    # Another run moves state, as Airflow tells, or as the tables do.
    assert not live.look(spark, 2, busy="rebalance_trips is running")
    assert live.known.outcome.endswith("400 events, stepping back: rebalance_trips is running")
    path, epoch = live.table.spec.state["totals"].path, live.table.epoch()
    moving = constraints.moving_name(1)
    constraints.add(spark, path, moving, constraints.rule(epoch.function))
    live.batch(3, 4.0)
    assert not live.look(spark, 3)
    assert "has the constraint evenkeel_epoch_0, evenkeel_moving_1" in live.known.outcome
    drop_constraint(spark, path, moving)
    # Both batches count, once.
    assert [b[1].get(hashed(HOT)) for b in live.known.watch.sample.batches] == [200, 200]
    known = replace(live.known, outcome="no new micro-batch")
    assert not live.look(spark, 3) and watch_record(live.known).plain == watch_record(known).plain

    # Killed as it has decided, and held back when it looks again: nothing of it is left.
    live.batch(4, 4.0)
    run = live.table.registry.run("w4")
    with crashing_at("decided", monkeypatch):
        live.look(spark, 4)
    left = ("decision.json", "params.json", "profile.json", "profile.npz", "watched.json")
    assert all(map(run.exists, left)) and live.known.watch.last == FIRST + 3
    assert not live.look(spark, 4, busy="rebalance_trips is running")
    assert not any(map(run.exists, left))

    live.batch(5, 4.0)
    assert not live.look(spark, 5, until=FIRST_DAY + timedelta(hours=23, minutes=57))
    assert "stepping back: the daily run is due" in live.known.outcome

    # Little is lost until the daily run comes, and moving takes long.
    store = live.table.registry.store
    work = [{"channel": c, "rows": 1000, "seconds": 0.1} for c in range(CHANNELS)]
    write_json(live.table.registry.files, "windows/2013-01-01.json", {"channels": work})
    tables = {"totals": TableMigrated(**table_moved(bytes=1000, seconds=200.0))}
    slow = MigrationRecord(digest="", epoch=0, tables=tables)
    live.table.registry.archive(0).migration.write(slow)
    live.batch(6, 4.0)
    assert not live.look(spark, 6)
    assert "not now: the watch, batch" in live.known.outcome
    assert "less than the 400.0 s of moving there and back" in live.known.outcome
    # Much would be, would it go on so; but that weekday has been quiet from its second hour on.
    work = [{**channel, "seconds": 1e4} for channel in work]
    write_json(live.table.registry.files, "windows/2013-01-01.json", {"channels": work})
    key, load = epoch.function.key, np.ones(256)
    week_ago = Sketch(load, *NO_KEYS, 0.0, 256, hours=np.eye(24)[0] * 1e-9)
    Sketches(live.table.registry, live.table.spec, key).write(date(2012, 12, 25), week_ago)
    live.batch(7, 4.0)
    assert not live.look(spark, 7)
    assert "waiting for the daily run costs 0.0 s, less than the 400.0 s" in live.known.outcome

    # A run that learns, or has, and one that has planned, and waits for somebody to approve.
    def meanwhile(*given: Any) -> Any:
        assert not live.batch(8, 4.0).look(spark, 8)
        assert "stepping back: run daily learns at epoch 0" in live.known.outcome
        return learn_window(*given)

    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.jobs.learn.learn", meanwhile)
        assert learn.main(["--spec", live.spec_path, "--run", "daily", "--end", "2013-01-02"]) == 0
    assert live.known.watch.last == FIRST + 8
    assert not live.batch(9, 4.0).look(spark, 9)
    assert "stepping back: run daily learns at epoch 0" in live.known.outcome
    steps.plan(live.spec_path, "daily", Params(force=True))
    assert not live.batch(10, 4.0).look(spark, 10)
    assert "stepping back: run daily has planned from epoch 0" in live.known.outcome

    # Nothing of all that was left for any run, and no epoch was published.
    assert live.table.epoch().number == 0
    assert steps.plan_watch(live.spec_path, "w10") is None
    data = json.loads(store.read("watch.json"))
    write_json(live.table.registry.files, "watch.json", {**data, "epoch": 7})
    with pytest.raises(DamagedError, match="does not fit its content. Delete it: the watch then"):
        live.look(spark, 10)
