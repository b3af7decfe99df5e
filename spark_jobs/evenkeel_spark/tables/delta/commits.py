"""Commits of a state table: sessions that write one, and what those in the log say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta.state import (
    delta_log,
    properties,
    python_dict,
    snapshot,
    sql_name,
    table_version,
)
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS
from evenkeel_spark.tables.write_session import commit_session
from partitioning.errors import DamagedError, InputError

#: Delta's property for how long transaction ids are known. Without it they always are.
IDS_KEPT = "delta.setTransactionRetentionDuration"
#: Part of the application ids of applied windows.
WINDOWS = "windows"
#: Commits to search for the plan that last changed a table. More of them cost one read each.
RECENT = 200
#: Commits up to which they are read one after the other, and the threads that read more than that.
FEW_COMMITS, READERS = 8, 8
#: Commits that are read at once at most, where it is not known how far back to go.
AHEAD = 64
#: Operations by which we move rows.
MOVE_OPERATIONS = ("UPDATE", "MERGE")


@dataclass(frozen=True)
class Commit:
    """One commit of a state table.

    `meta` is our part of its userMetadata, under "evenkeel" ({} if the commit is not ours);
    `metrics` are Delta's operationMetrics. `id` is what Delta calls the transaction's id: no two
    commits share it. None: its writer gave none.
    """

    version: int
    operation: str
    timestamp: float
    meta: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    id: str | None = None

    @property
    def rows(self) -> int:
        """Number of rows that it moved, or the number of copies that it added if that is more.

        An UPDATE moves rows, and so does a MERGE of partial rows.
        """
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
        """Number of files that it wrote."""
        return self._metric("numAddedFiles", "numTargetFilesAdded")

    def _metric(self, *names: str) -> int:
        return next((self.metrics[n] for n in names if n in self.metrics), 0)


class WriteResult(NamedTuple):
    """Rows that one statement moved, and the table's version before and after.

    Rows are None if the transaction id was used before.
    """

    rows: int | None
    before: int
    after: int


def moves_of(made: Iterable[Commit], digest: str) -> Iterator[Commit]:
    """Yield the commits that moved rows for a plan.

    Delta compacts files in the same session, with the same metadata, where a table asks for it.
    """
    return (c for c in made if c.meta.get("digest") == digest and c.operation in MOVE_OPERATIONS)


def undisturbed(made: Sequence[WriteResult]) -> bool:
    """Return whether nobody else wrote between these writes, so that no row is left to move."""
    return all(w.rows is not None and w.after - w.before <= 1 for w in made) and all(
        one.after == other.before for one, other in pairwise(made)
    )


def app_id(table: str, what: str = "") -> str:
    """Return Delta's application id of our writes: `evenkeel/<table>`, with `/<what>` if given."""
    return f"evenkeel/{table}" + (f"/{what}" if what else "")


def our_commit(
    spark: SparkSession,
    app: str | None,
    version: int | None,
    meta: Mapping[str, Any],
    settings: Mapping[str, str] | None = None,
) -> AbstractContextManager[SparkSession]:
    """Make a session for a commit of ours, as `commit_session` does.

    Its metadata stands under "evenkeel", where nobody else's does.
    """
    return commit_session(spark, app, version, {"evenkeel": dict(meta)}, settings)


def windows_app(table: str) -> str:
    """Return Delta's application id of windows. Its version counts the changes of what is in.

    Each window and each note of what a table holds has the next number after the one that was seen.
    So only one of them can follow what was seen, whatever their days are.
    """
    return app_id(table, f"{WINDOWS}/count")


def windows_count(spark: SparkSession, path: str, table: str) -> int:
    """Return the newest number under `windows_app` in a state table; 0: none."""
    spent = python_dict(spark, snapshot(spark, path).transactions())
    return int(spent.get(windows_app(table), 0))


def day_id(spark: SparkSession, path: str, table: str) -> int | None:
    """Return the day number of the newest window, as version 0.1.0 wrote it; None: it did not.

    It is a hint for people only: a RESTORE leaves it as it was.
    """
    first = app_id(table, WINDOWS)
    spent = [
        (int(app.removeprefix(first).removeprefix("/") or 0), int(day))
        for app, day in python_dict(spark, snapshot(spark, path).transactions()).items()
        if re.fullmatch(rf"{re.escape(first)}(/\d+)?", app)
    ]
    return max(spent)[1] if spent else None


