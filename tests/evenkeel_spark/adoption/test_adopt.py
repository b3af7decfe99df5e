"""Adopting a team's own tables: nothing lost, all epochs work on them, and out again."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.adoption import adopt as adopting
from evenkeel_spark.adoption import rewrite
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.adoption.survey import count_rows
from evenkeel_spark.jobs import adopt as job
from evenkeel_spark.jobs import maintain
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.tables.delta import state
from partitioning.errors import FenceError
from tests.conftest import DAYS, World
from tests.support.worlds.team_tables import both, content, placed, run

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_adopted_tables_are_rebalanced_and_released_with_every_row(
    spark: SparkSession, team: World
) -> None:
    before = both(spark, team)
    adopt(spark, team.table)
    assert team.table.registry.numbers() == [0]
    assert both(spark, team) == before and placed(spark, team)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    run(spark, team, "r2")
    assert team.table.registry.numbers() == [0, 1, 2]
    assert both(spark, team) == before and placed(spark, team)
    read = team.table.state("orders", spark=spark)
    assert read.count() == len(before["orders"]) and "channel" not in read.columns
    rows = team.table.snapshot(spark).rows
    assert rows["orders"].count() == len(before["orders"])
    assert maintain.main(["--spec", team.spec_path]) == 0
    assert repair(spark, team.table) == []
    assert both(spark, team) == before
    assert release(spark, team.table, drop_columns=True) == ["orders", "profiles"]
    assert both(spark, team) == before
    for name, partitions in (("orders", ["day"]), ("profiles", [])):
        path = str(team.folder / name)
        assert not [p for p in state.properties(spark, path) if "evenkeel" in p]
        detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
        assert detail["partitionColumns"] == partitions
        assert not {"slot", "channel"} & set(state.schema(spark, path).fieldNames())
    assert release(spark, team.table, drop_columns=True) == []


def test_a_dry_run_tells_and_changes_nothing(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(team.folder.rglob("*"))
    assert job.main(["--spec", team.spec_path, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "orders: 3,000 rows, " in said and "keys" not in said.split("orders: 3,000")[1][:9]
    assert "profiles: 200 rows, 200 keys" in said or "profiles: 1" in said
    assert "give partitions: [day]" in said
    assert "dry run: nothing was changed" in said and "input: " not in said
    assert sorted(team.folder.rglob("*")) == before
    # What it foretells of the rows is what adopting then does.
    fullest = re.search(r"orders: by epoch 0 its fullest channel gets (\S+) times", said)
    adopt(spark, team.table)
    assert "would" not in capsys.readouterr().out
    rows = spark.read.format("delta").load(str(team.folder / "orders")).groupBy("channel").count()
    counts = [r["count"] for r in rows.collect()]
    assert fullest is not None and len(counts) == 4
    assert float(fullest[1]) == pytest.approx(max(counts) / (sum(counts) / 4), abs=5e-4)


def test_a_dry_run_tells_of_events_that_windows_would_refuse(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    events = team.events.copy()
    events.loc[:2, "dest"] = None
    events.loc[:0, "at"] = None
    team.write_events(events)
    assert job.main(["--spec", team.spec_path, "--dry-run"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "input: " in line]
    assert len(said) == 2
    assert "1 events have a null for their time (at)" in said[0]
    assert "3 events have a null in the key (dest)" in said[1]
    for rule in ("drop", "keep"):
        team.respec(null_keys=rule, null_times="drop")
        assert job.main(["--spec", team.spec_path, "--dry-run"]) == 0
        assert "input: " not in capsys.readouterr().out


def test_partitions_of_the_team_stay_below_channel(spark: SparkSession, team: World) -> None:
    spec = yaml.safe_load(Path(team.spec_path).read_text())
    spec["state"]["orders"]["partitions"] = ["day"]
    team.respec(state=spec["state"])
    before = both(spark, team)
    adopt(spark, team.table)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{team.folder / 'orders'}`").first()
    assert detail["partitionColumns"] == ["channel", "day"]
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    assert both(spark, team) == before and placed(spark, team)


def test_columns_of_the_team_have_any_name(spark: SparkSession, team: World) -> None:
    path = team.folder / "orders"
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (_task INT, _place INT)")
    spark.sql(f"UPDATE delta.`{path}` SET _task = 70, _place = 80")
    before = both(spark, team)
    adopt(spark, team.table)
    assert both(spark, team) == before and placed(spark, team)


def test_a_key_of_the_team_has_any_name(spark: SparkSession, team: World) -> None:
    adopt(spark, team.table)
    spec, function = team.table.spec, team.table.epoch().function
    part = spec.state["profiles"]
    rows = spark.read.format("delta").load(part.path)
    named = spec.model_copy(update={"key": ["_rows"]})
    key = replace(function, key=(replace(function.key[0], name="_rows"),))
    found = count_rows(rows.withColumnRenamed("dest", "_rows"), named, part, key)
    assert found == count_rows(rows, spec, part, function) and found[0] == found[2] > 0


def test_an_append_during_the_rewrite_is_not_lost(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real, times = both(spark, team), adopting.change, []

    def late(own, path, version, *args, **kwargs):
        if not times:
            times.append(version)
            more = spark.read.format("delta").load(str(team.folder / "orders")).limit(3)
            more.write.format("delta").mode("append").save(str(team.folder / "orders"))
        real(own, path, version, *args, **kwargs)

    monkeypatch.setattr(adopting, "change", late)
    adopt(spark, team.table)
    found = content(spark, team, "orders")
    assert len(found) == len(before["orders"]) + 3
    assert set(found) == set(before["orders"]) and placed(spark, team)


def test_an_append_before_the_rewrite_costs_no_try(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables are looked at before the first is rewritten, which may take hours."""
    before, real, tried = both(spark, team), adopting.change, []

    def publish_and_write(*args: Any) -> None:
        real_publish(*args)
        sql = f"INSERT INTO delta.`{team.folder / 'profiles'}` VALUES ('new', 1)"
        spark.sql(sql)

    def count(own, path, *args, **kwargs):
        tried.append(Path(path).name)
        real(own, path, *args, **kwargs)

    real_publish = adopting._publish
    monkeypatch.setattr(adopting, "_publish", publish_and_write)
    monkeypatch.setattr(adopting, "change", count)
    adopt(spark, team.table)
    assert tried == ["orders", "profiles"]
    found = content(spark, team, "profiles")
    assert set(found) == {*before["profiles"], ("new", "1")} and placed(spark, team)


