"""Spark sessions of our own, each for one write, so that no other thread shares its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

#: Results depend on these, so nothing overrides them: a day is a UTC day everywhere, and a value
#: that its type does not hold is an error, never another value or a null.
_RESULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
}


#: Delta's settings for one write: its transaction id, and what its commit says of itself. A write
#: whose id is spent is skipped without an error, so they are set in sessions of our own alone.
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


APP_ID = "spark.databricks.delta.write.txnAppId"


APP_VERSION = "spark.databricks.delta.write.txnVersion"


OF_ONE_WRITE = (USER_METADATA, APP_ID, APP_VERSION)


def own_session(spark: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Make a session that nobody else holds: what we set in it no other thread writes with.

    It has the settings, temporary views and functions of `spark` as they are now, but for those
    that results depend on, and those that are for one write of the caller's. Cached rows are
    shared. Costs about 20 ms and no Spark job.

    Parameters
    ----------
    settings : further conf
    """
    # Not newSession, which would forget what was set since `spark` was started.
    made = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name in OF_ONE_WRITE:
        made.conf.unset(name)
    for name, value in {**(settings or {}), **_RESULTS}.items():
        made.conf.set(name, value)
    # Delta's catalog takes its settings from the session that is active when it is made, which is
    # when it is first asked: here, by SQL, that is this one.
    made.sql("SHOW CURRENT NAMESPACE")
    return made


def in_session(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """Bring rows over to a session: what is done with a DataFrame is done in the session that it
    was made in, whichever session is active."""
    jvm: Any = spark._jvm
    plan = rows._jdf.queryExecution().analyzed()
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark)
