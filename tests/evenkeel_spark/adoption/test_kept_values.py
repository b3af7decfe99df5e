"""Values that a rewrite or a move would change without a word are refused by name, or stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.adoption import kept_values
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.migration.repair import repair
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.team_tables import content, placed, run, write

pytestmark = pytest.mark.spark

NEW_YORK = "America/New_York"


def in_zone(spark: SparkSession, zone: str) -> SparkSession:
    """A session of a team that counts its days in another zone."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    return session


@pytest.fixture
def set_on_cluster(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Set what a cluster's own configuration would, and take it back."""
    names = []

    def change(name: str, value: str) -> None:
        names.append(name)
        spark.conf.set(name, value)

    yield change
    for name in names:
        spark.conf.unset(name)


def odd(team: World, **more: object) -> World:
    return team.respec(state={"odd": {"path": "odd", "rows": "many", **more}})


def append(rows: DataFrame, team: World) -> None:
    rows.write.format("delta").mode("append").save(str(team.folder / "odd"))


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("IF(miles % 2 = 0, '', 'US')", r"\d+ rows have an empty text in column 'more'"),
        ("'__HIVE_DEFAULT_PARTITION__'", "rows have an empty text in column 'more'"),
        ("X'ff'", "binary column 'more'"),
    ],
    ids=["empty", "null's name", "binary"],
)
def test_a_text_that_a_partition_cannot_hold_is_refused(
    spark: SparkSession, team: World, sql: str, says: str
) -> None:
    rows = spark.createDataFrame(team.events[["dest", "miles"]].head(200))
    write(rows.withColumn("more", F.expr(sql)), team, "odd")
    before = content(spark, team, "odd")
    with pytest.raises(InputError, match=says):
        adopt(spark, odd(team, partitions=["more"]).table)
    # Below another column the values may stay as they are.
    adopt(spark, odd(team).table)
    assert content(spark, team, "odd") == before


def test_a_text_that_came_since_is_refused_where_a_release_partitions_by_it_again(
    spark: SparkSession, team: World
) -> None:
    rows = spark.createDataFrame(team.events[["dest", "miles"]].head(200))
    write(rows.withColumn("more", F.lit("US")), team, "odd", "more")
    adopt(spark, odd(team).table)
    epoch = team.table.epoch()
    late = spark.createDataFrame([("NEW", 5, "")], "dest string, miles long, more string")
    append(late.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route()), team)
    before = content(spark, team, "odd")
    with pytest.raises(InputError, match="1 rows have an empty text in column 'more'"):
        release(spark, team.table, drop_columns=True)
    assert content(spark, team, "odd") == before
    release(spark, team.table)


def test_partitions_by_times_without_a_zone_are_refused(spark: SparkSession, team: World) -> None:
    theirs = in_zone(spark, NEW_YORK)
    theirs.conf.set("spark.databricks.delta.write.utcTimestampPartitionValues", "false")
    rows = theirs.createDataFrame(team.events[["dest", "at"]].head(50))
    write(rows.withColumn("hour", F.date_trunc("hour", "at")), team, "odd", "hour")
    with pytest.raises(InputError, match="'hour' has times without a zone"):
        adopt(spark, odd(team).table)
    theirs.conf.set("spark.databricks.delta.write.utcTimestampPartitionValues", "true")
    path = str(team.folder / "odd")
    again = theirs.read.format("delta").load(path)
    again.write.format("delta").mode("overwrite").save(path)
    before = content(theirs, team, "odd")
    adopt(spark, odd(team).table)
    assert content(theirs, team, "odd") == before


