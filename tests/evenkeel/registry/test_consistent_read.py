"""Several state tables read as one epoch has them, at every point of a migration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from evenkeel.registry import consistent_read
from evenkeel.registry.consistent_read import Change, newest_under
from evenkeel.registry.epochs import Epoch
from evenkeel_spark.tables.delta import state
from partitioning.errors import FenceError
from tests.chaos.home import bootstrapped, task
from tests.conftest import World

pytestmark = pytest.mark.spark

HISTORY = [
    Change(8),
    Change(7, dropped="evenkeel_moving_1"),
    Change(6, added="evenkeel_epoch_1"),
    Change(5),
    Change(4, dropped="evenkeel_epoch_0"),
    Change(3, added="evenkeel_moving_1"),
    Change(2),
    Change(1, added="evenkeel_epoch_0"),
    Change(0),
]


@pytest.mark.parametrize(
    ("newest", "stand", "epochs"),
    [
        (8, {"epoch_1"}, {0: 2, 1: 8}),
        (7, {"epoch_1"}, {0: 2, 1: 7}),
        (6, {"epoch_1", "moving_1"}, {0: 2, 1: None}),
        (5, {"moving_1"}, {0: 2, 1: None}),
        (3, {"epoch_0", "moving_1"}, {0: 2, 1: None}),
        (2, {"epoch_0"}, {0: 2, 1: None}),
        (0, set(), {0: None}),
    ],
)
def test_the_newest_version_under_one_epoch_alone(
    newest: int, stand: set[str], epochs: dict[int, int | None]
) -> None:
    changes = [c for c in HISTORY if c.version <= newest]
    ours = {f"evenkeel_{name}" for name in stand}
    for epoch, version in epochs.items():
        assert newest_under(epoch, ours | {"somebody_s"}, changes) == version


def test_a_constraint_of_the_team_that_goes_while_rows_move_changes_no_answer() -> None:
    begins = [Change(7, added="evenkeel_moving_2"), *HISTORY[2:]]
    stand = {"evenkeel_epoch_1", "evenkeel_moving_2"}
    for history in (
        [Change(9), Change(8, dropped="positive"), *begins],
        [Change(9), Change(8, dropped="positive"), begins[0], Change(6, added="positive")],
    ):
        assert newest_under(1, stand, history) == 6


def channels(rows: dict[str, DataFrame]) -> dict[str, tuple[int, int]]:
    """Channel of each key in both tables."""
    one, other = (dict(rows[n].select("dest", "channel").collect()) for n in ("totals", "seen"))
    assert one.keys() == other.keys()
    return {key: (channel, other[key]) for key, channel in one.items()}


def assert_one(epoch: Epoch, found: dict[str, tuple[int, int]]) -> None:
    keys = list(found)
    owners = epoch.lookup(keys).tolist()
    assert [found[k] for k in keys] == [(c, c) for c in owners]


@pytest.mark.slow
def test_readers_see_all_tables_before_or_all_after(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = bootstrapped(spark, tmp_path / "home", both=True)
    for step in ("learn", "decide", "plan", "validate_plan"):
        task(spark, world, step)
    table = world.table
    paths = {n: t.path for n, t in table.spec.state.items()}

    def look(number: int) -> dict[str, int]:
        found = table.snapshot(spark)
        assert found.epoch.number == number
        assert_one(found.epoch, channels(dict(found.rows)))
        return dict(found.versions)

    def newest() -> dict[str, int]:
        return {name: state.table_version(spark, path) for name, path in paths.items()}

    start = look(0)
    assert start == newest()
    seen: list[str] = []
    torn = 0

    def pause(reached: str) -> None:
        nonlocal torn
        seen.append(reached)
        assert look(0) == start
        now = channels({n: state.read_newest(spark, p)[0] for n, p in paths.items()})
        torn += any(one != other for one, other in now.values())

    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.runtime.crash_point.reached", pause)
        task(spark, world, "migrate")
        task(spark, world, "verify")
    assert {"unsealed", "moved", "sealing", "sealed"} <= set(seen)
    # Else there was nothing to see.
    assert torn
    task(spark, world, "publish")
    assert look(1) == newest()


def test_what_cannot_be_seen_is_said(spark: SparkSession, ready: World) -> None:
    table, path = ready.table, ready.table.spec.state["totals"].path
    looked: list[int] = []

    def changing(spark: SparkSession, path: str, limit: int) -> list[Change]:
        looked.append(limit)
        return [Change(len(looked), added="evenkeel_moving_1" if limit > 1 else None)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consistent_read, "_changes", changing)
        with pytest.raises(FenceError, match="changed at each of 10 looks"):
            table.snapshot(spark)
    assert len(looked) == 20
    spark.sql(f"ALTER TABLE {state.sql_name(path)} DROP CONSTRAINT evenkeel_epoch_0")
    # Even so: as it was before that.
    assert table.snapshot(spark).versions == {"totals": state.table_version(spark, path) - 1}
    with pytest.raises(FenceError, match="no version left at which epoch 3"):
        consistent_read.consistent_snapshot(
            spark, replace(table.epoch(), number=3), {"totals": path}
        )
