"""Attach a job to a Spark that stays up: `evenkeel_spark.runtime.spark_server` keeps it."""

from __future__ import annotations

import os
from typing import IO, Any

import pyspark
from pyspark.sql import SparkSession

from evenkeel.shared_spark import SharedSpark
from partitioning.errors import SetupError

#: The turn of this process, which it has until it ends.
_turn: list[IO[str]] = []


def attached_session(shared: SharedSpark, name: str) -> SparkSession:
    """Wait for the turn, and return a session of a Spark that stays up, as new as one of one's own.

    Raises
    ------
    UnreachableError : there is none
    SetupError : it is of another version
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext

    shared.find()
    if not _turn:
        _turn.append(shared.turn(lambda: print("waits for another job", flush=True)))
    # The one that was found may have been replaced meanwhile.
    address = shared.find()
    if address.version != pyspark.__version__:
        raise SetupError(
            f"expected PySpark {address.version}, found {pyspark.__version__}",
            f"{shared.folder}",
            "Start the Spark that stays up again, with this version",
        )
    os.environ.update(PYSPARK_GATEWAY_PORT=str(address.port), PYSPARK_GATEWAY_SECRET=address.secret)
    try:
        SparkContext._ensure_initialized()
        jvm: Any = SparkContext._jvm
        before = jvm.org.apache.spark.sql.SparkSession.getDefaultSession().get()
        java = jvm.JavaSparkContext.fromSparkContext(before.sparkContext())
        context = SparkContext(
            jsc=java, conf=SparkConf(_jconf=java.getConf()), gateway=SparkContext._gateway
        )
        spark = SparkSession(context, before.newSession())
    except Py4JError as error:
        raise shared.gone() from error
    cancel_all(spark)
    # A job that was killed leaves what it has cached, which may be of an older version by now.
    spark.catalog.clearCache()
    context.setJobDescription(name)
    return spark


def cancel_all(spark: SparkSession) -> None:
    """Cancel what runs in Spark for a job that has ended."""
    context = spark.sparkContext
    if context.statusTracker().getActiveJobsIds():
        context.cancelAllJobs()
