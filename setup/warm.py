"""A small job that does what Evenkeel's jobs do: set-up runs it once, to archive their classes."""

import shutil
import sys

from delta.tables import DeltaTable
from pyspark.sql import SparkSession


def main(path: str) -> None:
    """Make a table at `path`, change it in each way that jobs do, and read it back."""
    shutil.rmtree(path, ignore_errors=True)
    spark = SparkSession.builder.appName("evenkeel set-up").getOrCreate()
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, channel INT, slot INT, word STRING) USING delta "
        "PARTITIONED BY (channel) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    rows = spark.range(2000).selectExpr(
        "id",
        "cast(pmod(xxhash64(cast(id AS STRING)), 4) AS INT) AS channel",
        "cast(id % 64 AS INT) AS slot",
        "cast(id AS STRING) AS word",
    )
    rows.repartition(2, "channel").sortWithinPartitions("slot").write.format("delta").mode(
        "append"
    ).save(path)
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT placed CHECK (channel >= 0)")
    spark.sql(f"UPDATE {table} SET channel = element_at(array(0, 1, 2, 3), 2) WHERE slot IN (2, 3)")
    changes = rows.where("id % 10 = 0").unionByName(
        rows.selectExpr("id + 1990 AS id", "0 AS channel", "slot", "word")
    )
    (
        DeltaTable.forPath(spark, path)
        .alias("old")
        .merge(changes.dropDuplicates(["id"]).alias("new"), "old.id = new.id")
        .whenMatchedUpdate(set={"word": "new.word"})
        .whenNotMatchedInsertAll()
        .execute()
    )
    now = spark.read.format("delta").load(path)
    now.groupBy("channel").agg({"word": "count", "id": "sum"}).orderBy("channel").collect()
    now.join(changes, "id", "left_anti").groupBy("slot").count().toArrow()
    assert spark.read.format("delta").option("versionAsOf", 1).load(path).count() == 2000
    spark.sql(f"DESCRIBE HISTORY {table}").collect()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
