"""Ways out: rows in a wrong channel, a claim without a run, main rolled back, a new registry."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.inspect.half_moved import half_moved
from evenkeel.registry.files.migration_records import PlanMark
from evenkeel.registry.pruning import may_move
from evenkeel_spark.iceberg import publish as publishing
from evenkeel_spark.iceberg import verify as verifying
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.placing import count_misplaced
from evenkeel_spark.iceberg.release import release
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.iceberg.table import IcebergTable
from partitioning.errors import DamagedError, FenceError, InputError
from tests.conftest import World
from tests.support.iceberg.stages import NAMES, Stages, meanwhile
from tests.support.iceberg.tables import both, placed, planned, rebalanced

pytestmark = pytest.mark.spark


class Killed(BaseException):
    """The process ends here."""


def killed_at_the_claim(
    monkeypatch: pytest.MonkeyPatch,
    lake: SparkSession,
    migration: Migration,
    act: Callable[[], object] = lambda: None,
) -> None:
    """Verify ends once it has claimed its epoch, after somebody has acted."""

    def at(step: str) -> None:
        if step == "claimed":
            act()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.runtime.crash_point.reached", at)
        with pytest.raises(Killed):
            verify(lake, migration)


def test_rows_in_a_wrong_channel_are_placed(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    rows = lake.table("lake.db.orders").limit(30)
    wrong = rows.withColumn("channel", (F.col("channel") + 1) % 4)
    wrong.writeTo("lake.db.orders").append()
    before = both(lake)
    assert repair(lake, team.table, dry_run=True) == ["orders"] and not placed(lake, team)
    assert repair(lake, team.table) == ["orders"]
    assert both(lake) == before and placed(lake, team)
    assert repair(lake, team.table) == []


def test_a_claim_of_a_run_that_is_gone_is_given_up_when_asked(
    lake: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    team.table.registry.files.claim(1).create(PlanMark(digest="f" * 64))
    with pytest.raises(FenceError, match="ffffffffffff is about to publish epoch 1"):
        migrate(lake, migration)
    repair(lake, team.table)
    assert "--registry-older gives that plan up" in capsys.readouterr().out
    repair(lake, team.table, registry_older=True)
    migrate(lake, migration)
    verify(lake, migration)
    assert team.table.epoch().number == 1 and placed(lake, team)


def test_tables_that_a_run_without_a_record_has_shut_are_opened(stages: Stages) -> None:
    case = stages.go("verified")
    before = case.rows()
    assert [case.table(name).epoch() for name in NAMES] == [1, 1]
    case.world.table.registry.run("r1").write("migration.json", b"{")
    assert stages.anew().repair() == list(NAMES)
    stages.anew().check(before, 0)


def test_a_table_that_no_run_has_moved_yet_is_opened(lake: SparkSession, kept: World) -> None:
    """Bootstrap made it, so no commit names an epoch."""
    name = kept.table.spec.state["totals"].path
    lake.sql(f"ALTER TABLE {name} RENAME COLUMN slot_0 TO slot_1")
    assert repair(lake, kept.table) == ["totals"]
    assert IcebergTable(lake, name).epoch() == 0
    assert repair(lake, kept.table) == []


@pytest.mark.parametrize("torn", ["plan.json", "verify.json"])
def test_a_run_with_a_claim_and_a_lost_file_is_given_up_when_asked(
    lake: SparkSession,
    team: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    torn: str,
) -> None:
    adopt(lake, team.table)
    before = both(lake)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)

    killed_at_the_claim(monkeypatch, lake, migration)
    migration.run.write(torn, b"{")
    with pytest.raises(DamagedError, match=torn):
        repair(lake, team.table)
    assert "--registry-older gives the plan up" in capsys.readouterr().out
    repair(lake, team.table, registry_older=True)
    assert both(lake) == before and placed(lake, team) and team.table.epoch().number == 0
    assert half_moved(team.table.registry, ["r1"]) is None
    if torn == "verify.json":
        # Its job is cleared, and has the verdict to publish.
        with pytest.raises(FenceError, match="its plan was withdrawn"):
            verify(lake, migration)
    rebalanced(lake, team, "r2", capacities=(1, 1, 1, 0.3))
    assert team.table.epoch().number == 1 and both(lake) == before and placed(lake, team)


def test_a_run_with_a_claim_whose_table_was_dropped_is_given_up_when_asked(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    killed_at_the_claim(monkeypatch, lake, migration)
    lake.sql("DROP TABLE lake.db.profiles")
    file = Path(team.spec_path)
    spec = yaml.safe_load(file.read_text())
    del spec["state"]["profiles"]
    file.write_text(yaml.safe_dump(spec, sort_keys=False))
    with pytest.raises((FenceError, InputError), match="profiles|state"):
        repair(lake, team.table)
    repair(lake, team.table, registry_older=True)
    registry = team.table.registry
    assert registry.files.claimed_epochs() == [] and half_moved(registry, ["r1"]) is None
    orders = IcebergTable(lake, "lake.db.orders")
    assert orders.epoch() == 0 and orders.branches() == []
    assert count_misplaced(orders, team.table.epoch().function) == 0
    assert repair(lake, team.table) == []


def test_claims_of_epochs_that_an_older_registry_lacks_are_given_up_together(
    lake: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    adopt(lake, team.table)
    files = team.table.registry.files
    for number in (1, 2, 3):
        files.claim(number).create(PlanMark(digest=f"{number}" * 64))
    repair(lake, team.table, dry_run=True, registry_older=True)
    assert capsys.readouterr().out.count("--registry-older gives that plan up") == 3
    assert files.claimed_epochs() == [1, 2, 3]
    repair(lake, team.table, registry_older=True)
    assert files.claimed_epochs() == []


@pytest.mark.parametrize("torn", ["plan", "migration"])
def test_a_run_with_a_torn_file_has_ended_once_the_tables_are_in_order(
    lake: SparkSession, team: World, torn: str
) -> None:
    adopt(lake, team.table)
    registry, before = team.table.registry, both(lake)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    migration.run.write(f"{torn}.json", b"{")
    repair(lake, team.table, dry_run=True)
    assert may_move(registry, "r1", 0)
    assert repair(lake, team.table) == ["orders", "profiles"]
    assert both(lake) == before and placed(lake, team)
    assert not may_move(registry, "r1", 0)
    rebalanced(lake, team, "r2", capacities=(1, 1, 1, 0.3))
    assert team.table.epoch().number == 1 and placed(lake, team)


def test_rows_that_the_team_took_out_after_the_claim_stay_out(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(lake, team.table)
    orders = IcebergTable(lake, "lake.db.orders")
    orders.refresh()
    good, expected = orders.head(), both(lake)
    lake.table("lake.db.orders").limit(40).writeTo("lake.db.orders").append()
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)

    killed_at_the_claim(
        monkeypatch,
        lake,
        migration,
        lambda: orders.call("rollback_to_snapshot", {"snapshot_id": str(good)}),
    )
    roll_back(lake, migration)
    assert team.table.epoch().number == 1
    assert both(lake) == expected and placed(lake, team)


@pytest.mark.parametrize("lost", [False, True])
def test_a_table_of_a_live_registry_is_not_released(
    lake: SparkSession, team: World, lost: bool
) -> None:
    adopt(lake, team.table)
    moved = team.respec(registry="another")
    with pytest.raises(InputError, match="was adopted with registry .*registry, which keeps it"):
        release(lake, moved.table, registry_lost=lost)
    team.respec(registry="registry")
    with pytest.raises(InputError, match="has epochs: it is not lost"):
        release(lake, team.table, registry_lost=True)
    shutil.rmtree(team.folder / "registry")
    # By a new epoch 0 of more channels, rows would be elsewhere.
    for job in (adopt, release):
        with pytest.raises(InputError, match="has no epoch.*--registry-lost"):
            job(lake, team.respec(channels=5).table)
    assert release(lake, team.table, registry_lost=True) == ["orders", "profiles"]


def test_main_may_follow_in_the_last_try(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    monkeypatch.setattr(publishing, "MOVES_AGAIN", 1)
    verify(lake, migration)
    assert team.table.epoch().number == 1


@pytest.mark.parametrize("point", ["closed", "claimed"])
def test_the_moves_of_the_last_turn_count(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """A writer lands once, and the rows may be moved again once."""
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    before = both(lake)["orders"]

    def land() -> None:
        lake.sql("REFRESH TABLE lake.db.orders")
        lake.table("lake.db.orders").writeTo("lake.db.orders").append()

    for module in (publishing, verifying):
        monkeypatch.setattr(module, "MOVES_AGAIN", 1)
    with meanwhile(point, land):
        verify(lake, migration)
    assert team.table.epoch().number == 1 and placed(lake, team)
    assert both(lake)["orders"] == sorted(before * 2)


def test_a_snapshot_of_a_new_registry_has_the_newest_rows(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    rebalanced(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    release(lake, team.table)
    moved = team.respec(registry="another")
    adopt(lake, moved.table)
    epoch = moved.table.epoch()
    assert epoch.number == 0 and placed(lake, moved)
    found = moved.table.snapshot(lake).rows["orders"]
    assert found.count() == len(both(lake)["orders"])
    assert found.where(F.col("channel") != epoch.route()).count() == 0
