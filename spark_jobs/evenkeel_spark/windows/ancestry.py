"""The commits whose effect is in a table, from the newest one back.

RESTORE removes the effect of commits, and CLONE adds that of another table's. Delta keeps all
commits and transaction ids in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import DamagedError

RESTORE, CLONE = "RESTORE", "CLONE"
#: Operations that replace the rows that earlier commits have left.
_REPLACING = (RESTORE, CLONE, "REPLACE", "TRUNCATE")
#: Parameters of commits that overwrite all rows.
_MODES = {"mode": "Overwrite", "outputMode": "Complete"}
#: Delta's metrics of what a DELETE or a MERGE has taken away, and of what it has written.
_REMOVED = ("numRemovedFiles", "numTargetFilesRemoved")
_LEAVES_ROWS = (
    "numAddedFiles",
    "numCopiedRows",
    "numDeletionVectorsAdded",
    "numTargetDeletionVectorsAdded",
    "numTargetFilesAdded",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
)
#: Predicates of a DELETE of all rows, without brackets and quotes. Delta-rs may give none.
_ALL = ("", "true")
_BY_PATH = re.compile(r"delta\.`(?:file:)?(.+)`")


#: A full path in the log, and the beginning of a local one.
_FULL, _LOCAL = re.compile("/|[A-Za-z][A-Za-z0-9+.-]*:/"), re.compile("^file:/+")


class UnknownError(Exception):
    """The commits of a table do not tell where its rows come from."""


class DisturbedError(UnknownError):
    """A window was added to other rows than it had seen.

    Parameters
    ----------
    path : of the table that has the window's commit
    commit : of the window
    """

    def __init__(self, why: str, path: str, commit: commits.Commit) -> None:
        super().__init__(why)
        self.path, self.commit = path, commit


def ancestors(spark: SparkSession, path: str, version: int) -> Iterator[tuple[str, commits.Commit]]:
    """Yield the commits that led to a version's content, newest first, with their table's path.

    A RESTORE is yielded, and then the commits of the version that it restored. A CLONE is yielded,
    and then the commits of its source.

    Raises
    ------
    UnknownError : the history ends, another commit has replaced all rows, or a source cannot be
        told
    """
    whose, onward, hops = "its", True, {(path, version)}
    while onward:
        onward, last = False, version + 1
        for commit in commits.newest_first(spark, path, version):
            last = commit.version
            yield path, commit
            if not replaces(spark, path, commit):
                continue
            if commit.operation == RESTORE:
                version = _restored(spark, path, commit)
            elif commit.operation == CLONE:
                path, version = _source(spark, path, commit)
                whose = f"it was cloned from version {version} of {path}, whose"
                if (path, version) in hops:
                    raise UnknownError(f"{whose} rows come from this very clone")
                hops.add((path, version))
            else:
                raise UnknownError(f"version {last} is {commit.operation} of all rows")
            onward = True
            break
    if last > version:
        raise UnknownError(f"{whose} history is gone")
    if last > 0:
        raise UnknownError(f"{whose} history reaches back to version {last} only")
    raise UnknownError(f"{whose} commits name no bootstrap")


def replaces(spark: SparkSession, path: str, commit: commits.Commit) -> bool:
    """Tell whether a commit of others puts other rows in the place of all that were there, or none.

    Parameters
    ----------
    path : of the table whose commit it is
    """
    if any(word in commit.operation for word in _REPLACING):
        return True
    if any(commit.parameters.get(name) == mode for name, mode in _MODES.items()):
        return True
    if commit.operation not in ("DELETE", "MERGE") or commit.meta:
        return False
    predicate = commit.parameters.get("predicate") or ""
    if commit.operation == "DELETE" and predicate.strip('[]()" ').lower() in _ALL:
        return True
    # One that leaves a row of a file that it changes has written a file or a deletion vector. One
    # that has removed no file has emptied nothing. Delta-rs gives these metrics other names.
    left = any(commit.metrics.get(name) for name in _LEAVES_ROWS)
    removed = [commit.metrics[name] for name in _REMOVED if name in commit.metrics]
    idle = bool(removed) and not any(removed)
    return not left and not idle and _empty(spark, path, commit.version)


def _empty(spark: SparkSession, path: str, version: int) -> bool:
    """Tell whether a version has no file; False where the log no longer says it."""
    try:
        return int(state.snapshot_at(spark, path, version).numOfFiles()) == 0
    except DamagedError:
        return False


def _source(spark: SparkSession, path: str, clone: commits.Commit) -> tuple[str, int]:
    """Return path and version of the table that a clone was made from."""
    named, version = (clone.parameters.get(n) for n in ("source", "sourceVersion"))
    found = _BY_PATH.fullmatch(named or "")
    if found is None or version is None or not version.isdigit():
        raise UnknownError(f"it was cloned from version {version} of {named}")
    source = found[1], int(version)
    whose = f"it was cloned from version {version} of {source[0]}, whose"
    # Another table may be in the source's place by now. The log names places only.
    try:
        same = _files(spark, *source) == _files(spark, path, clone.version)
    except DamagedError:
        raise UnknownError(f"{whose} history is gone") from None
    if not same:
        raise UnknownError(f"{whose} files are others: another table is there now")
    return source


def _restored(spark: SparkSession, path: str, restore: commits.Commit) -> int:
    """Return the version that a RESTORE brought back."""
    version, moment = (restore.parameters.get(n) for n in ("version", "timestamp"))
    if version is not None:
        return int(version)
    found = _version_at(spark, path, str(moment))
    # The moment is in the time zone of the process that restored, which the log does not name.
    if found is None or not _same_files(spark, path, found, restore.version):
        raise UnknownError(
            f"version {restore.version} is a RESTORE to {moment}, and no version of that moment "
            "has the same files"
        )
    return found


def _version_at(spark: SparkSession, path: str, moment: str) -> int | None:
    """Return the version that was the newest at a moment; None: the log no longer tells."""
    by_then = F.col("timestamp") <= F.lit(moment).cast("timestamp")
    try:
        history = spark.sql(f"DESCRIBE HISTORY {state.sql_name(path)}")
        (found,) = history.where(by_then).agg(F.max("version")).collect()[0]
    except SPARK_ERRORS:
        return None
    return None if found is None else int(found)


def _same_files(spark: SparkSession, path: str, one: int, other: int) -> bool:
    """Tell whether two versions have the same rows, by their files and deletion vectors."""
    try:
        return _files(spark, path, one) == _files(spark, path, other)
    except DamagedError:
        return False


def _files(spark: SparkSession, path: str, version: int) -> set[tuple[str, ...]]:
    """List the files of a version by full path, each with its deletion vector's size and rows.

    Raises
    ------
    DamagedError : the log no longer holds the version
    """
    files = DataFrame(state.snapshot_at(spark, path, version).allFiles().toDF(), spark)
    vector = (F.col(f"deletionVector.{n}") for n in ("offset", "sizeInBytes", "cardinality"))
    found = files.select("path", *vector).collect()
    # The log escapes names of files, but not the folder.
    names = (unquote(row[0]) for row in found)
    full = (_LOCAL.sub("/", n if _FULL.match(n) else f"{path}/{n}") for n in names)
    return {(name, *row[1:]) for name, row in zip(full, found, strict=True)}