def test_who_never_pauses_is_asked_to_and_nothing_is_changed(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = adopting.change

    def late(own, path, version, *args, **kwargs):
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('a' = '{version}')")
        real(own, path, version, *args, **kwargs)

    monkeypatch.setattr(adopting, "change", late)
    before = both(spark, team)
    with pytest.raises(FenceError, match="others wrote during each of 3 rewrites"):
        adopt(spark, team.table)
    assert both(spark, team) == before
    # Writers may route already; the tables take their rows without.
    assert team.table.registry.numbers() == [0]
    assert "channel" not in state.schema(spark, str(team.folder / "orders")).fieldNames()


@pytest.mark.parametrize("at", ["before the first", "between", "before the epoch"])
def test_one_that_died_is_gone_on_with(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    class Died(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> None:
        raise Died

    real, done = adopting.change, []

    def once(own, path, *args, **kwargs):
        if len(done) == {"before the first": 0, "between": 1}.get(at, 9):
            die()
        real(own, path, *args, **kwargs)
        done.append(path)

    before = both(spark, team)
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "change", once)
        if at == "before the epoch":
            patch.setattr(adopting, "_publish", die)
        with pytest.raises(Died):
            adopt(spark, team.table)
    assert team.table.registry.numbers() == ([] if at == "before the epoch" else [0])
    assert len(adopt(spark, team.table)) == 2 - len(done)
    assert adopt(spark, team.table) == []
    assert both(spark, team) == before and placed(spark, team)


def test_what_was_half_adopted_can_be_released(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = both(spark, team), adopting.change

    def once(own, path, *args, **kwargs):
        assert "profiles" not in path, "the second table is never adopted"
        real(own, path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(adopting, "change", once)
        with pytest.raises(AssertionError, match="never adopted"):
            adopt(spark, team.table)
    assert release(spark, team.table) == ["orders"]
    rows = spark.read.format("delta").load(str(team.folder / "orders"))
    # The columns stay, and nobody is refused any more.
    rows.limit(1).withColumn("channel", F.lit(77)).write.format("delta").mode("append").save(
        str(team.folder / "orders")
    )
    assert len(content(spark, team, "orders")) == len(before["orders"]) + 1
    assert release(spark, team.table, drop_columns=True) == ["orders"]
    assert "slot" not in state.schema(spark, str(team.folder / "orders")).fieldNames()


def test_tables_with_mapped_columns_and_comments_keep_them(
    spark: SparkSession, team: World
) -> None:
    path = str(team.folder / "profiles")
    for change in (
        "ALTER COLUMN most COMMENT 'the longest'",
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "RENAME COLUMN most TO longest",
    ):
        spark.sql(f"ALTER TABLE delta.`{path}` {change}")
    before = both(spark, team)
    adopt(spark, team.table)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    assert both(spark, team) == before and placed(spark, team)
    assert state.schema(spark, path)["longest"].metadata["comment"] == "the longest"


def test_two_at_once_adopt_once(spark: SparkSession, team: World) -> None:
    before, errors = both(spark, team), list[BaseException]()

    def work() -> None:
        try:
            adopt(spark.newSession(), team.table)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert both(spark, team) == before and placed(spark, team)
    assert team.table.registry.numbers() == [0]


def test_days_are_still_there(spark: SparkSession, team: World) -> None:
    first = str(team.folder / "orders")
    adopt(spark, team.table)
    old = spark.read.format("delta").option("versionAsOf", 0).load(first)
    assert old.count() == len(team.events) and "slot" not in old.columns
    assert team.events["at"].dt.date.nunique() == DAYS


def test_rewriting_fails_on_top_of_another_version(spark: SparkSession, team: World) -> None:
    path = str(team.folder / "profiles")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE dest = 'D000'")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('x' = 'y')")
    with pytest.raises(rewrite.MetadataChangedException):
        rewrite.change(spark, path, 1, rewrite.Layout(properties={"a": "b"}))
