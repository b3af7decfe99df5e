"""The guard that keeps the commits of two Spark drivers apart at a store."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

#: Spark setting: `true` says that no two programs ever write to tables on S3 at once, so that no
#: log store is asked for.
ONE_DRIVER = "spark.evenkeel.oneDriver"
#: Schemes of stores on which Delta's own log store keeps the commits of two drivers apart.
EXCLUSIVE = {"file", "hdfs", "viewfs", "webhdfs", "abfs", "abfss", "wasb", "wasbs", "adl", "gs"}


def store_scheme(place: str, setting: Callable[[str], str | None]) -> str:
    """Return the scheme of a place's store; without one it is in Hadoop's default file system.

    Parameters
    ----------
    place : a path or a URL
    setting : as for `commits_exclude`
    """
    named = urlsplit(place).scheme
    return named or urlsplit(setting("spark.hadoop.fs.defaultFS") or "").scheme or "file"


def commits_exclude(scheme: str, setting: Callable[[str], str | None]) -> str | None:
    """Return what keeps the commits of two drivers apart at a store, or None: nothing does.

    Delta's own log store for S3, or for a store that it does not know, lets one driver overwrite
    another's commit.

    Parameters
    ----------
    scheme : of the store, such as "s3a"; see `store_scheme`
    setting : the value of a Spark setting, None if it is not set
    """
    if scheme in EXCLUSIVE:
        return f"Delta's own for {scheme}"
    if setting(ONE_DRIVER) == "true":
        return f"{ONE_DRIVER}=true: one writer at a time"
    return setting(f"spark.delta.logStore.{scheme}.impl") or setting("spark.delta.logStore.class")
