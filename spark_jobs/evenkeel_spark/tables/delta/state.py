"""The state table on Delta: its versions, properties and files, and whose it is.

Its folder is in `hadoop`, its fence in `constraints`, its history in `commits`; `checks` compares
it with a spec.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from evenkeel.spec.table_spec import CHANNEL as CHANNEL
from evenkeel.spec.table_spec import SLOT as SLOT
from evenkeel_spark.tables.delta.filesystem import check_answers, occupied
from partitioning.errors import DamagedError, InputError

TABLE_PROPERTY, SLOTS_PROPERTY = "evenkeel.table", "evenkeel.slots"
#: Delta's; without, an UPDATE of a few rows writes their files anew.
VECTORS_PROPERTY = "delta.enableDeletionVectors"
#: How long the log and removed files are kept; the log's must not be the shorter one.
RETENTION = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")


def sql_name(path: str) -> str:
    """A table's folder as Spark SQL names it."""
    return "delta.`" + path.replace("`", "``") + "`"


def snapshot(spark: SparkSession, path: str) -> Any:
    """Delta's newest snapshot of the table (a JVM object); costs no Spark job.

    Its version is -1 where there is no table.
    """
    jvm: Any = spark._jvm
    empty = jvm.scala.Option.empty
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    return log.update(False, empty(), empty())


def snapshot_at(spark: SparkSession, path: str, version: int) -> Any:
    """Delta's snapshot of the table at a version, however long ago (a JVM object).

    Raises
    ------
    DamagedError : the log no longer holds that version
    StoreError : nothing is known of it
    """
    jvm: Any = spark._jvm
    empty = jvm.scala.Option.empty
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    try:
        return log.getSnapshotAt(version, empty(), empty(), False)
    except (Py4JJavaError, PySparkException) as error:
        check_answers(spark, f"{path}/_delta_log")
        raise DamagedError(
            f"version {version} cannot be read any more",
            path,
            "It was vacuumed: plan again, and let only maintain vacuum this table",
        ) from error


def table_version(spark: SparkSession, path: str) -> int:
    """Newest version of the table; -1 where there is none."""
    return int(snapshot(spark, path).version())


def read_newest(spark: SparkSession, path: str) -> tuple[DataFrame, int]:
    """The table, and a version that it has at least reached when the rows are read.

    Reading at the very version would have Delta build that version's snapshot a second time.
    """
    version = table_version(spark, path)
    return spark.read.format("delta").load(path), version


def read_version(spark: SparkSession, path: str, version: int) -> DataFrame:
    """The table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def schema(spark: SparkSession, path: str) -> StructType:
    """The table's columns, with what Delta notes of each."""
    return StructType.fromJson(json.loads(snapshot(spark, path).metadata().schemaString()))


def comparable(kind: DataType) -> bool:
    """Whether values of a type can be hashed, and so compared before and after a move: not those
    that are, or hold, a map or a variant."""
    if isinstance(kind, ArrayType):
        return comparable(kind.elementType)
    if isinstance(kind, StructType):
        return all(comparable(f.dataType) for f in kind)
    return not isinstance(kind, MapType | VariantType)


def properties(spark: SparkSession, path: str) -> dict[str, str]:
    """All table properties, Delta's constraints among them."""
    return python_dict(spark, snapshot(spark, path).metadata().configuration())


def files(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """The table's live files: path, channel (int), size in bytes, rows (those that a deletion
    vector hides too), deleted.

    Parameters
    ----------
    version : of the table; None: the newest
    """
    found = snapshot(spark, path) if version is None else snapshot_at(spark, path, version)
    table = DataFrame(found.allFiles().toDF(), spark)
    return table.select(
        "path",
        F.col(f"partitionValues.{CHANNEL}").cast("int").alias(CHANNEL),
        "size",
        F.get_json_object("stats", "$.numRecords").cast("bigint").alias("rows"),
        F.coalesce(F.col("deletionVector.cardinality"), F.lit(0)).alias("deleted"),
    )


def table_bytes_per_row(spark: SparkSession, path: str) -> float:
    """Bytes of Parquet per row as written (rows since deleted count on both sides); 0: no rows.

    What a moved row costs is what a written row costs, so dead rows must not dilute it.
    """
    total = files(spark, path).agg(F.sum("size"), F.sum("rows")).first()
    return float(total[0]) / float(total[1]) if total and total[1] else 0.0


def check_owner(spark: SparkSession, path: str, table: str) -> dict[str, str]:
    """Properties of a state table that is ours; InputError otherwise."""
    if table_version(spark, path) < 0:
        held = "something that is not a Delta table" if occupied(spark, path) else "no state table"
        raise InputError(f"holds {held}", path, "Run bootstrap, or correct the path in the spec")
    found = properties(spark, path)
    if TABLE_PROPERTY not in found:
        raise InputError("holds a Delta table that is not Evenkeel's", path, "Give another path")
    if found[TABLE_PROPERTY] != table:
        raise InputError(
            f"holds state of table {found[TABLE_PROPERTY]!r}, not {table!r}",
            path,
            "Give each spec its own paths",
        )
    return found


def python_dict(spark: SparkSession, scala_map: Any) -> dict[str, Any]:
    jvm: Any = spark._jvm
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map))
