"""What a fence over slot and channel lets through is found and named, and repair places it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Epoch
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.jobs import repair as job
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import constraints
from partitioning.errors import FenceError, GateError, InputError
from partitioning.function.function import PartitioningFunction
from tests.support import delta_rs
from tests.support.delta_rs import ALL, epoch_of, visits
from tests.support.placed import CHANNELS, HEAVY, MOVED, Placed, crashing_at, planned

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def wrong_slot(epoch: Epoch, key: str, slot: int) -> dict[str, int]:
    """Where a row of a key would be in another slot: a pair that the fence admits."""
    assert epoch.lookup_slot([key])[0] != slot
    return {"slot": slot, "channel": int(epoch.function.slots[slot])}


def test_a_stale_row_of_a_key_that_left_its_slot(
    spark: SparkSession, home: Placed, capsys: pytest.CaptureFixture[str]
) -> None:
    migration = home.migration("r1")
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    stale, now = epoch_of(migration.before), home.table.epoch()
    assert stale.lookup([HEAVY]) != now.lookup([HEAVY])
    delta_rs.append(home.path(), stale, {HEAVY: 5})
    with pytest.raises(AssertionError):
        visits(spark, home, migration.after)
    version = home.version(spark)
    planned(spark, home, "r2", function=_next(now), profile=None)
    with pytest.raises(InputError, match="not where their key belongs .1, such") as error:
        migrate(spark, home.migration("r2"))
    assert f"key '{HEAVY}'" in str(error.value) and "evenkeel repair people" in str(error.value)
    assert home.version(spark) == version
    (fault,) = repair(spark, home.table, dry_run=True)
    assert f"key '{HEAVY}' in slot" in fault.wrong and home.version(spark) == version
    capsys.readouterr()
    assert job.main(["--spec", str(home.spec_path)]) == 0
    assert f"that of key '{HEAVY}' in slot" in capsys.readouterr().out
    # Its visits were added to the key's own row.
    assert visits(spark, home, migration.after) == {**ALL, HEAVY: ALL[HEAVY] + 5}
    assert repair(spark, home.table) == []


def _next(epoch: Epoch) -> PartitioningFunction:
    owners = epoch.function.slots.copy()
    owners[1] = (owners[1] + 1) % CHANNELS
    return replace(
        epoch.function, slots=owners, epoch=epoch.number + 1, parent=epoch.function.digest
    )


def test_a_row_with_a_wrong_slot_is_found_before_rows_move(
    spark: SparkSession, home: Placed
) -> None:
    migration = home.migration("r1")
    epoch = home.table.epoch()
    delta_rs.append(home.path(), epoch, {"new": 3}, **wrong_slot(epoch, "new", MOVED[0]))
    with pytest.raises(InputError, match="key 'new' in slot 0 on channel 0"):
        migrate(spark, migration)
    repair(spark, home.table)
    assert visits(spark, home, migration.before) == {**ALL, "new": 3}


@pytest.mark.parametrize("in_the_way", [True, False], ids=["of a moving slot", "elsewhere"])
def test_one_that_comes_while_others_move_stops_them_and_is_not_lost(
    spark: SparkSession, home: Placed, in_the_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = home.migration("r1")
    epoch = epoch_of(migration.before)
    with crashing_at("unsealing", monkeypatch):
        migrate(spark, migration)
    slot = MOVED[0] if in_the_way else 1
    keys = [f"n{i}" for i in range(99)]
    key = next(k for k in keys if epoch.lookup([k]) not in (epoch.function.slots[slot], 1))
    delta_rs.append(home.path(), epoch, {key: 3}, **wrong_slot(epoch, key, slot))
    why = "a row that is out of place" if in_the_way else "Every row is where the function says"
    with pytest.raises((FenceError, GateError), match=why):
        _move(spark, migration)
    with pytest.raises(FenceError, match="evenkeel repair people"):
        roll_back(spark, migration)
    repair(spark, home.table)
    assert visits(spark, home, migration.before) == {**ALL, key: 3}
    assert repair(spark, home.table) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", ["deciding to repair", "opening repair", "repairing", "placed"])
def test_a_repair_that_is_killed_goes_on(
    spark: SparkSession, home: Placed, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = home.table.epoch()
    delta_rs.append(home.path(), epoch, {"new": 3}, **wrong_slot(epoch, "new", 5))
    with crashing_at(step, monkeypatch):
        repair(spark, home.table)
    if step != "deciding to repair":
        # No wrong row comes after its constraint.
        where = wrong_slot(epoch, "more", 5)
        delta_rs.refused(home.path(), epoch, {"more": 3}, delta_rs.UNKNOWN, **where)
    repair(spark, home.table)
    assert visits(spark, home, epoch.function) == {**ALL, "new": 3}


def _move(spark: SparkSession, migration: Migration) -> None:
    migrate(spark, migration)
    verify(spark, migration)


def refenced(home: Placed, fence: str) -> Placed:
    spec = yaml.safe_load(home.spec_path.read_text())
    home.spec_path.write_text(yaml.safe_dump({**spec, "fence": fence}))
    return Placed(Table(load_spec(home.spec_path)), home.spec_path, home.names)


@pytest.mark.parametrize("begun", [False, True], ids=["at rest", "half moved"])
def test_repair_changes_the_fence_to_that_of_the_spec(
    spark: SparkSession, home: Placed, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch, now = home.table.epoch(), home
    if begun:
        with crashing_at("unsealing", monkeypatch):
            migrate(spark, home.migration("r1"))
    delta_rs.append(home.path(), epoch, {"new": 3}, **wrong_slot(epoch, "new", 5))
    for fence in ("key", "slot"):
        now = refenced(now, fence)
        with pytest.raises(FenceError, match="evenkeel repair people"):
            constraints.check_admits(spark, now.table.spec, epoch.function)
        with pytest.raises(FenceError, match="which is not this plan's"):
            migrate(spark, now.migration("r1"))
        repair(spark, now.table)
        assert visits(spark, now, epoch.function) == {**ALL, "new": 3}
        constraints.check_admits(spark, now.table.spec, epoch.function)


def test_all_rows_of_a_key_are_forgotten(spark: SparkSession, home: Placed) -> None:
    epoch = home.table.epoch()
    delta_rs.append(home.path(), epoch, {"k9": 3}, **wrong_slot(epoch, "k9", 5))
    # The spec may be ahead of the constraint.
    for table, rows in ((home.table, 2), (refenced(home, "key").table, 2)):
        assert forget(spark, table, ["k9"], dry_run=True) == {"visits": rows}
    assert forget(spark, home.table, ["k9"]) == {"visits": 2}
    assert forget(spark, home.table, ["k9"]) == {"visits": 0}
