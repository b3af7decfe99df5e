"""The state table on Delta: its folder, versions, properties and files, and whose it is.

Its fence is in `constraints`, its history in `commits`; `checks` compares it with a spec.
"""

from __future__ import annotations

import re
import time
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.spec import CHANNEL as CHANNEL
from evenkeel.spec import SLOT as SLOT
from evenkeel.store import StoreError
from partitioning.errors import DamagedError, InputError

TABLE_PROPERTY, SLOTS_PROPERTY = "evenkeel.table", "evenkeel.slots"
#: Delta's; without, an UPDATE of a few rows writes their files anew.
VECTORS_PROPERTY = "delta.enableDeletionVectors"
#: How long the log and removed files are kept; the log's must not be the shorter one.
RETENTION = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
#: Files of a first write that has not committed: a part, or in the log anything but a version.
_UNFINISHED = re.compile(r"channel=[^/]+/\.?part-[^/]+\.parquet(\.crc)?|_delta_log/(?!\d{20}\.).*")

#: A commit of Delta's that was not renamed to its version, and Hadoop's checksum of it.
_TORN = re.compile(r"\.{1,2}\d{20}\.json\..*\.tmp(\.crc)?")


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


def check_answers(spark: SparkSession, path: str) -> None:
    """Ask for a file or folder that could not be read, which tells a damaged one, or none, from a
    store that is down.

    Raises
    ------
    StoreError : the store is
    """
    jvm: Any = spark._jvm
    try:
        where = jvm.org.apache.hadoop.fs.Path(path)
        files = where.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        if files.exists(where) and files.getFileStatus(where).isFile():
            file = files.open(where)
            file.read()
            file.close()
    except Py4JJavaError as error:
        why = str(error.java_exception).partition("\n")[0]
        if "ChecksumException" in why:
            # It has answered: with a file that is damaged.
            return
        raise StoreError(
            f"cannot be read ({why})", path, "Look at the store, then run this again"
        ) from error
    except IllegalArgumentException:
        # Not a path, taken wrongly from what an error says: there is nothing to ask.
        return


def table_version(spark: SparkSession, path: str) -> int:
    """Newest version of the table; -1 where there is none."""
    return int(snapshot(spark, path).version())


def occupied(spark: SparkSession, path: str) -> bool:
    """Whether the folder holds anything at all, a Delta table or not."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    files = where.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(where):
        return False
    return files.getFileStatus(where).isFile() or len(files.listStatus(where)) > 0


def unfinished(spark: SparkSession, path: str) -> float | None:
    """When a folder was last written (seconds since 1970) that holds nothing but what a first
    write of Delta leaves before its commit: Parquet parts by channel, a log without a version.
    None: it holds anything else."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    files = where.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    status = files.getFileStatus(where)
    if status.isFile() or table_version(spark, path) >= 0:
        return None
    newest = status.getModificationTime()
    root = files.makeQualified(where).toString().rstrip("/") + "/"
    found = files.listFiles(where, True)
    while found.hasNext():
        file = found.next()
        if not _UNFINISHED.fullmatch(file.getPath().toString().removeprefix(root)):
            return None
        newest = max(newest, file.getModificationTime())
    return float(newest) / 1000


def remove(spark: SparkSession, path: str) -> None:
    """Remove a folder and all that is in it."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    where.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(where, True)


def remove_torn(spark: SparkSession, path: str, hours: float) -> int:
    """Remove what commits that were killed left in the log more than so many hours ago, which
    VACUUM passes over; returns how many files."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.hadoop.fs.Path(path, "_delta_log")
    files = log.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if files.getUri().getScheme() == "file":
        # Else checksums are hidden, also one whose commit was killed when it had been renamed.
        files = files.getRawFileSystem()
    before, removed = (time.time() - hours * 3600) * 1000, 0
    for status in files.listStatus(log):
        if _TORN.fullmatch(status.getPath().getName()) and status.getModificationTime() < before:
            removed += bool(files.delete(status.getPath(), False))
    return removed


def read_newest(spark: SparkSession, path: str) -> tuple[DataFrame, int]:
    """The table, and a version that it has at least reached when the rows are read.

    Reading at the very version would have Delta build that version's snapshot a second time.
    """
    version = table_version(spark, path)
    return spark.read.format("delta").load(path), version


def read_version(spark: SparkSession, path: str, version: int) -> DataFrame:
    """The table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)


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
