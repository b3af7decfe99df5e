"""The state table on Delta: what every job needs to know of it and may do to it.

Owns its properties, its CHECK constraints (the partitioning function as the table itself
enforces it), its transaction ids and the reading of its history. Which constraint stands when,
and which rows move, is for the jobs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from delta import exceptions as conflicts
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.spec import TableSpec
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function import PartitioningFunction
from partitioning.sql import check_sql, slot_sql

CHANNEL, SLOT = "channel", "slot"
#: Second part of the application id of applied windows; versions are day numbers of their ends.
WINDOWS = "windows"
TABLE_PROPERTY, SLOTS_PROPERTY = "evenkeel.table", "evenkeel.slots"
#: How long the log and removed files are kept; the log's must not be the shorter one.
RETENTION = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
#: Names of our constraints begin so.
OURS = "evenkeel_"
#: Files of a first write that has not committed: a part, or in the log anything but a version.
_UNFINISHED = re.compile(r"channel=[^/]+/\.?part-[^/]+\.parquet(\.crc)?|_delta_log/(?!\d{20}\.).*")
_CONSTRAINT = "delta.constraints."
_APP_ID = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


#: Delta's answers to "somebody else committed first"; they have no base class in common.
CONFLICTS: tuple[type[Exception], ...] = (
    conflicts.ConcurrentAppendException,
    conflicts.ConcurrentDeleteDeleteException,
    conflicts.ConcurrentDeleteReadException,
    conflicts.ConcurrentTransactionException,
    conflicts.ConcurrentWriteException,
    conflicts.DeltaConcurrentModificationException,
    conflicts.MetadataChangedException,
    conflicts.ProtocolChangedException,
)


@dataclass(frozen=True)
class Commit:
    """One commit of a state table.

    `meta` is what we wrote into its userMetadata under "evenkeel" ({} where it is not ours);
    `metrics` are Delta's operationMetrics.
    """

    version: int
    operation: str
    timestamp: float
    meta: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


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
    """
    jvm: Any = spark._jvm
    empty = jvm.scala.Option.empty
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    try:
        return log.getSnapshotAt(version, empty(), empty(), False)
    except (Py4JJavaError, PySparkException) as error:
        raise DamagedError(f"version {version} cannot be read any more", path) from error


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
    return _python(spark, snapshot(spark, path).metadata().configuration())


def constraints(spark: SparkSession, path: str) -> dict[str, str]:
    """The table's CHECK constraints: name -> SQL."""
    return {
        name.removeprefix(_CONSTRAINT): sql
        for name, sql in properties(spark, path).items()
        if name.startswith(_CONSTRAINT)
    }


def epoch_constraint(epoch: int) -> str:
    """Name of the constraint by which the table admits this epoch's function alone.

    It is what a stale writer reads in Delta's error, so it names the epoch.
    """
    return f"{OURS}epoch_{epoch}"


def moving_constraint(epoch: int) -> str:
    """Name of the constraint that admits this epoch's function and the one before it."""
    return f"{OURS}moving_{epoch}"


def constraint_sql(*functions: PartitioningFunction) -> str:
    """CHECK expression: the row's channel is what one of the functions says, its slot is right."""
    owners = ", ".join(check_sql(f, SLOT) for f in functions)
    slot = slot_sql(functions[0].key, len(functions[0].slots))
    one = f"{CHANNEL} = {owners}" if len(functions) == 1 else f"{CHANNEL} IN ({owners})"
    return f"{one} AND {SLOT} = {slot}"


def add_constraint(spark: SparkSession, path: str, name: str, sql: str) -> bool:
    """Add a CHECK constraint; Delta scans the table first. False where it already stands.

    Raises
    ------
    DamagedError : one of this name stands and says something else
    """
    there = constraints(spark, path).get(name)
    if there is not None:
        if not same_sql(there, sql):
            raise DamagedError(f"constraint {name} is not the one that Evenkeel wrote", path)
        return False
    spark.sql(f"ALTER TABLE {sql_name(path)} ADD CONSTRAINT {name} CHECK ({sql})")
    return True


def same_sql(one: str, other: str) -> bool:
    """Whether two constraints are one: Delta stores the text with spaces of its own."""
    return "".join(one.split()) == "".join(other.split())


def drop_constraint(spark: SparkSession, path: str, name: str) -> bool:
    """Drop a CHECK constraint; False where there is none."""
    if name not in constraints(spark, path):
        return False
    spark.sql(f"ALTER TABLE {sql_name(path)} DROP CONSTRAINT {name}")
    return True


