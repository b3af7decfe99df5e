"""The Spark session of every job: what correctness needs, and defaults that conf may override."""

from __future__ import annotations

import re
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta.write_session import _RESULTS
from partitioning.errors import InputError, UnreachableError

#: Release series that the test suite has run on.
TESTED_SPARK, TESTED_DELTA = "4.2", "4.4"

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_FIXED = {**_RESULTS, "spark.sql.catalog.spark_catalog": _CATALOG}

_DEFAULTS = {
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
    # State is read by runs of neighbouring slots: small row groups let Parquet skip the rest.
    "spark.hadoop.parquet.block.size": str(1 << 20),
    # As many as moved.py lists: by Spark's default, ten, Parquet sees no longer list at all.
    "spark.sql.parquet.pushdown.inFilterThreshold": "1000",
    # Delta reads its log in 50 tasks otherwise, whatever the size of the table.
    "spark.databricks.delta.snapshotPartitions": "4",
}

_FIX = (
    "Start with the jars that `make` puts into .jars, or with "
    "--packages io.delta:delta-spark_4.2_2.13:4.4.0"
)


def session(name: str, **extra: str) -> SparkSession:
    """Get or start the session.

    Parameters
    ----------
    name : what the Spark UI calls the application
    extra : further conf, underscores for dots; it yields to what spark-submit was given

    Raises
    ------
    InputError : Delta is not on the class path, or Spark or Delta is of an untested series
    UnreachableError : the cluster that `spark.master` names cannot be reached
    """
    # Only a conf made beside a running JVM knows what spark-submit was given.
    SparkContext._ensure_initialized()
    conf = SparkConf()
    conf.setIfMissing("spark.app.name", name)
    for key, value in {**_DEFAULTS, **{k.replace("_", "."): v for k, v in extra.items()}}.items():
        conf.setIfMissing(key, value)
    for key, value in _FIXED.items():
        conf.set(key, value)
    conf.set("spark.sql.extensions", _with_delta(conf.get("spark.sql.extensions", "") or ""))
    if (conf.get("spark.master", "local") or "").startswith("local"):
        conf.setIfMissing("spark.ui.enabled", "false")
    _check_series("Spark", pyspark.__version__, TESTED_SPARK)
    _check_delta(SparkContext._jvm)
    try:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except Py4JJavaError as error:
        cause = str(error.java_exception).partition("\n")[0][:200]
        raise UnreachableError(
            f"Spark could not be started ({cause})",
            f"master {conf.get('spark.master')}",
            "Correct spark.master, or see whether its cluster runs and can be reached",
        ) from error


def _with_delta(extensions: str) -> str:
    names = [n.strip() for n in extensions.split(",") if n.strip()]
    return ",".join(names if _EXTENSION in names else [*names, _EXTENSION])


def _check_delta(jvm: Any) -> None:
    # Before there is a session: without Delta that begins with a stack trace.
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(_EXTENSION):
        raise InputError("Delta Lake is not on the class path", "spark.jars", _FIX)
    # `package` is a Scala object's name, hence getattr: it is no Python attribute to py4j.
    _check_series("Delta Lake", str(getattr(jvm.io.delta, "package").VERSION()), TESTED_DELTA)  # noqa: B009


def _check_series(what: str, found: str, tested: str) -> None:
    if not re.match(re.escape(tested) + r"\b", found):
        raise InputError(
            f"{what} {found} is not of the series {tested} that Evenkeel is tested with",
            "Spark session",
            f"Use {what} {tested}.x",
        )
