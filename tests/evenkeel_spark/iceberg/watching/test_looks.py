"""The watch on Iceberg tables: whole keys move within the day, and go back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.pipeline import steps
from evenkeel.registry.files.migration_records import PlanMark
from evenkeel.registry.files.records import MovingMark
from evenkeel.registry.store_errors import StoreError
from evenkeel_spark.iceberg import verify as verifying
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.watching.streaming import stream
from partitioning.errors import FenceError
from tests.support.iceberg.stages import Stages
from tests.support.iceberg.tables import both, placed
from tests.support.iceberg.watched import ONE, SECOND_DAY, TEAM, THREE, TWO, Watched
from tests.support.worlds.live import HOT

pytestmark = pytest.mark.spark


def begin(stages: Stages, name: str) -> tuple[SparkSession, Watched]:
    return stages.back(name).spark, Watched(stages.now)


def test_an_even_micro_batch_moves_nothing(watched: Stages) -> None:
    lake, live = begin(watched, "calm")
    before = IcebergTable(lake, "lake.db.totals").head()
    live.batch(ONE, 0.1)
    assert live.turn(lake, ONE) is None
    assert live.known.outcome.endswith(": 205 events, nothing to decide")
    assert steps.plan_watch(live.spec_path, f"w{ONE}") is None
    assert IcebergTable(lake, "lake.db.totals").head() == before
    live.check(lake)


def test_a_hot_key_moves_as_a_whole_and_comes_back(watched: Stages) -> None:
    lake, live = begin(watched, "hot")
    pair = [HOT, live.twin]
    (home,) = set(live.table.epoch().lookup(pair).tolist())
    assert live.turn(lake, ONE) == 1
    plan = steps.read_plan(live.table.registry.run(f"w{ONE}"))
    assert plan.moves and plan.bytes > 0 and {m.reason for m in plan.moves} == {live.known.outcome}
    assert f"{HOT} goes to channel" in live.known.outcome
    assert live.table.epoch().lookup(pair).tolist().count(home) == 1
    live.check(lake)
    # Calm again, for as long as the watch remembers.
    live.batch(TWO, 0.1).batch(THREE, 0.1)
    assert live.turn(lake, THREE) == 2
    assert f"{HOT} goes back to channel {home}: its skew is gone" in live.known.outcome
    assert live.table.epoch().lookup(pair).tolist() == [home, home]
    live.check(lake)


def test_a_key_of_most_of_the_load_is_not_split_and_the_watch_says_why(watched: Stages) -> None:
    lake, live = begin(watched, "calm")
    home = live.table.epoch().lookup([HOT])[0]
    live.hot_pair(ONE, 8.0, 1.0)
    assert live.turn(lake, ONE) == 1
    profile = live.table.registry.run(f"w{ONE}").profile.read()
    assert profile.heavy_load.max() > 0.6 * profile.load.sum()
    # Another key has left it alone there.
    function = live.table.epoch().function
    assert len(function.split) == 0 and function.lookup([HOT])[0] == home
    assert function.lookup([live.twin])[0] != home
    live.hot_pair(TWO, 8.0, 1.0)
    assert live.turn(lake, TWO) is None
    why = "all of HOT is more than has to go from its channel, and no key of such tables is shared"
    assert live.known.outcome.endswith(f"nothing to decide: {why}")
    assert live.table.epoch().number == 1
    live.check(lake)


def test_whole_keys_of_a_teams_own_tables_move(lake: SparkSession, tmp_path: Path) -> None:
    live = Watched(tmp_path).write_spec(TEAM)
    live.batch(0, 0.1)
    events = lake.read.parquet(str(tmp_path / "events"))
    profiles = events.groupBy("dest").agg(F.max("miles").alias("most"))
    for name, rows in ("orders", events), ("profiles", profiles):
        made = rows.writeTo(f"lake.db.{name}").using("iceberg")
        made.tableProperty("format-version", "3").create()
    adopt(lake, live.table)
    before = both(lake)
    live.batch(SECOND_DAY, 0.1)
    assert live.turn(lake, SECOND_DAY) is None
    live.hot_pair(ONE)
    assert live.turn(lake, ONE) == 1 and HOT in live.known.outcome
    assert both(lake) == before and placed(lake, live)


def killed(*_: Any) -> None:
    raise RuntimeError("killed")


def refused(*_: Any) -> None:
    raise FenceError("others wrote during each of 10 moves", "totals", "Run verify again")


def down(*_: Any) -> None:
    raise StoreError("cannot be written", "registry")


@pytest.mark.parametrize(
    ("fails", "raised"), [(killed, StreamingQueryException), (down, StoreError)]
)
def test_a_stream_that_has_ended_goes_on_with_its_move(
    watched: Stages, monkeypatch: pytest.MonkeyPatch, fails: Any, raised: type[Exception]
) -> None:
    lake, live = begin(watched, "hot")
    checkpoint = str(live.folder / "checkpoint")
    with monkeypatch.context() as patch:
        patch.setattr(verifying, "verify", fails)
        with pytest.raises(raised):
            stream(lake, live.table, live.spec_path, checkpoint, available_now=True, files=1)
    (run,) = live.table.registry.files.moving_runs()
    assert find_half_moved(live.table.registry, live.table.registry.run(run)) is not None
    lake = watched.anew().spark
    stream(lake, live.table, live.spec_path, checkpoint, available_now=True, files=1)
    assert live.table.epoch().number == 1 and live.known.watch.last == 2
    live.check(lake)


def test_a_stream_that_was_killed_as_it_had_published_sees_to_late_rows(
    watched: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, live = begin(watched, "hot")
    checkpoint = str(live.folder / "checkpoint")
    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.iceberg.publish.settle_tables", killed)
        with pytest.raises(StreamingQueryException):
            stream(lake, live.table, live.spec_path, checkpoint, available_now=True, files=1)
    assert live.table.epoch().number == 1
    lake = watched.anew().spark
    lake.sql(f"UPDATE lake.db.totals SET channel = (channel + 1) % 4 WHERE dest = '{HOT}'")
    stream(lake, live.table, live.spec_path, checkpoint, available_now=True, files=1)
    assert live.table.epoch().number == 1 and live.known.watch.last == 2
    live.check(watched.anew().spark)


def test_a_stream_rolls_back_what_cannot_pass_and_goes_on(
    watched: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, live = begin(watched, "hot")
    live.hot_pair(TWO)
    checkpoint, verify, failed = str(live.folder / "checkpoint"), verifying.verify, [refused]

    def first_refused(*given: Any) -> None:
        (failed.pop() if failed else verify)(*given)

    monkeypatch.setattr(verifying, "verify", first_refused)
    stream(lake, live.table, live.spec_path, checkpoint, available_now=True, files=1)
    assert not failed and live.known.watch.last == 3
    assert live.table.epoch().number == 1, live.known.outcome
    live.check(lake)


@pytest.mark.parametrize("left", ["a claim", "a torn record"])
def test_a_look_steps_back_from_what_a_dead_run_has_left(watched: Stages, left: str) -> None:
    lake, live = begin(watched, "hot")
    files, run = live.table.registry.files, live.table.registry.run("r0")
    if left == "a claim":
        files.claim(1).create(PlanMark(digest="f" * 64))
    else:
        run.write("migration.json", b"{")
        files.moving("r0").write(MovingMark(run="r0"))
    assert live.turn(lake, ONE) is None
    told = "is about to publish epoch 1" if left == "a claim" else "migration.json"
    assert "stepping back: " in live.known.outcome and told in live.known.outcome
