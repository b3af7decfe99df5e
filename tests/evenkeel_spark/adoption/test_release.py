"""Release of adopted tables: only what is ours goes, and what was there before comes back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.adoption import release as releasing
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.jobs import adopt as job
from evenkeel_spark.jobs import learn, maintain
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.worlds.team_tables import both, partitions, run

pytestmark = pytest.mark.spark


def orders(team: World) -> str:
    return str(team.folder / "orders")


def test_columns_of_a_team_that_was_never_adopted_stay(spark: SparkSession, team: World) -> None:
    path = orders(team)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN channel STRING")
    version = state.table_version(spark, path)
    assert release(spark, team.table, drop_columns=True) == []
    assert state.table_version(spark, path) == version
    assert "channel" in state.schema(spark, path).fieldNames()


@pytest.mark.parametrize("epochs", ["none", "of its own"])
def test_a_spec_of_the_same_name_with_another_registry_releases_nothing(
    spark: SparkSession, team: World, epochs: str
) -> None:
    adopt(spark, team.table)
    path, theirs = orders(team), team.folder / "theirs"
    if epochs == "of its own":
        shutil.copytree(team.folder / "registry", theirs)
    team.respec(registry="theirs")
    for lost in (False, True):
        with pytest.raises(
            InputError, match="was adopted with registry .*registry, which keeps it"
        ):
            release(spark, team.table, drop_columns=True, registry_lost=lost)
    assert constraints.our_constraints(spark, path) == {constraints.epoch_name(0)}


@pytest.mark.slow
def test_a_table_whose_registry_is_lost_is_released_if_asked(
    spark: SparkSession, team: World
) -> None:
    before = both(spark, team)
    adopt(spark, team.table)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    shutil.rmtree(team.folder / "registry")
    with pytest.raises(FenceError, match="has no epoch.*--registry-lost"):
        release(spark, team.table)
    assert job.main(["--spec", team.spec_path, "--release", "--registry-lost"]) == 0
    assert constraints.our_constraints(spark, orders(team)) == set()
    assert both(spark, team) == before


def test_a_moved_registry_may_release(spark: SparkSession, team: World) -> None:
    adopt(spark, team.table)
    (team.folder / "registry").rename(team.folder / "moved")
    team.respec(registry="moved")
    assert release(spark, team.table) == ["orders", "profiles"]


def test_a_registry_that_is_there_is_not_lost(spark: SparkSession, team: World) -> None:
    adopt(spark, team.table)
    with pytest.raises(InputError, match="has epochs"):
        release(spark, team.table, registry_lost=True)
    assert constraints.our_constraints(spark, orders(team)) == {constraints.epoch_name(0)}


def test_a_copy_of_tables_and_registry_is_released_alone(
    spark: SparkSession, team: World, tmp_path: Path
) -> None:
    adopt(spark, team.table)
    copy = World(tmp_path / "copy")
    shutil.copytree(team.folder, copy.folder, ignore=shutil.ignore_patterns("copy"))
    assert release(spark, copy.table) == ["orders", "profiles"]
    assert constraints.our_constraints(spark, orders(team)) == {constraints.epoch_name(0)}


def test_properties_are_as_before(spark: SparkSession, team: World) -> None:
    path, profiles = orders(team), str(team.folder / "profiles")
    spark.sql(
        f"ALTER TABLE delta.`{profiles}` SET TBLPROPERTIES ("
        "'delta.logRetentionDuration' = 'interval 3 days', "
        "'delta.deletedFileRetentionDuration' = 'interval 2 days')"
    )
    before = {p: state.properties(spark, p) for p in (path, profiles)}
    adopt(spark, team.table)
    kept = state.properties(spark, profiles)
    assert kept["delta.logRetentionDuration"] == "interval 30 days"
    # What the team changes while the table is adopted stays.
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES "
        "('delta.deletedFileRetentionDuration' = 'interval 29 days')"
    )
    release(spark, team.table)
    release(spark, team.table, drop_columns=True)
    assert state.properties(spark, profiles) == before[profiles]
    found = state.properties(spark, path)
    assert found.pop("delta.deletedFileRetentionDuration") == "interval 29 days"
    assert found == before[path]


def test_properties_are_as_before_if_keep_has_grown(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    log, removed = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
    path, profiles = orders(team), str(team.folder / "profiles")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{removed}' = 'interval 30 days')")
    before = {p: state.properties(spark, p) for p in (path, profiles)}
    adopt(spark, team.table)
    # A change that the team makes while the table is adopted is theirs.
    spark.sql(f"ALTER TABLE delta.`{profiles}` SET TBLPROPERTIES ('{log}' = 'interval 40 days')")
    for keep in (60, 90):
        maintain.maintain(spark, team.respec(keep=keep).table)
        for one in (path, profiles):
            found = state.properties(spark, one)
            assert [found[p] for p in (log, removed)] == [f"interval {keep} days"] * 2
    release(spark, team.table, drop_columns=True)
    assert "since adoption" not in capsys.readouterr().out
    assert state.properties(spark, path) == before[path]
    assert state.properties(spark, profiles) == {**before[profiles], log: "interval 40 days"}


def test_a_dry_run_tells_of_what_stays(
    spark: SparkSession, adopted: World, capsys: pytest.CaptureFixture[str]
) -> None:
    team = adopted
    capsys.readouterr()
    version = state.table_version(spark, orders(team))
    release(spark, team.table, dry_run=True)
    said = capsys.readouterr().out
    assert "orders: would lose" in said and "deletionVectors" in said
    assert state.table_version(spark, orders(team)) == version
    assert learn.main(["--spec", team.spec_path, "--run", "r0"]) == 0


def test_jobs_say_when_a_table_was_released(
    spark: SparkSession, adopted: World, capsys: pytest.CaptureFixture[str]
) -> None:
    team = adopted
    release(spark, team.table)
    assert learn.main(["--spec", team.spec_path, "--run", "r1"]) == 2
    said = capsys.readouterr().err
    assert "was released on 20" in said and "to adopt it again" in said
    adopt(spark, team.table)
    assert learn.main(["--spec", team.spec_path, "--run", "r2"]) == 0


def test_tables_that_are_still_adopted_are_not_called_released(
    spark: SparkSession, team: World
) -> None:
    adopt(spark, team.table)
    parts = team.table.spec.model_dump(mode="json")["state"]
    release(spark, team.respec(state={"orders": parts["orders"]}).table)
    assert not team.table.registry.files.released.exists()
    learn.learn(spark, team.respec(state={"profiles": parts["profiles"]}).table, None)
    spark.sql(f"RESTORE TABLE delta.`{team.folder / 'profiles'}` TO VERSION AS OF 0")
    with pytest.raises(InputError, match="brought back to before Evenkeel took it"):
        check_tables(spark, team.table.spec)
    adopt(spark, team.table)
    release(spark, team.table)
    assert team.table.registry.files.released.exists()


def test_a_release_that_died_before_its_mark_is_gone_on_with(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(*args: Any) -> None:
        raise Died

    adopt(spark, team.table)
    with monkeypatch.context() as patch:
        patch.setattr(releasing, "mark_released", die)
        with pytest.raises(Died):
            release(spark, team.table)
    assert release(spark, team.table) == []
    assert team.table.registry.files.released.exists()


def test_odd_names_come_back(spark: SparkSession, team: World) -> None:
    path = str(team.folder / "odd")
    rows = spark.read.format("delta").load(orders(team)).withColumnRenamed("tags", "a`b.c")
    rows = rows.withColumn("order-date", F.to_date("at")).drop("day")
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({rows.schema.toDDL()}, `w, x` INT) USING delta "
        "PARTITIONED BY (`order-date`, `w, x`) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    rows.withColumn("w, x", F.lit(1)).write.format("delta").mode("append").save(path)
    part = {"path": "odd", "rows": "many", "partitions": ["order-date"]}
    team.respec(state={"odd": part})
    adopt(spark, team.table)
    assert partitions(spark, path) == ["channel", "order-date"]
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN `order-date` TO day")
    assert release(spark, team.table, drop_columns=True) == ["odd"]
    assert partitions(spark, path) == ["day", "w, x"]
    assert spark.read.format("delta").load(path).count() == len(team.events)


def test_a_partition_column_that_is_gone_is_an_error(spark: SparkSession, team: World) -> None:
    """Before any table is released, also one that comes first."""
    path, parts = orders(team), team.table.spec.state
    adopt(spark, team.table)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN day")
    turned = {name: {"path": name, "rows": parts[name].rows} for name in reversed(parts)}
    assert list(team.respec(state=turned).table.spec.state) == ["profiles", "orders"]
    for dry_run in (True, False):
        with pytest.raises(InputError, match="was partitioned by day"):
            release(spark, team.table, drop_columns=True, dry_run=dry_run)
    assert release(spark, team.table) == ["profiles", "orders"]


@pytest.mark.parametrize("why", ["constraint", "room"])
def test_what_stops_the_second_rewrite_stops_the_first_too(
    spark: SparkSession, team: World, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(spark, team.table)
    paths = {name: part.path for name, part in team.table.spec.state.items()}
    second = [*paths.values()][-1]
    if why == "constraint":
        spark.sql(f"ALTER TABLE delta.`{second}` ADD CONSTRAINT open CHECK (channel >= 0)")
    else:
        free = dict.fromkeys(paths.values(), 10**12) | {second: 9}
        monkeypatch.setattr("evenkeel_spark.tables.filesystem.free_bytes", lambda _, f: free[f])
    versions = {path: state.table_version(spark, path) for path in paths.values()}
    said = {
        "constraint": "cannot drop column 'channel': the constraint open names it",
        "room": "a rewrite needs .* bytes, and 9 are free",
    }
    with pytest.raises(InputError, match=said[why]):
        release(spark, team.table, drop_columns=True)
    assert {path: state.table_version(spark, path) for path in paths.values()} == versions
