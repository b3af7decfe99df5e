"""The advice of docs/how-to/adopt.md and write.md to a team's writers and readers, tried."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.migration.repair import repair
from tests.conftest import World
from tests.support.worlds.team_tables import placed, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAY = "day = '2013-01-05'"


def orders(spark: SparkSession, team: World) -> DataFrame:
    return spark.read.format("delta").load(str(team.folder / "orders"))


def routed(rows: DataFrame, team: World) -> DataFrame:
    epoch = team.table.epoch()
    return rows.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route())


def one_channel(spark: SparkSession, team: World) -> tuple[DataFrame, int]:
    """New rows of a day, which all go to one channel; and how many."""
    rows = orders(spark, team).where(f"{DAY} AND channel = 1").drop("slot", "channel")
    return rows.localCheckpoint(), rows.count()


@pytest.mark.parametrize("by", ["replaceWhere", "DELETE"])
def test_a_day_is_overwritten(spark: SparkSession, team: World, by: str) -> None:
    adopt(spark, team.table)
    path, (new, count) = str(team.folder / "orders"), one_channel(spark, team)
    others = orders(spark, team).where(f"NOT {DAY}").count()
    writer = routed(new, team).write.format("delta")
    if by == "DELETE":
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {DAY}")
        writer.mode("append").save(path)
    else:
        writer.mode("overwrite").option("replaceWhere", DAY).save(path)
    assert orders(spark, team).where(DAY).count() == count > 0
    assert orders(spark, team).where(f"NOT {DAY}").count() == others and placed(spark, team)


@pytest.mark.parametrize("partitions", [["day"], []])
def test_a_dynamic_overwrite_is_wrong_in_both_layouts(
    spark: SparkSession, team: World, partitions: list[str]
) -> None:
    """It leaves rows of the day in other channels, or takes other days out of these channels."""
    state = yaml.safe_load(Path(team.spec_path).read_text())["state"]
    state["orders"]["partitions"] = partitions
    adopt(spark, team.respec(state=state).table)
    path, (new, count) = str(team.folder / "orders"), one_channel(spark, team)
    others = orders(spark, team).where(f"NOT {DAY}").count()
    writer = routed(new, team).write.format("delta").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").save(path)
    left = orders(spark, team).where(f"NOT {DAY}").count()
    assert orders(spark, team).where(DAY).count() > count
    assert (left < others) == (not partitions)


def test_an_insert_by_position_of_too_few_columns_is_refused(
    spark: SparkSession, team: World
) -> None:
    rows = orders(spark, team).limit(3).localCheckpoint()
    adopt(spark, team.table)
    rows.createOrReplaceTempView("fewer")
    with pytest.raises(Exception, match=r"DELTA_INSERT_COLUMN_ARITY_MISMATCH|not enough data col"):
        spark.sql(f"INSERT INTO delta.`{team.folder / 'orders'}` SELECT * FROM fewer")


def test_an_append_with_a_name_and_a_number_is_written_once(
    spark: SparkSession, team: World
) -> None:
    adopt(spark, team.table)
    path, (new, count) = str(team.folder / "orders"), one_channel(spark, team)
    before = orders(spark, team).count()
    for number, times in ((1, 1), (1, 1), (0, 1), (2, 2)):
        writer = routed(new, team).write.format("delta").mode("append")
        writer.option("txnAppId", "orders").option("txnVersion", number).save(path)
        assert orders(spark, team).count() == before + times * count


@pytest.mark.parametrize("option", ["skipChangeCommits", "ignoreChanges", None])
def test_a_stream_that_reads_an_adopted_table_over_a_rebalance(
    spark: SparkSession, team: World, tmp_path: Path, option: str | None
) -> None:
    adopt(spark, team.table)
    path, to = str(team.folder / "orders"), str(tmp_path / "read")

    def read() -> int:
        reader = spark.readStream.format("delta")
        reader = reader.option(option, "true") if option else reader
        writer = reader.load(path).writeStream.format("delta").trigger(availableNow=True)
        writer.option("checkpointLocation", f"{to}-state").start(to).awaitTermination()
        return spark.read.format("delta").load(to).count()

    first = read()
    assert first == orders(spark, team).count()
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    new, count = one_channel(spark, team)
    routed(new, team).write.format("delta").mode("append").save(path)
    if option is None:
        with pytest.raises(
            Exception, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES|ignoreChanges|skipCh"
        ):
            read()
    elif option == "skipChangeCommits":
        assert read() == first + count
    else:
        # Moved rows come twice.
        assert read() > first + count


def test_a_writer_by_delta_rs_that_died_knows_what_it_has_written(
    spark: SparkSession, team: World
) -> None:
    adopt(spark, team.table)
    repair(spark, team.respec(fence="slot").table)
    path, (new, count) = str(team.folder / "orders"), one_channel(spark, team)
    rows, before = routed(new, team).toArrow(), orders(spark, team).count()
    for _ in range(2):
        if (DeltaTable(path).transaction_version("orders") or 0) < 1:
            said = CommitProperties(app_transactions=[Transaction("orders", 1)])
            write_deltalake(path, rows, mode="append", commit_properties=said)
        assert orders(spark, team).count() == before + count
