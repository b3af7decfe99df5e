"""Spark sessions for one write each: no other thread shares a session's settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from partitioning.errors import SetupError

#: Settings that results depend on, so nothing overrides them. A day is a UTC day everywhere. A
#: value that its type cannot hold is an error, never another value or a null. So is a file that
#: cannot be read: a window would lack its events for ever.
RESULT_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # A file's column in other letters is the same column; else it would be read as null.
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    # Delta's metrics count what a commit wrote, and its statistics weigh what moves.
    "spark.databricks.delta.history.metricsEnabled": "true",
    "spark.databricks.delta.stats.collect": "true",
    # Files keep microseconds, and the folder of a partition by time names its zone.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # With pruning, a line that is cut off in the columns asked for has nulls, and counts as whole.
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    # A session that stays up would read an input as it was.
    "spark.databricks.delta.stalenessLimit": "0",
}
#: Lets OPTIMIZE sort by a column without statistics: a team may collect them for others alone.
UNMEASURED = {"spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled": "false"}
#: Delta's settings for one write: its commit's metadata and its transaction id. Delta silently
#: skips a write whose id was committed before. So only sessions for one write have these settings.
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
APP_ID = "spark.databricks.delta.write.txnAppId"
APP_VERSION = "spark.databricks.delta.write.txnVersion"
OF_ONE_WRITE = (USER_METADATA, APP_ID, APP_VERSION)


def check_own_jvm(spark: SparkSession) -> None:
    """Refuse a session of Spark Connect: a commit of ours asks the JVM of its own process.

    Raises
    ------
    SetupError : says what works over Spark Connect
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SetupError(
            "expected a Spark session with a JVM of its own, found one of Spark Connect",
            "commit_session and meet",
            "Run this program by spark-submit, without SPARK_REMOTE. Over Spark Connect it can "
            "route, read and append",
        )


def own_session(spark: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Make a session that nobody else holds, so that no other thread writes with its settings.

    It has the settings, temporary views and functions of `spark` as they are now, except those
    that results depend on and those of one write of the caller's. Cached rows are shared. It costs
    about 20 ms and no Spark job.

    Parameters
    ----------
    spark : the session to copy
    settings : further conf

    Raises
    ------
    SetupError : the session is one of Spark Connect
    """
    check_own_jvm(spark)
    # newSession would forget the settings made since `spark` was started.
    made = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name in OF_ONE_WRITE:
        made.conf.unset(name)
    for name, value in {**(settings or {}), **RESULT_SETTINGS}.items():
        made.conf.set(name, value)
    # Delta's catalog takes its settings from the session that is active when the catalog is made,
    # at its first use. Use it here, so that it is made with the new session's settings. No SQL: in
    # Spark 4.0 SHOW CURRENT NAMESPACE fails while any rows are cached.
    with active_session(made):
        made.catalog.currentCatalog()
    return made


@contextmanager
def commit_session(
    spark: SparkSession,
    app: str | None,
    version: int | None,
    meta: Mapping[str, Any],
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Make a session for one commit, with its metadata and, if `app` is given, a transaction id.

    Delta silently skips a write whose (app, version) was committed before. So each write has a
    session of its own (`own_session`), in which no other thread writes; `spark` stays as it is. A
    DataFrame of another session must be brought over to be written (`in_session`). The source of
    a MERGE may be of any session.

    Parameters
    ----------
    spark : the session to take all other settings from; not one of Spark Connect
    app, version : the writer's name, and the number of this write; numbers of a name must grow
    meta : goes into the commit's userMetadata, as JSON; its key `evenkeel` is ours
    settings : further conf of the session. Those of `RESULT_SETTINGS`, such as UTC and ANSI mode,
        stay, because results depend on them
    """
    own = own_session(spark, settings)
    own.conf.set(USER_METADATA, json.dumps(dict(meta), sort_keys=True))
    if app is not None:
        own.conf.set(APP_ID, app)
        own.conf.set(APP_VERSION, str(version))
    try:
        yield own
    finally:
        for name in OF_ONE_WRITE:
            own.conf.unset(name)


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the thread's active one: Delta takes a commit's settings from there."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def in_session(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """Bring rows over to a session.

    Work on a DataFrame runs in the session that it was made in, whichever session is active.
    """
    jvm: Any = spark._jvm
    plan = rows._jdf.queryExecution().analyzed()
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark)
