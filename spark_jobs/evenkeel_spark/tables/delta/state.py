"""The state table on Delta: its versions, properties and files, and its owner.

See also `filesystem` (its folder), `constraints` (its constraint), `commits` (its history) and
`preflight` (its fit to a spec).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from evenkeel.registry.state_view import sql_name as sql_name
from evenkeel.spec.parts import CHANNEL as CHANNEL
from evenkeel.spec.parts import SLOT as SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.filesystem import check_answers, occupied
from evenkeel_spark.tables.rows.comparable import incomparable
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from evenkeel_spark.tables.table_properties import BEFORE_PROPERTY, TABLE_PROPERTY
from partitioning.errors import DamagedError, InputError
from partitioning.function.sql import quoted

#: Delta's property for deletion vectors. Without them, an UPDATE of few rows rewrites whole files.
VECTORS_PROPERTY = "delta.enableDeletionVectors"
#: Delta's property for how long the log is kept: `keep` of the spec, or longer if files are kept
#: longer.
LOG_RETENTION = "delta.logRetentionDuration"
#: Delta's property for how long removed files, and so versions, are kept: `keep` of the spec.
FILE_RETENTION = "delta.deletedFileRetentionDuration"
RETENTION = (LOG_RETENTION, FILE_RETENTION)
#: Delta's note of the SQL of a generated column, in the column's metadata.
_GENERATED = "delta.generationExpression"
#: Properties that the job maintain changes.
MAINTAINED = (*RETENTION, BEFORE_PROPERTY)


def delta_log(spark: SparkSession, path: str) -> Any:
    """Return Delta's log of the table (a JVM object)."""
    log, _ = _classes(spark._jvm)
    return log.forTable(spark._jsparkSession, path)


@lru_cache(maxsize=1)
def _classes(jvm: Any) -> tuple[Any, Any]:
    """Return Delta's class of logs, and Scala's of options.

    Py4j looks a name up part by part, each by a call. Jobs ask for snapshots all the time.
    """
    return jvm.org.apache.spark.sql.delta.DeltaLog, jvm.scala.Option


def snapshot(spark: SparkSession, path: str) -> Any:
    """Return Delta's newest snapshot of the table (a JVM object), without a Spark job.

    Its version is -1 if there is no table.
    """
    _, option = _classes(spark._jvm)
    none = option.empty()
    return delta_log(spark, path).update(False, none, none)


def snapshot_at(spark: SparkSession, path: str, version: int) -> Any:
    """Return Delta's snapshot of the table at a version, however old (a JVM object).

    Raises
    ------
    DamagedError : the log no longer holds that version
    StoreError : the store does not answer
    """
    _, option = _classes(spark._jvm)
    none = option.empty()
    try:
        return delta_log(spark, path).getSnapshotAt(version, none, none, False)
    except SPARK_ERRORS as error:
        check_answers(spark, f"{path}/_delta_log")
        raise DamagedError(
            f"version {version} cannot be read any more",
            path,
            "It was vacuumed: plan again, and let only maintain vacuum this table",
        ) from error


def table_version(spark: SparkSession, path: str) -> int:
    """Return the newest version of the table; -1 if there is none."""
    return int(snapshot(spark, path).version())


def read_newest(spark: SparkSession, path: str) -> tuple[DataFrame, int]:
    """Read the table, and return a version that the rows are at least as new as.

    Reading at that very version would make Delta build the version's snapshot a second time.
    """
    version = table_version(spark, path)
    forget_cached(spark, path)
    return spark.read.format("delta").load(path), version


def forget_cached(spark: SparkSession, path: str) -> None:
    """Let statements from now on read the table itself.

    Spark would answer them by what another session of the application has cached of it, without
    what other programs have written since.
    """
    spark.catalog.refreshByPath(path)


def read_version(spark: SparkSession, path: str, version: int) -> DataFrame:
    """Read the table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def read_fixed(spark: SparkSession, path: str) -> DataFrame:
    """Read the table so that each action sees the same rows, also if somebody writes meanwhile."""
    version = table_version(spark, path)
    if version < 0:
        return spark.read.format("delta").load(path)
    return read_version(spark, path, version)


def schema(spark: SparkSession, path: str) -> StructType:
    """Return the table's columns, with Delta's metadata of each."""
    return StructType.fromJson(json.loads(snapshot(spark, path).metadata().schemaString()))


def generated_columns(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the columns that Delta computes from others of their row, with their SQL."""
    fields = schema(spark, path)
    return {f.name: f.metadata[_GENERATED] for f in fields if _GENERATED in f.metadata}


