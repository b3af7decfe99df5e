"""Adopted tables afterwards: mapped columns, partitions below channel, new columns, duplicates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.jobs import learn, maintain, migrate
from evenkeel_spark.jobs.maintain import optimize
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.tables.delta import state
from partitioning.function.key_text import key_text
from tests.conftest import World
from tests.support.worlds.team_tables import both, partitions, placed, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def routed(rows, team: World):
    epoch = team.table.epoch()
    return rows.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route())


@pytest.fixture
def by_day(team: World) -> World:
    """Let orders keep their partitions by day."""
    spec = yaml.safe_load(Path(team.spec_path).read_text())
    spec["state"]["orders"]["partitions"] = ["day"]
    return team.respec(state=spec["state"])


@pytest.mark.slow
def test_tables_with_mapped_columns_are_maintained_and_batched(
    spark: SparkSession, by_day: World
) -> None:
    team, path = by_day, str(by_day.folder / "orders")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    adopt(spark, team.table)
    channels = {r.channel for r in state.files(spark, path).collect()}
    assert channels == {0, 1, 2, 3}
    before = both(spark, team)
    more = spark.read.format("delta").load(path).where("day = '2013-01-02'").limit(30)
    for _ in range(4):
        routed(more.limit(20), team).write.format("delta").mode("append").save(path)
    before = both(spark, team)
    assert maintain.optimize(spark, path) > 0
    assert maintain.optimize(spark, path) == 0
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3), batch_files=100)
    assert both(spark, team) == before and placed(spark, team)


def test_partitions_below_channel_are_rewritten_only_where_needed(
    spark: SparkSession, by_day: World
) -> None:
    team, path = by_day, str(by_day.folder / "orders")
    adopt(spark, team.table)
    assert partitions(spark, path) == ["channel", "day"]
    assert maintain.optimize(spark, path) == 0
    before = {r.path for r in state.files(spark, path).collect()}
    day = spark.read.format("delta").load(path).where("day = '2013-01-02'")
    null = day.limit(9).withColumn("day", F.lit(None).cast("date"))
    for rows in (day.limit(9), day.limit(9), null, null):
        routed(rows, team).coalesce(1).write.format("delta").mode("append").save(path)
    content = both(spark, team)
    assert maintain.optimize(spark, path) > 0
    after = {r.path for r in state.files(spark, path).collect()}
    gone = before - after
    assert gone and all("day=2013-01-02" in file for file in gone)
    assert maintain.optimize(spark, path) == 0
    assert both(spark, team) == content


def test_other_partitions_than_the_specs_are_one_line(
    spark: SparkSession, adopted: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A team writes its table again: with slot and channel, and not partitioned by channel."""
    team, path = adopted, str(adopted.folder / "orders")
    rows = spark.read.format("delta").load(path)
    again = rows.write.format("delta").mode("overwrite").option("overwriteSchema", True)
    again.partitionBy("day").save(path)
    for job, run_of_it in ((maintain, []), (learn, ["--run", "r1"])):
        assert job.main(["--spec", team.spec_path, *run_of_it]) == 2
        (line,) = (x for x in capsys.readouterr().err.splitlines() if "evenkeel: error" in x)
        assert "expected partitions channel, found day" in line
    repair(spark, team.table)
    before = both(spark, team)
    release(spark, team.table, drop_columns=True)
    adopt(spark, team.table)
    assert maintain.main(["--spec", team.spec_path]) == 0
    assert both(spark, team) == before and placed(spark, team)


def test_a_column_added_between_two_batches_is_verified(
    spark: SparkSession, adopted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = adopted
    path, times = str(team.folder / "orders"), []

    def append(step: str) -> None:
        if step == "batch moved" and not times:
            times.append(step)
            rows = spark.read.format("delta").load(path).where("channel = 0").limit(5)
            stay = rows.withColumn("note", F.lit("new text"))
            stay.write.format("delta").mode("append").option("mergeSchema", True).save(path)

    monkeypatch.setattr("evenkeel_spark.runtime.crash_point.reached", append)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3), batch=12_000)
    assert times and placed(spark, team)


def test_duplicates_of_one_row_a_key_stop_a_rebalance_before_it_moves(
    spark: SparkSession, adopted: World, capsys: pytest.CaptureFixture[str]
) -> None:
    team = adopted
    path = str(team.folder / "profiles")
    twice = spark.read.format("delta").load(path).limit(2)
    twice.write.format("delta").mode("append").save(path)
    arguments = ["--spec", team.spec_path, "--run", "r1"]
    assert learn.main(arguments) == 0
    steps.decide(team.spec_path, "r1", asked := Params(force=True, capacities=(1, 1, 1, 0.3)))
    digest = steps.plan(team.spec_path, "r1", asked)
    steps.validate_plan(team.spec_path, "r1")
    versions = {n: state.table_version(spark, str(team.folder / n)) for n in ("orders", "profiles")}
    capsys.readouterr()
    assert migrate.main([*arguments, "--digest", digest]) == 2
    assert "expected one row a key, found 2 keys with several" in capsys.readouterr().err
    for name, version in versions.items():
        assert state.table_version(spark, str(team.folder / name)) == version


def test_a_learn_under_way_writes_no_name_that_has_no_row(
    spark: SparkSession, adopted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forget commits also where it deletes nothing: the learn looks for that commit."""
    real = learn.sketch_days

    def late(*args: Any) -> Any:
        found = real(*args)
        assert set(forget(spark, adopted.table, ["nobody"]).values()) == {0}
        return found

    monkeypatch.setattr(learn, "sketch_days", late)
    end = adopted.events["at"].max().date() + timedelta(days=1)
    assert learn.main(["--spec", adopted.spec_path, "--run", "r", "--end", f"{end}"]) == 2
    assert "a key was forgotten" in adopted.table.registry.run("r").error.read().message


def test_forget_tells_for_how_long_an_adopted_table_keeps_the_rows(
    spark: SparkSession, adopted: World, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(adopted.folder / "orders")
    longer = "'delta.deletedFileRetentionDuration' = 'interval 90 days'"
    log = "'delta.logRetentionDuration' = 'interval 90 days'"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({longer}, {log})")
    spec = adopted.table.spec
    (key,) = spark.read.format("delta").load(path).select(*spec.key).limit(1).collect()
    forget(spark, adopted.table, [key_text(key)])
    said = capsys.readouterr().out
    assert f"runs after {(datetime.now(UTC) + timedelta(days=90)).date()}" in said
    assert "orders: 0 rows" not in said


def test_a_table_without_statistics_is_forgotten_from_and_maintained(
    spark: SparkSession, adopted: World
) -> None:
    """By itself OPTIMIZE refuses to sort by a column that has none."""
    path = str(adopted.folder / "orders")
    none = "'delta.dataSkippingNumIndexedCols' = 0"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({none})")
    run(spark, adopted, "r1", capacities=(1, 1, 1, 0.3))
    hidden = state.files(spark, path).where("deleted > 0")
    assert not hidden.isEmpty()
    (key,) = (
        spark.read.format("delta").load(path).select(*adopted.table.spec.key).limit(1).collect()
    )
    assert forget(spark, adopted.table, [key_text(key)])["orders"] > 0
    assert state.files(spark, path).where("deleted > 0").isEmpty()
    for _ in range(3):
        rows = spark.read.format("delta").load(path).where("channel = 0").limit(1)
        rows.write.format("delta").mode("append").save(path)
    assert optimize(spark, path) > 0
