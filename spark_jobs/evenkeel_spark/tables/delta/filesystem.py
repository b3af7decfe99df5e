"""Folders of state tables, through Hadoop's file systems: what is in them, what may be done there,
and whether a store that fails is down or refuses.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from evenkeel.registry.store import DeniedError, StoreError

#: Files of a first write that has not committed: a part, or in the log anything but a version.
_UNFINISHED = re.compile(r"channel=[^/]+/\.?part-[^/]+\.parquet(\.crc)?|_delta_log/(?!\d{20}\.).*")
#: A commit of Delta's, or the checksum file of a version, that was not renamed to its place; and
#: Hadoop's checksum of either.
_TORN = re.compile(r"\.{1,2}\d{20}\.(json|crc)\..*\.tmp(\.crc)?")
#: What file systems raise for want of rights: HDFS's, S3A's and others', local disks'.
_DENIED = re.compile(r"[^\n]*(?:AccessControlException|AccessDeniedException|Permission denied).*")
_AGAIN = "Look at the store, then run this again"


def denied(error: BaseException) -> str | None:
    """The line in which an error of Spark's says that the store refused for want of rights; None:
    it does not."""
    found = _DENIED.search(str(error))
    return None if found is None else found[0].strip()


def check_answers(spark: SparkSession, path: str) -> None:
    """Ask for a file or folder that could not be read, which tells a damaged one, or none, from a
    store that is down.

    Raises
    ------
    StoreError : the store is, or DeniedError where it may not be read
    """
    try:
        files, where = _files(spark, path)
        if files.exists(where) and files.getFileStatus(where).isFile():
            file = files.open(where)
            file.read()
            file.close()
    except Py4JJavaError as error:
        why = str(error.java_exception).partition("\n")[0]
        if "ChecksumException" in why:
            # It has answered: with a file that is damaged.
            return
        raise _store_error("read", path, error) from error
    except IllegalArgumentException:
        # Not a path, taken wrongly from what an error says: there is nothing to ask.
        return


def check_writable(spark: SparkSession, path: str) -> None:
    """Try whether a file can be made in a table's folder and taken away.

    Raises
    ------
    DeniedError : we have not the right
    StoreError : it cannot be done for any other reason
    """
    # Not hidden: VACUUM takes away what a kill leaves here.
    files, where = _files(spark, path, f"evenkeel-probe-{uuid.uuid4().hex}")
    try:
        files.create(where, False).close()
        files.delete(where, False)
    except Py4JJavaError as error:
        raise _store_error("written", path, error) from error


def occupied(spark: SparkSession, path: str) -> bool:
    """Whether the folder holds anything at all, a Delta table or not."""
    files, where = _files(spark, path)
    if not files.exists(where):
        return False
    return files.getFileStatus(where).isFile() or len(files.listStatus(where)) > 0


def unfinished(spark: SparkSession, path: str) -> float | None:
    """When a folder was last written (seconds since 1970) that holds nothing but what a first
    write of Delta leaves before its commit: Parquet parts by channel, a log without a version.
    None: it holds anything else."""
    files, where = _files(spark, path)
    status = files.getFileStatus(where)
    if status.isFile():
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
    files, where = _files(spark, path)
    files.delete(where, True)


def remove_torn(spark: SparkSession, path: str, hours: float) -> int:
    """Remove what commits that were killed left in a table's log more than so many hours ago,
    which VACUUM passes over; returns how many files."""
    files, log = _files(spark, path, "_delta_log")
    before, removed = (time.time() - hours * 3600) * 1000, 0
    for status in files.listStatus(log):
        if _TORN.fullmatch(status.getPath().getName()) and status.getModificationTime() < before:
            removed += bool(files.delete(status.getPath(), False))
    return removed


def _files(spark: SparkSession, path: str, name: str | None = None) -> tuple[Any, Any]:
    """The file system of a folder, and the folder (JVM objects); or, with a name, what is called so
    in it: then without the checksums of local files, which hide files of their own beside it."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path, *([] if name is None else [name]))
    files = where.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if name is not None and files.getUri().getScheme() == "file":
        files = files.getRawFileSystem()
    return files, where


def _store_error(cannot: str, path: str, error: Py4JJavaError) -> StoreError:
    why = str(error.java_exception).partition("\n")[0]
    if denied(error) is not None:
        return DeniedError(cannot, why, path)
    return StoreError(f"cannot be {cannot} ({why})", path, _AGAIN)
