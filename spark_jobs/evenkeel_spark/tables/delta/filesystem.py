"""Folders of state tables through Hadoop's file systems: files, access rights, failing stores."""

from __future__ import annotations

import re
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from evenkeel.log_store import ONE_DRIVER, commits_exclude, store_scheme
from evenkeel.registry.store_errors import DeniedError, StoreError
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS, java_cause
from partitioning.errors import SetupError

#: Files of a first write that has not committed: Parquet parts, and a log without a version.
_ROW_FILES = r"channel=[^/]+/\.?part-[^/]+\.parquet(\.crc)?"
_LOG = r"_delta_log/(?!\d{20}\.).*"
#: Temporary files of Delta's commits and of a version's checksum, not yet renamed to their places,
#: and Hadoop's checksums of them.
_TORN = re.compile(r"\.{1,2}\d{20}\.(json|crc)\..*\.tmp(\.crc)?")
#: Errors of file systems for missing rights: those of HDFS, of S3A and others, of local disks.
_DENIED = re.compile(r"[^\n]*(?:AccessControlException|AccessDeniedException|Permission denied).*")
_LOOK_AND_REPEAT = "Look at the store, then run this again"


def denied(error: BaseException) -> str | None:
    """Find the line of a Spark error that says that the store refused access; None: no line."""
    found = _DENIED.search(str(error))
    return None if found is None else found[0].strip()


def check_answers(spark: SparkSession, path: str) -> None:
    """Read a file or folder that Spark could not read, to tell a damaged file from a failing store.

    Return if the store answers, even if the file is damaged or missing.

    Raises
    ------
    DeniedError : it may not be read
    StoreError : the store does not answer
    """
    try:
        files, where = _files(spark, path)
        if files.exists(where) and files.getFileStatus(where).isFile():
            file = files.open(where)
            file.read()
            file.close()
    except JAVA_ERRORS as error:
        why = java_cause(error)
        if "ChecksumException" in why:
            # The store has answered, and the file is damaged.
            return
        raise _store_error("read", path, error) from error
    except IllegalArgumentException:
        # The text of the error held no path after all: there is nothing to read.
        return


def check_writable(spark: SparkSession, path: str) -> float | None:
    """Check that a file can be created in a table's folder and deleted.

    Returns
    -------
    When it was created, by the store's clock (Unix seconds); a local disk has this machine's. None:
    the store does not say.

    Raises
    ------
    DeniedError : we lack the right
    StoreError : it fails for any other reason
    """
    # The name is not hidden, so VACUUM removes it if we are killed before the delete.
    files, where = _files(spark, path, f"evenkeel-probe-{uuid.uuid4().hex}")
    try:
        files.create(where, False).close()
        created = files.getFileStatus(where).getModificationTime() / 1000
        files.delete(where, False)
    except JAVA_ERRORS as error:
        raise _store_error("written", path, error) from error
    return float(created) if created > 0 else None


def occupied(spark: SparkSession, path: str) -> bool:
    """Return whether the folder holds anything at all, a Delta table or not."""
    files, where = _files(spark, path)
    if not files.exists(where):
        return False
    return files.getFileStatus(where).isFile() or len(files.listStatus(where)) > 0


def has_parquet(spark: SparkSession, path: str) -> bool:
    """Return whether the first file of rows in a folder that is there is of Parquet."""
    files, where = _files(spark, path)
    found = files.listFiles(where, True) if files.exists(where) else None
    while found is not None and found.hasNext():
        file = found.next().getPath().getName()
        if not file.startswith(("_", ".")):
            return bool(file.endswith(".parquet"))
    return False


def table_around(spark: SparkSession, path: str) -> tuple[str, str] | None:
    """Return the format and folder of the table that files of an input are in.

    None: they are in none, or nobody can look. The path may be a pattern, or below the folder.
    """
    pattern = re.search(r"[*?{\[]", path)
    folder = path if pattern is None else path[: pattern.start()].rpartition("/")[0]
    while urlsplit(folder := folder.rstrip("/")).path:
        for kind, name in (("Delta", "_delta_log"), ("Hudi", ".hoodie"), ("Iceberg", "metadata")):
            with suppress(*JAVA_ERRORS):
                files, inside = _files(spark, folder, name)
                there = files.listStatus(inside) if files.exists(inside) else []
                ends = ".metadata.json" if kind == "Iceberg" else ""
                if any(one.getPath().getName().endswith(ends) for one in there):
                    return kind, folder
        folder = folder.rpartition("/")[0]
    return None


def free_bytes(spark: SparkSession, path: str) -> int | None:
    """Return the bytes that a folder's store has left; None: it has no end, or does not say."""
    files, where = _files(spark, path)
    try:
        # Java says that nothing is free in a folder that is not there yet.
        while not files.exists(where) and where.getParent() is not None:
            where = where.getParent()
        free = int(files.getStatus(where).getRemaining())
    except JAVA_ERRORS:
        return None
    return free if free < 1 << 60 else None


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
    files, where = _files(spark, path)
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
    files, where = _files(spark, path)
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
    files, log = _files(spark, path, "_delta_log")
    before, removed = (time.time() - hours * 3600) * 1000, 0
    for status in files.listStatus(log):
        if _TORN.fullmatch(status.getPath().getName()) and status.getModificationTime() < before:
            removed += bool(files.delete(status.getPath(), False))
    return removed


def _files(spark: SparkSession, path: str, name: str | None = None) -> tuple[Any, Any]:
    """Return the file system of a folder, and the folder's path (JVM objects).

    With a name, return the path of that entry, and a file system that shows the checksum files
    of local disks, which are hidden otherwise.
    """
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path, *([] if name is None else [name]))
    files = where.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if name is not None and files.getUri().getScheme() == "file":
        files = files.getRawFileSystem()
    return files, where


def _store_error(cannot: str, path: str, error: Exception) -> StoreError:
    why = java_cause(error)
    if denied(error) is not None:
        return DeniedError(cannot, why, path)
    return StoreError(f"cannot be {cannot} ({why})", path, _LOOK_AND_REPEAT)


def check_log_store(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables on S3, or on a store not known here, if commits of two drivers may clash.

    Raises
    ------
    SetupError : Delta's default log store would be used, which coordinates one driver only there
    """

    def setting(name: str) -> str | None:
        return spark.conf.get(name, None)

    for part in spec.state.values():
        scheme = store_scheme(part.path, setting)
        if commits_exclude(scheme, setting) is None:
            raise SetupError(
                f"on {scheme}:// Delta may let one driver overwrite another's commit",
                part.path,
                f"Set spark.delta.logStore.{scheme}.impl to a log store that does not, or "
                f"{ONE_DRIVER}=true where no two programs ever write at once",
            )


def check_connectors(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse places that Spark has no file system for, such as s3a:// without hadoop-aws.

    Raises
    ------
    SetupError : names the place, and the jar to bring if it is known
    """
    for place in (spec.input.path, *(part.path for part in spec.state.values())):
        if not (scheme := urlsplit(place).scheme):
            continue
        jvm: Any = spark._jvm
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        try:
            jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
        except JAVA_ERRORS as error:
            hadoop = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            raise SetupError(
                f"Spark cannot open {scheme}:// ({java_cause(error)})",
                place,
                f"Start Spark with --packages org.apache.hadoop:hadoop-aws:{hadoop}"
                if scheme == "s3a"
                else "Write s3a://"
                if scheme in ("s3", "s3n")
                else f"Put a connector of {scheme}:// among Spark's jars",
            ) from error
