"""Folders through Hadoop's file systems: files, room, access rights, failing stores."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from evenkeel.registry.store_errors import DeniedError, StoreError
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS, java_cause
from partitioning.errors import SetupError

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
        files, where = hadoop_files(spark, path)
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
    files, where = hadoop_files(spark, path, f"evenkeel-probe-{uuid.uuid4().hex}")
    try:
        files.create(where, False).close()
        created = files.getFileStatus(where).getModificationTime() / 1000
        files.delete(where, False)
    except JAVA_ERRORS as error:
        raise _store_error("written", path, error) from error
    return float(created) if created > 0 else None


def occupied(spark: SparkSession, path: str) -> bool:
    """Return whether the folder holds anything at all, a Delta table or not."""
    files, where = hadoop_files(spark, path)
    if not files.exists(where):
        return False
    return files.getFileStatus(where).isFile() or len(files.listStatus(where)) > 0


def has_parquet(spark: SparkSession, path: str) -> bool:
    """Return whether the first file of rows in a folder that is there is of Parquet."""
    files, where = hadoop_files(spark, path)
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
                files, inside = hadoop_files(spark, folder, name)
                there = files.listStatus(inside) if files.exists(inside) else []
                ends = ".metadata.json" if kind == "Iceberg" else ""
                if any(one.getPath().getName().endswith(ends) for one in there):
                    return kind, folder
        folder = folder.rpartition("/")[0]
    return None


def free_bytes(spark: SparkSession, path: str) -> int | None:
    """Return the bytes that a folder's store has left; None: it has no end, or does not say."""
    try:
        files, where = _there(spark, path)
        free = int(files.getStatus(where).getRemaining())
    except JAVA_ERRORS:
        return None
    return free if free < 1 << 60 else None


def store_of(spark: SparkSession, path: str) -> str:
    """Name the store of a folder: a disk, or a cluster. Its folders share the free bytes."""
    files, where = _there(spark, path)
    store = str(files.getUri().toString())
    if files.getUri().getScheme() == "file":
        return f"{store} {Path(where.toUri().getPath()).stat().st_dev}"
    return store


def _there(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return as `hadoop_files`, of the nearest folder above that is there.

    Java says that nothing is free in a folder that is not there yet.
    """
    files, where = hadoop_files(spark, path)
    while not files.exists(where) and where.getParent() is not None:
        where = where.getParent()
    return files, where


def hadoop_files(spark: SparkSession, path: str, name: str | None = None) -> tuple[Any, Any]:
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