def app_id(table: str, what: str = "") -> str:
    """Delta's application id of our writes: `evenkeel/<table>`, or `evenkeel/<table>/<what>`."""
    return f"evenkeel/{table}" + (f"/{what}" if what else "")


def spent_transaction(spark: SparkSession, path: str, app: str) -> int | None:
    """Highest transaction version that `app` has committed; None: never wrote."""
    version = _python(spark, snapshot(spark, path).transactions()).get(app)
    return None if version is None else int(version)


@contextmanager
def commit_conf(
    spark: SparkSession, app: str | None, version: int | None, meta: Mapping[str, Any]
) -> Iterator[None]:
    """Writes inside carry our metadata and, where `app` is given, a transaction id.

    Delta skips a write whose (app, version) is spent, silently: so one `with` for each write.

    Parameters
    ----------
    app, version : see `app_id`; versions of one app must grow
    meta : goes into the commit's userMetadata as {"evenkeel": meta}
    """
    values = {_USER_METADATA: json.dumps({"evenkeel": dict(meta)}, sort_keys=True)}
    if app is not None:
        values |= {_APP_ID: app, _APP_VERSION: str(version)}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name in (_USER_METADATA, _APP_ID, _APP_VERSION):
            spark.conf.unset(name)


def history_since(spark: SparkSession, path: str, version: int) -> list[Commit]:
    """Commits after `version`, oldest first; asks nothing of Spark where there are none.

    Raises
    ------
    DamagedError : the log no longer reaches back so far
    """
    limit = table_version(spark, path) - version
    if limit <= 0:
        return []
    while True:
        rows = spark.sql(f"DESCRIBE HISTORY {sql_name(path)} LIMIT {limit}").collect()
        found = {r["version"]: r.asDict() for r in rows if r["version"] > version}
        if version + 1 in found:
            return [_commit(found[v]) for v in sorted(found)]
        since = max(found, default=version) - version
        if since <= limit:
            raise DamagedError(f"its history no longer reaches back to version {version}", path)
        # Somebody has committed since the limit was read, and pushed the oldest out of it.
        limit = 2 * since


def files(spark: SparkSession, path: str) -> DataFrame:
    """The table's live files: path, channel (int), size in bytes, rows (those that a deletion
    vector hides too), deleted."""
    table = DataFrame(snapshot(spark, path).allFiles().toDF(), spark)
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


def check_admits(spark: SparkSession, spec: TableSpec, function: PartitioningFunction) -> None:
    """Refuse to write by `function` unless every table admits it and nothing else.

    Raises
    ------
    FenceError : a migration is under way, or the tables are of another epoch
    """
    rule, name = constraint_sql(function), epoch_constraint(function.epoch)
    for state in spec.state.values():
        found = {n: s for n, s in constraints(spark, state.path).items() if n.startswith(OURS)}
        if set(found) != {name} or not same_sql(found[name], rule):
            stands = ", ".join(sorted(found)) or "no constraint"
            raise FenceError(
                f"stands under {stands}, not under epoch {function.epoch} alone",
                state.path,
                "A migration is under way or was broken off: let its DAG finish or roll back",
            )


def check_tables(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables that are not there, not this spec's, or that disagree on S.

    Raises
    ------
    InputError : names the folder, or both where two disagree
    """
    slots: dict[str, str] = {}
    for name, state in spec.state.items():
        found = check_owner(spark, state.path, spec.table)
        slots[f"{name} ({state.path})"] = found.get(SLOTS_PROPERTY, "none")
    if len(set(slots.values())) > 1:
        said = ", ".join(f"{place} {count}" for place, count in slots.items())
        raise InputError(
            f"state tables disagree on the number of slots: {said}",
            f"state of {spec.table}",
            "Tables of one spec share S for ever: bootstrap the odd one again from its input",
        )
    if slots and (made := next(iter(slots.values()))) != str(spec.slots):
        raise InputError(
            f"state was made with slots = {made}, the spec says {spec.slots}",
            next(iter(slots)),
            "The number of slots never changes: set it back",
        )


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


def _commit(row: Mapping[str, Any]) -> Commit:
    try:
        meta = json.loads(row["userMetadata"] or "{}")["evenkeel"]
    except (KeyError, TypeError, ValueError):
        meta = {}
    metrics = {k: int(v) for k, v in (row["operationMetrics"] or {}).items() if v.isdigit()}
    return Commit(
        version=row["version"],
        operation=row["operation"],
        timestamp=row["timestamp"].timestamp(),
        meta=meta if isinstance(meta, dict) else {},
        metrics=metrics,
        parameters=row["operationParameters"] or {},
    )


def _python(spark: SparkSession, scala_map: Any) -> dict[str, Any]:
    jvm: Any = spark._jvm
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map))
