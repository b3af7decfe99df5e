"""Repair: from every state that a broken run or a hand can leave, to the epoch in force."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from delta.exceptions import MetadataChangedException
from pyspark.sql import SparkSession

from evenkeel import cli
from evenkeel.registry import verdict
from evenkeel_spark.jobs.repair import main
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.placement import REPAIRING
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import DamagedError, FenceError
from partitioning.function.function import PartitioningFunction
from tests.support.placed import (
    KEYS,
    Placed,
    copied,
    crashing_at,
    placed,
    planned,
)
from tests.support.state_tables import assert_under, by_hand

pytestmark = pytest.mark.spark


def stands(spark: SparkSession, home: Placed, function: PartitioningFunction) -> None:
    rows = assert_under(spark, home, function)
    assert all(rows[f"k{i}"][1] == i for i in range(KEYS))


def advised(error: FenceError, monkeypatch: pytest.MonkeyPatch, home: Placed) -> None:
    """Do what an error says, as far as a process of its own."""
    monkeypatch.setenv("EVENKEEL_TABLES", str(home.spec_path.parent))
    (command,) = set(re.findall(r"`evenkeel (repair \S+) --dry-run`", str(error)))

    def submit(arguments: list[str], **_: object) -> int:
        assert Path(arguments[1]).name == "repair.py" and Path(arguments[1]).is_file()
        return main(arguments[2:])

    monkeypatch.setattr(subprocess, "call", submit)
    for more in (["--dry-run"], []):
        with pytest.raises(SystemExit) as ended:
            cli.app([*command.split(), *more])
        assert ended.value.code == 0


def test_a_constraint_dropped_half_way(
    spark: SparkSession, moved_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(moved_home, tmp_path)
    migration = home.migration("r1")
    by_hand(spark, home, f"ALTER TABLE {{}} DROP CONSTRAINT {migration.moving}")
    for job in (migrate, verify, roll_back):
        with pytest.raises(FenceError, match="lost its constraint") as error:
            job(spark, migration)
    advised(error.value, monkeypatch, home)
    stands(spark, home, migration.before)
    newest = verdict.newest_attempt(migration.run, migration.plan.digest)
    assert newest == verdict.Attempt(1, verdict.ROLL_BACK, True)
    version = home.version(spark)
    # What is left of the run stops; a new one goes through.
    with pytest.raises(FenceError, match="rolled back"):
        verify(spark, migration)
    assert repair(spark, home.table) == []
    assert home.version(spark) == version
    again = planned(spark, home, "r2", migration.after)
    migrate(spark, again)
    verify(spark, again)
    assert publish(spark, again).number == 1


def test_a_dead_run_and_a_dry_run(
    spark: SparkSession, moved_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(moved_home, tmp_path)
    migration, version = home.migration("r1"), home.version(spark)
    (finding,) = repair(spark, home.table, dry_run=True)
    assert migration.moving in finding.wrong
    assert home.version(spark) == version
    assert verdict.newest_attempt(migration.run, migration.plan.digest).verdict is None
    # Killed anywhere, it goes on.
    for step in ("repairing", "placed", "repaired"):
        with crashing_at(step, monkeypatch):
            repair(spark, home.table)
    repair(spark, home.table)
    stands(spark, home, migration.before)


def test_what_was_decided_to_be_published_goes_forward(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path
) -> None:
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    verdict.settle(migration.run, migration.plan.digest, 1, verdict.PUBLISH)
    by_hand(spark, home, "ALTER TABLE {} DROP CONSTRAINT evenkeel_epoch_1")
    by_hand(spark, home, "UPDATE {} SET channel = (channel + 1) % 4 WHERE slot < 9")
    assert len(repair(spark, home.table)) == 1
    epoch = home.table.epoch()
    assert (epoch.number, epoch.plan_digest) == (1, migration.plan.digest)
    assert epoch.tables["visits"].version == home.version(spark)
    stands(spark, home, migration.after)


@pytest.mark.parametrize("since", ["property", "clone", "cleaned log"])
def test_what_stops_a_decided_run_names_a_way_to_its_end(
    spark: SparkSession,
    sealed_home: Placed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    since: str,
) -> None:
    """A new run may not begin, so its advice is not to plan again."""
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    verdict.settle(migration.run, migration.plan.digest, 1, verdict.PUBLISH)
    if since == "property":
        by_hand(
            spark, home, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = true)"
        )
    elif since == "cleaned log":
        home.clean_log(spark)
    else:
        path = Path(home.path())
        kept = path.rename(path.with_name("kept"))
        spark.sql(f"CREATE TABLE {state.sql_name(str(path))} SHALLOW CLONE delta.`{kept}`")
    for job in (verify, roll_back):
        with pytest.raises((FenceError, DamagedError), match="[rR]un .*repair") as error:
            job(spark, migration)
    if since == "cleaned log":
        repair(spark, home.table)
    else:
        advised(error.value, monkeypatch, home)
    assert home.table.epoch().plan_digest == migration.plan.digest
    stands(spark, home, migration.after)


def test_a_published_table_brought_back_by_hand(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path
) -> None:
    home = copied(sealed_home, tmp_path)
    migration = home.migration("r1")
    publish(spark, migration)
    by_hand(spark, home, "RESTORE TABLE {} TO VERSION AS OF 1")
    assert home.constraints(spark) == {"evenkeel_epoch_0"}
    repair(spark, home.table)
    stands(spark, home, migration.after)
    # A moving constraint left beside the epoch's goes, and nothing else happens.
    rule = constraints.rule(migration.before, migration.after)
    constraints.add(spark, home.path(), migration.moving, rule)
    version = home.version(spark)
    repair(spark, home.table)
    assert home.version(spark) == version + 1
    stands(spark, home, migration.after)


def test_under_an_older_registry_nothing_moves_unless_a_person_says_so(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path
) -> None:
    home = copied(sealed_home, tmp_path)
    migration, version = home.migration("r1"), home.version(spark)
    registry = Path(home.table.registry.url)
    # As it was before the run began: a backup brought it back.
    shutil.rmtree(registry / "runs")
    shutil.rmtree(registry / "moving")
    for dry_run in (True, False):
        with pytest.raises(FenceError, match=r"found epoch 1\. Run r1 .*older than the table"):
            repair(spark, home.table, dry_run)
    assert home.version(spark) == version
    assert main(["--spec", str(home.spec_path), "--registry-older"]) == 0
    stands(spark, home, migration.before)


def test_a_half_moved_table_tells_that_the_registry_is_older(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run had begun after the epoch that the registry lost. Then its repair was killed."""
    home = copied(sealed_home, tmp_path)
    publish(spark, home.migration("r1"))
    migrate(spark, planned(spark, home, "r2"))
    registry, lost = Path(home.table.registry.url), tmp_path / "lost"

    def refused(dry_run: bool) -> None:
        version = home.version(spark)
        with pytest.raises(FenceError, match=r"found epoch 1\. Run r2 .*older than the table"):
            repair(spark, home.table, dry_run)
        assert home.version(spark) == version

    for names in ({home.migration("r2").moving}, {REPAIRING}):
        assert home.constraints(spark) == names
        # As it was before epoch 1: a backup brings it back, and then the newest one.
        shutil.copytree(registry, lost)
        shutil.rmtree(registry / "runs")
        shutil.rmtree(registry / "moving")
        shutil.rmtree(registry / "epochs" / "00000001")
        refused(dry_run=True)
        refused(dry_run=False)
        shutil.rmtree(registry)
        lost.rename(registry)
        with crashing_at("placed", monkeypatch):
            repair(spark, home.table)