def kept_sql(spark: SparkSession, path: str) -> str:
    """Write the end of an UPDATE's SET by which generated columns keep their values.

    Without it Delta computes them again, by the time zone of this session. With it Delta compares
    them, and refuses a row in which they differ.
    """
    return "".join(f", {quoted(c)} = {quoted(c)}" for c in generated_columns(spark, path))


def check_comparable(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables with a column whose values cannot be compared before and after a move.

    Raises
    ------
    InputError : names the table, the column and its type
    """
    for name, state in spec.state.items():
        for problem in incomparable(schema(spark, state.path), f"{name} ({state.path})"):
            raise problem


def properties(spark: SparkSession, path: str) -> dict[str, str]:
    """Return all table properties, Delta's constraints among them."""
    return python_dict(spark, snapshot(spark, path).metadata().configuration())


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """Return whether a table has a property of Delta's that is true, in any letters."""
    return properties.get(name, "").lower() == "true"


def features(spark: SparkSession, path: str) -> set[str]:
    """Return the names of the table's Delta features."""
    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(path)}").first()
    return set(detail["tableFeatures"] or ()) if detail else set()


def names_in_files(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the name of each column in the table's files, by its name.

    With column mapping the two differ: a column that is added gets an id, and one that is renamed
    keeps its old name.
    """
    mapped = properties(spark, path).get("delta.columnMapping.mode", "none") != "none"
    found = schema(spark, path)
    if not mapped:
        return {field.name: field.name for field in found}
    return {field.name: name_in_files(field) for field in found}


def name_in_files(field: StructField) -> str:
    """Return a column's name in the table's Parquet files, which differs if it was renamed."""
    return str(field.metadata.get("delta.columnMapping.physicalName", field.name))


def partition_columns(spark: SparkSession, path: str) -> list[str]:
    """Return the columns that partition the table, in order."""
    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(path)}").first()
    return list(detail["partitionColumns"]) if detail else []


def files(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """List the table's live files.

    Parameters
    ----------
    version : of the table; None: the newest

    Returns
    -------
    Columns: path, channel (int), partition, size (bytes), rows (with those that a deletion vector
    hides), deleted (rows that it hides). A partition is an array of structs: the name in files of
    a partition column, and its value as text.
    """
    found = snapshot(spark, path) if version is None else snapshot_at(spark, path, version)
    table = DataFrame(found.allFiles().toDF(), spark)
    values = F.col("partitionValues")
    return table.select(
        "path",
        values[names_in_files(spark, path).get(CHANNEL, CHANNEL)].cast("int").alias(CHANNEL),
        F.array_sort(F.map_entries(values)).alias("partition"),
        "size",
        F.get_json_object("stats", "$.numRecords").cast("bigint").alias("rows"),
        F.coalesce(F.col("deletionVector.cardinality"), F.lit(0)).alias("deleted"),
    )


def table_bytes_per_row(spark: SparkSession, path: str) -> float:
    """Return the bytes of Parquet per written row, deleted rows included; 0: there are no rows.

    A moved row costs as much as a written row. So deleted rows must not change the mean.
    """
    # Another writer's files may have no statistics.
    known = files(spark, path).where("rows IS NOT NULL")
    total = known.agg(F.sum("size"), F.sum("rows")).first()
    return float(total[0]) / float(total[1]) if total and total[1] else 0.0


def check_owner(spark: SparkSession, path: str, table: str) -> dict[str, str]:
    """Return the properties of a state table.

    Raises
    ------
    InputError : the table is not ours, or is of another table's spec
    """
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
    """Convert a map of Scala's from texts to texts or numbers.

    It goes through JSON, as one text. Py4j would ask for each entry by several calls, and learn by
    an exception that there are no more.
    """
    jvm: Any = spark._jvm
    java_map = jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map)
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    found: dict[str, Any] = json.loads(mapper.writeValueAsString(java_map))
    return found


def owning_spec(spark: SparkSession, path: str) -> str | None:
    """Return the table to whose spec a folder's state table belongs; None: to none."""
    if table_version(spark, path) < 0:
        return None
    return properties(spark, path).get(TABLE_PROPERTY)
