"""Files that writes of Delta which were broken off have left in a table's folder."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from evenkeel_spark.tables.filesystem import hadoop_files
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS

#: Files of a first write that has not committed: Parquet parts, and a log without a version.
_ROW_FILES = r"channel=[^/]+/\.?part-[^/]+\.parquet(\.crc)?"
_LOG = r"_delta_log/(?!\d{20}\.).*"
#: Temporary files of Delta's commits and of a version's checksum, not yet renamed to their places,
#: and Hadoop's checksums of them.
_TORN = re.compile(r"\.{1,2}\d{20}\.(json|crc)\..*\.tmp(\.crc)?")


@dataclass(frozen=True)
class Unfinished:
    """Hold what a first write of Delta that has not committed has left in a folder.

    Parameters
    ----------
    written : when it last wrote, in seconds since 1970; 0: the folder has no file
    files : its files, as the JVM's paths
    """

    written: float
    files: list[Any]


def unfinished(spark: SparkSession, path: str, rows: bool = True) -> Unfinished | None:
    """Find what an unfinished first write of Delta has left in a folder.

    Such a write leaves only Parquet parts by channel and a log without a version.

    Parameters
    ----------
    rows : it may have written rows; without, it leaves no parts

    Returns
    -------
    None: the folder holds anything else.
    """
    files, where = hadoop_files(spark, path)
    if files.getFileStatus(where).isFile():
        return None
    # The time of a file alone: S3 says of each folder that it was changed just now.
    newest, seen = 0, []
    root = files.makeQualified(where).toString().rstrip("/") + "/"
    allowed = re.compile(f"{_ROW_FILES}|{_LOG}" if rows else _LOG)
    found = files.listFiles(where, True)
    while found.hasNext():
        file = found.next()
        if not allowed.fullmatch(file.getPath().toString().removeprefix(root)):
            return None
        newest = max(newest, file.getModificationTime())
        seen.append(file.getPath())
    return Unfinished(float(newest) / 1000, seen)


def remove_unfinished(spark: SparkSession, path: str, found: Unfinished) -> None:
    """Remove the files that were found, and folders that are empty then.

    Another job may have made the table since they were found. Its files have other names.
    """
    files, where = hadoop_files(spark, path)
    for file in found.files:
        files.delete(file, False)
    _remove_empty(files, where)


def _remove_empty(files: Any, where: Any) -> None:
    for status in files.listStatus(where):
        if status.isDirectory():
            _remove_empty(files, status.getPath())
    # One that is not empty is refused, or was removed by somebody.
    with suppress(*JAVA_ERRORS):
        files.delete(where, False)


def remove_torn(spark: SparkSession, path: str, hours: float) -> int:
    """Remove temporary files in a table's log that killed commits have left. VACUUM keeps them.

    Parameters
    ----------
    hours : a file must be older than this, as a younger one may be of a running commit

    Returns
    -------
    Number of files removed.
    """
    files, log = hadoop_files(spark, path, "_delta_log")
    before, removed = (time.time() - hours * 3600) * 1000, 0
    for status in files.listStatus(log):
        if _TORN.fullmatch(status.getPath().getName()) and status.getModificationTime() < before:
            removed += bool(files.delete(status.getPath(), False))
    return removed