def test_a_constraint_is_dropped_only_beside_those_that_were_seen(
    spark: SparkSession, moved_home: Placed, tmp_path: Path
) -> None:
    home = copied(moved_home, tmp_path)
    migration = home.migration("r1")
    rule = constraints.rule(migration.before, migration.after)
    constraints.add(spark, home.path(), constraints.moving_name(9), rule)
    seen = {migration.moving}
    names = (constraints.moving_name(9), migration.moving)
    with pytest.raises(MetadataChangedException, match="evenkeel_moving_9, and had"):
        constraints.drop_beside(spark, home.path(), *names, seen)
    assert home.constraints(spark) == set(names)
    assert constraints.drop_beside(spark, home.path(), *names, set(names))
    assert home.constraints(spark) == seen
    assert not constraints.drop_beside(spark, home.path(), *names, seen)


def test_a_run_with_a_torn_file_does_not_stop_the_repair(
    spark: SparkSession, moved_home: Placed, tmp_path: Path
) -> None:
    home = copied(moved_home, tmp_path)
    migration = home.migration("r1")
    migration.run.write("rolled_back.json", b"{")
    assert len(repair(spark, home.table)) == 1
    stands(spark, home, migration.before)
    with pytest.raises(DamagedError, match="not JSON"):
        verify(spark, migration)


def test_of_two_tables_the_broken_one_alone_is_repaired(
    spark: SparkSession, tmp_path: Path
) -> None:
    home = placed(spark, tmp_path, ("visits", "clicks"))
    by_hand(spark, home, "ALTER TABLE {} DROP CONSTRAINT evenkeel_epoch_0")
    by_hand(spark, home, "UPDATE {} SET channel = (channel + 1) % 4 WHERE slot < 9")
    version = home.version(spark, "clicks")
    assert [f.name for f in repair(spark, home.table)] == ["visits"]
    assert home.version(spark, "clicks") == version
    stands(spark, home, home.table.epoch().function)


def test_a_table_that_was_cloned_half_way(
    spark: SparkSession, moved_home: Placed, tmp_path: Path
) -> None:
    """A clone has the rows and the constraint, and none of the commits."""
    home = copied(moved_home, tmp_path)
    migration, path = home.migration("r1"), Path(home.path())
    kept = path.rename(path.with_name("kept"))
    spark.sql(f"CREATE TABLE {state.sql_name(str(path))} SHALLOW CLONE delta.`{kept}`")
    assert home.constraints(spark) == {migration.moving}
    assert len(repair(spark, home.table)) == 1
    stands(spark, home, migration.before)
    with pytest.raises(FenceError, match="this run was rolled back"):
        verify(spark, migration)
    stands(spark, home, migration.before)


def test_what_was_decided_goes_forward_in_a_table_that_was_made_again(
    spark: SparkSession, sealed_home: Placed, tmp_path: Path
) -> None:
    """Its versions are lower than the one that the current epoch knows."""
    home = copied(sealed_home, tmp_path)
    for number in range(12):
        by_hand(spark, home, f"ALTER TABLE {{}} SET TBLPROPERTIES ('team' = '{number}')")
    known = publish(spark, home.migration("r1")).tables["visits"].version
    path = Path(home.path())
    kept = path.rename(path.with_name("kept"))
    spark.sql(f"CREATE TABLE {state.sql_name(str(path))} SHALLOW CLONE delta.`{kept}`")
    migration = planned(spark, home, "r2")
    migrate(spark, migration)
    verify(spark, migration)
    assert home.version(spark) < known
    verdict.settle(migration.run, migration.plan.digest, 1, verdict.PUBLISH)
    repair(spark, home.table)
    assert home.table.epoch().plan_digest == migration.plan.digest
    stands(spark, home, migration.after)