def test_settings_of_a_cluster_neither_cut_times_nor_leave_their_zone_out(
    spark: SparkSession, team: World, set_on_cluster: Callable[[str, str], None]
) -> None:
    rows = spark.createDataFrame(team.events[["dest", "at"]].head(200))
    rows = rows.withColumn("exact", F.expr("at + INTERVAL 123456 MICROSECONDS"))
    write(rows.withColumn("hour", F.date_trunc("hour", "at")), team, "odd", "hour")
    theirs = in_zone(spark, NEW_YORK)
    before = content(theirs, team, "odd")
    set_on_cluster("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
    set_on_cluster("spark.databricks.delta.write.utcTimestampPartitionValues", "false")
    adopt(spark, odd(team, partitions=["hour"]).table)
    assert content(theirs, team, "odd") == before


def generated(spark: SparkSession, team: World) -> None:
    """A table whose day is Delta's, by the zone of each writer."""
    table = DeltaTable.create(spark).location(str(team.folder / "odd"))
    table = table.addColumn("dest", "STRING").addColumn("at", "TIMESTAMP")
    table.addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)").execute()
    append(spark.createDataFrame(team.events[["dest", "at"]].head(300)), team)


def late_in_new_york(spark: SparkSession, keys: list[str]) -> DataFrame:
    """Rows that are of the next day in UTC, in a session of New York."""
    theirs = in_zone(spark, NEW_YORK)
    rows = theirs.createDataFrame([(key, "2013-01-05 23:30:00") for key in keys], ["dest", "t"])
    return rows.select("dest", F.to_timestamp("t").alias("at"))


def test_days_that_another_zone_computed_are_refused(spark: SparkSession, team: World) -> None:
    generated(spark, team)
    append(late_in_new_york(spark, ["D001"]), team)
    with pytest.raises(InputError, match=r"'day' differs .* in UTC, in 1 rows"):
        adopt(spark, odd(team).table)


def checked(spark: SparkSession, team: World) -> None:
    """A table whose own CHECK depends on the zone of each writer."""
    table = DeltaTable.create(spark).location(str(team.folder / "odd"))
    table.addColumn("dest", "STRING").addColumn("at", "TIMESTAMP").addColumn("d", "DATE").execute()
    odd_path = f"delta.`{team.folder / 'odd'}`"
    spark.sql(f"ALTER TABLE {odd_path} ADD CONSTRAINT right_day CHECK (CAST(at AS DATE) = d)")
    rows = spark.createDataFrame(team.events[["dest", "at"]].head(300))
    append(rows.withColumn("d", F.to_date("at")), team)


def test_rows_that_the_teams_own_check_refuses_in_utc(spark: SparkSession, team: World) -> None:
    checked(spark, team)
    append(late_in_new_york(spark, ["D001"]).withColumn("d", F.to_date("at")), team)
    before = content(spark, team, "odd")
    with pytest.raises(InputError, match=r"constraint right_day does not admit 1 rows in UTC"):
        adopt(spark, odd(team).table)
    assert content(spark, team, "odd") == before
    assert not team.table.registry.numbers(), "nothing is published before all is looked at"


def test_a_row_that_comes_after_the_look_fails_in_one_line(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(spark, team)
    append(late_in_new_york(spark, ["D001"]).withColumn("d", F.to_date("at")), team)
    before = content(spark, team, "odd")
    monkeypatch.setattr(kept_values, "_check_problems", lambda *args: iter(()))
    with pytest.raises(InputError, match="own constraint right_day refuses a row in UTC"):
        adopt(spark, odd(team).table)
    assert content(spark, team, "odd") == before


def test_no_move_computes_a_day_again(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    generated(spark, team)
    adopt(spark, odd(team).table)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    epoch, keys = team.table.epoch(), sorted({*team.events["dest"]})
    late = late_in_new_york(spark, keys)
    append(late.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route()), team)
    before = content(spark, team, "odd")
    (kept,) = {row[1] for row in before if row[0] == str(datetime(2013, 1, 6, 4, 30))}
    assert kept == "2013-01-05"
    with pytest.raises(AssertionError):
        run(spark, team, "r2", capacities=(0.3, 1, 1, 1))
    assert "generated columns differ from their SQL in UTC" in capsys.readouterr().err
    assert content(spark, team, "odd") == before
    repair(spark, team.table)
    assert content(spark, team, "odd") == before and placed(spark, team)
