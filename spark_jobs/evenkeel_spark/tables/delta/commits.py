"""What the commits of a state table say: those to be made, and those in its history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from delta import exceptions as conflicts
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta.state import python_dict, snapshot, table_version
from evenkeel_spark.tables.delta.write_session import (
    APP_ID,
    APP_VERSION,
    OF_ONE_WRITE,
    USER_METADATA,
    own_session,
)
from partitioning.errors import DamagedError

#: Second part of the application id of applied windows; versions are day numbers of their ends.
WINDOWS = "windows"
#: Commits that are looked through for the plan that left a table as it is.
RECENT = 200
#: Commits that are read one after the other; more are read by so many threads.
FEW, READERS = 8, 8
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
    parameters: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows that an UPDATE, or a MERGE of partials, took from where they stood, or that a MERGE
        of copies added, if those are more."""
        return max(
            self._metric("numUpdatedRows", "numTargetRowsDeleted"),
            self._metric("numTargetRowsInserted"),
        )

    @property
    def bytes(self) -> int:
        """Bytes that it wrote."""
        return self._metric("numAddedBytes", "numTargetBytesAdded")

    @property
    def files(self) -> int:
        """Files that it wrote."""
        return self._metric("numAddedFiles", "numTargetFilesAdded")

    def _metric(self, *names: str) -> int:
        return next((self.metrics[n] for n in names if n in self.metrics), 0)


def app_id(table: str, what: str = "") -> str:
    """Delta's application id of our writes: `evenkeel/<table>`, or `evenkeel/<table>/<what>`."""
    return f"evenkeel/{table}" + (f"/{what}" if what else "")


@contextmanager
def commit_session(
    spark: SparkSession, app: str | None, version: int | None, meta: Mapping[str, Any]
) -> Iterator[SparkSession]:
    """Make a session for one commit: writes made in it carry our metadata and, where `app` is
    given, a transaction id.

    Delta skips a write whose (app, version) is spent, silently. So each write has a session of
    its own (`own_session`), in which no other thread writes; `spark` stays as it is. A DataFrame
    of another session must be brought over to be written (`in_session`); as the source of a MERGE
    it may be of any.

    Parameters
    ----------
    spark : the session to take all other settings from
    app, version : see `app_id`; versions of one app must grow
    meta : goes into the commit's userMetadata as {"evenkeel": meta}
    """
    own = own_session(spark)
    own.conf.set(USER_METADATA, json.dumps({"evenkeel": dict(meta)}, sort_keys=True))
    if app is not None:
        own.conf.set(APP_ID, app)
        own.conf.set(APP_VERSION, str(version))
    try:
        yield own
    finally:
        for name in OF_ONE_WRITE:
            own.conf.unset(name)


def spent_transaction(spark: SparkSession, path: str, app: str) -> int | None:
    """Highest transaction version that `app` has committed; None: never wrote."""
    version = python_dict(spark, snapshot(spark, path).transactions()).get(app)
    return None if version is None else int(version)


def history_since(spark: SparkSession, path: str, version: int) -> list[Commit]:
    """Commits after `version`, oldest first, read from the table's log without a Spark job.

    Raises
    ------
    DamagedError : the log no longer reaches back so far
    """
    wanted = range(version + 1, table_version(spark, path) + 1)
    if len(wanted) <= FEW:
        found = [commit_at(spark, path, v) for v in wanted]
    else:
        # A store far away answers each in its own time.
        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(lambda v: commit_at(spark, path, v), wanted))
    there = [commit for commit in found if commit is not None]
    if len(there) < len(found):
        raise DamagedError(
            f"its history no longer reaches back to version {version}",
            path,
            "Plan again; delta.logRetentionDuration is how long history is kept",
        )
    return there


def newest_first(spark: SparkSession, path: str) -> Iterator[Commit]:
    """Commits from the newest one back, as far as the log reaches; each is read when asked for."""
    for version in range(table_version(spark, path), -1, -1):
        commit = commit_at(spark, path, version)
        if commit is None:
            return
        yield commit


def owner(spark: SparkSession, path: str, since: int) -> str | None:
    """Digest of the plan that made the newest commit after version `since` that carries one; None:
    no plan made one."""
    for commit in newest_first(spark, path):
        if commit.version <= since:
            return None
        if "digest" in commit.meta:
            return str(commit.meta["digest"])
    return None


def last_plan(spark: SparkSession, path: str) -> tuple[str, str] | None:
    """The run and the digest of the plan that last changed the table; None where its recent history
    has none."""
    for commit in islice(newest_first(spark, path), RECENT):
        if "digest" in commit.meta and "run" in commit.meta:
            return str(commit.meta["run"]), str(commit.meta["digest"])
    return None


def commit_at(spark: SparkSession, path: str, version: int) -> Commit | None:
    """What the commit of a version says of itself; None where the log no longer holds it.

    Delta's protocol has a commit's provenance in its file, as the action `commitInfo`.
    """
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    file = jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{version:020d}.json")
    try:
        lines = log.store().readAsIterator(file, log.newDeltaHadoopConf())
    except Py4JJavaError as error:
        if "FileNotFoundException" in str(error):
            return None
        raise
    info: Mapping[str, Any] = {}
    try:
        # Delta writes it first; others may write it later, or not at all.
        while not info and lines.hasNext():
            info = json.loads(lines.next()).get("commitInfo") or {}
    finally:
        lines.close()
    return _commit(version, info)


def _commit(version: int, info: Mapping[str, Any]) -> Commit:
    try:
        meta = json.loads(info["userMetadata"])["evenkeel"]
    except (KeyError, TypeError, ValueError):
        meta = {}
    metrics = {k: int(v) for k, v in (info.get("operationMetrics") or {}).items() if v.isdigit()}
    return Commit(
        version=version,
        operation=info.get("operation", "unknown"),
        timestamp=info.get("timestamp", 0) / 1000,
        meta=meta if isinstance(meta, dict) else {},
        metrics=metrics,
        # Text, or JSON that the log holds as it is.
        parameters={
            k: v if v is None or isinstance(v, str) else json.dumps(v)
            for k, v in (info.get("operationParameters") or {}).items()
        },
    )