def history_since(spark: SparkSession, path: str, version: int) -> list[Commit]:
    """List the commits after `version`, oldest first, from the table's log, without a Spark job.

    Raises
    ------
    DamagedError : the log no longer reaches back that far
    """
    wanted = range(version + 1, table_version(spark, path) + 1)
    if len(wanted) <= FEW_COMMITS:
        found = [commit_at(spark, path, v) for v in wanted]
    else:
        # A remote store takes a while for each read, so several reads wait at once.
        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(lambda v: commit_at(spark, path, v), wanted))
    there = [commit for commit in found if commit is not None]
    if len(there) < len(found):
        raise DamagedError(
            f"its history no longer reaches back to version {version}",
            path,
            "Run roll_back if the run has moved rows: it needs no history. If that says the same, "
            "run repair. Then plan again",
        )
    return there


def newest_first(spark: SparkSession, path: str, version: int | None = None) -> Iterator[Commit]:
    """Yield commits from one back, as far as the log reaches. Read ever more of them at once.

    Parameters
    ----------
    version : of the first; None: the newest
    """
    number, ahead = table_version(spark, path) if version is None else version, 1
    with ThreadPoolExecutor(READERS) as pool:
        while number >= 0:
            numbers = range(number, max(number - ahead, -1), -1)
            read = map if ahead == 1 else pool.map
            for commit in list(read(lambda v: commit_at(spark, path, v), numbers)):
                if commit is None:
                    return
                yield commit
            number, ahead = number - ahead, min(2 * ahead, AHEAD)


def owner(spark: SparkSession, path: str, since: int) -> str | None:
    """Return the digest of the plan that made the newest commit after version `since`.

    Commits without a plan do not count. None: no plan made one.
    """
    for commit in newest_first(spark, path):
        if commit.version <= since:
            return None
        if "digest" in commit.meta:
            return str(commit.meta["digest"])
    return None


def last_plan(spark: SparkSession, path: str) -> tuple[str, str] | None:
    """Return the run and the digest of the plan that last changed the table.

    None: the last `RECENT` commits have none.
    """
    for commit in islice(newest_first(spark, path), RECENT):
        if "digest" in commit.meta and "run" in commit.meta:
            return str(commit.meta["run"]), str(commit.meta["digest"])
    return None


def commit_at(spark: SparkSession, path: str, version: int) -> Commit | None:
    """Read the commit of a version; None: the log no longer holds it.

    By Delta's protocol the action `commitInfo` of a commit's file says who wrote it.
    """
    jvm: Any = spark._jvm
    log = delta_log(spark, path)
    file = jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{version:020d}.json")
    try:
        lines = log.store().readAsIterator(file, log.newDeltaHadoopConf())
    except JAVA_ERRORS as error:
        if "FileNotFoundException" in str(error):
            return None
        raise
    info: Mapping[str, Any] = {}
    try:
        # Delta writes `commitInfo` first. Other writers may write it later, or not at all.
        while not info and lines.hasNext():
            info = json.loads(lines.next()).get("commitInfo") or {}
    finally:
        lines.close()
    return _commit(version, info)


def newest(spark: SparkSession, path: str) -> Commit:
    """Read the newest commit; of one that the log no longer holds, only the version is known."""
    version = table_version(spark, path)
    return commit_at(spark, path, version) or _commit(version, {})


def _commit(version: int, info: Mapping[str, Any]) -> Commit:
    try:
        meta = json.loads(info["userMetadata"])["evenkeel"]
    except (KeyError, TypeError, ValueError):
        meta = {}
    # Delta writes texts; delta-rs writes numbers, too.
    found = (info.get("operationMetrics") or {}).items()
    metrics = {k: int(v) for k, v in found if str(v).isdigit()}
    return Commit(
        version=version,
        operation=info.get("operation", "unknown"),
        timestamp=info.get("timestamp", 0) / 1000,
        meta=meta if isinstance(meta, dict) else {},
        metrics=metrics,
        # A parameter is text, or JSON that the log holds as it is.
        parameters={
            k: v if v is None or isinstance(v, str) else json.dumps(v)
            for k, v in (info.get("operationParameters") or {}).items()
        },
        id=info.get("txnId"),
    )


def check_remembers(spark: SparkSession, path: str, name: str) -> None:
    """Refuse a table that forgets transaction ids while a write of ours may still be under way.

    Raises
    ------
    InputError : gives the statement that mends it
    """
    set_to = properties(spark, path).get(IDS_KEPT)
    if set_to is None:
        return
    later = f"timestamp '2000-01-01 00:00:00' + CAST('{set_to}' AS INTERVAL)"
    kept = spark.sql(f"SELECT {later} < timestamp '2000-01-02 00:00:00'").first()
    if kept is None or kept[0]:
        raise InputError(
            f"expected {IDS_KEPT} to be at least 1 day, found {set_to!r}: a write that comes late "
            "could count twice",
            f"{name} ({path})",
            f"ALTER TABLE {sql_name(path)} UNSET TBLPROPERTIES ('{IDS_KEPT}')",
        )
