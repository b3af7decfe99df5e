"""What the commits of a state table say: those to be made, and those in its history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from delta import exceptions as conflicts
from pyspark.sql import SparkSession

from partitioning.errors import DamagedError
from spark_jobs.state import python_dict, snapshot, sql_name, table_version

#: Second part of the application id of applied windows; versions are day numbers of their ends.
WINDOWS = "windows"
#: Commits that are looked through for the plan that left a table as it is.
RECENT = 200
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


def app_id(table: str, what: str = "") -> str:
    """Delta's application id of our writes: `evenkeel/<table>`, or `evenkeel/<table>/<what>`."""
    return f"evenkeel/{table}" + (f"/{what}" if what else "")


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


def spent_transaction(spark: SparkSession, path: str, app: str) -> int | None:
    """Highest transaction version that `app` has committed; None: never wrote."""
    version = python_dict(spark, snapshot(spark, path).transactions()).get(app)
    return None if version is None else int(version)


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
            raise DamagedError(
                f"its history no longer reaches back to version {version}",
                path,
                "Plan again; delta.logRetentionDuration is how long history is kept",
            )
        # Somebody has committed since the limit was read, and pushed the oldest out of it.
        limit = 2 * since


def last_plan(spark: SparkSession, path: str) -> str:
    """The run and digest of the plan that last changed the table, as errors name them (a space
    after); empty where its recent history has none."""
    rows = spark.sql(f"DESCRIBE HISTORY {sql_name(path)} LIMIT {RECENT}").collect()
    for commit in map(_commit, sorted(rows, key=lambda r: -r["version"])):
        if "digest" in commit.meta and "run" in commit.meta:
            return f"(--run {commit.meta['run']} --digest {commit.meta['digest']}) "
    return ""


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
